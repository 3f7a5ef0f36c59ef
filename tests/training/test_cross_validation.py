"""Cross-validated outputs of the readout: those of a fit to the other images."""

from __future__ import annotations

import pytest
import torch

from rescnet import NetworkConfig
from rescnet.network.probabilities import fit_temperature
from rescnet.network.readout import Encoder, Quantised
from rescnet.network.readout.loo_correction import ErrorRegression, leave_one_out
from rescnet.numerics.code_kernel import Codes, code_kernel, median_squared_distance
from rescnet.training.readout import cross_validation
from rescnet.training.readout.cross_validation import FOLDS, cross_validate, judge
from rescnet.training.readout.encoder import SketchRows
from rescnet.training.readout.system import solve_exactly
from rescnet.training.run import TrainingRun
from rescnet.training.workers import Workers


def made_sketches(images, side=1, numbers=200):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % 3
    centres = torch.randn(3, numbers, generator=generator)
    rows = centres[labels] + torch.randn(images, numbers, generator=generator)
    copies = rows[:, None] + 0.1 * torch.randn(images, side, numbers, generator=generator)
    return copies.flatten(0, 1), torch.nn.functional.one_hot(labels.repeat_interleave(side), 3).float()


def fit_to_others(rows, targets, side, size, out, ridge_factors=None):
    """The same by the encoder of the sketches themselves; it rounds its projection to eight bits."""
    kept = torch.ones(len(rows), dtype=torch.bool).view(-1, side)
    kept[out] = False
    kept = kept.flatten()
    seen = SketchRows(rows[kept], 0, int(kept.sum()), torch.device("cpu"), Workers())
    components = seen.components(int(kept.sum()), 0)
    outside = float(components.square().sum(0).median()) if size == len(rows) else 0.0
    encoder = Encoder(torch.ones(1, 1), seen.centre, Quantised.of(components), False, outside)
    near, far = (encoder.codes(some, components) for some in (rows[kept], rows[::side][out]))
    near = Codes.of(near.values)
    scale = 0.8 / median_squared_distance(near)
    factors = None if ridge_factors is None else ridge_factors[kept]
    solution = solve_exactly(near, targets[kept], scale, 0.01, 1, factors)
    return code_kernel(far, near, scale) @ solution.columns


@pytest.mark.parametrize(
    ("side", "size", "weighted"), [(1, 40, False), (1, 40, True), (3, 120, False), (3, 110, False)]
)
def test_outputs_are_those_of_a_fit_to_the_other_images(side, size, weighted):
    rows, targets = made_sketches(40, side)
    ridge_factors = torch.linspace(0.5, 2, len(rows)) if weighted else None
    outputs, numbers = cross_validate(rows @ rows.T, targets, side, size, 0.8, 0.01, 0, ridge_factors)
    assert sorted(numbers.tolist()) == list(range(40))
    for start in range(0, 40, 40 // FOLDS):
        out = numbers[start : start + 40 // FOLDS]
        expected = fit_to_others(rows, targets, side, size, out, ridge_factors)
        torch.testing.assert_close(outputs[start : start + len(out)], expected, rtol=0, atol=2e-3)


def test_many_rows_are_predicted_in_part(monkeypatch):
    rows, targets = made_sketches(40)
    whole, numbers = cross_validate(rows @ rows.T, targets, 1, 40, 0.8, 0.01, 0)
    monkeypatch.setattr(cross_validation, "FEW_ROWS", 39)
    part, some = cross_validate(rows @ rows.T, targets, 1, 40, 0.8, 0.01, 0)
    assert len(some) == 16 and torch.equal(some, numbers[:16]) and torch.equal(part, whole[:16])


def test_equal_images_give_equal_outputs():
    """Without any variance there is no component, and the mean of the targets is predicted."""
    rows, targets = torch.ones(10, 4), torch.eye(2).repeat(5, 1)
    outputs, _ = cross_validate(rows @ rows.T, targets, 1, 40, 0.8, 0.01, 0)
    torch.testing.assert_close(outputs.sum(1), torch.ones(10), rtol=0, atol=0.01)


def test_the_temperature_of_few_images_is_fitted_to_them(monkeypatch):
    """Outputs that are all wrong make the softmax flat."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(30) % 3
    images = (torch.rand(30, 1, 8, 8, generator=generator) * 100 + 50 * labels.view(-1, 1, 1, 1)).byte()
    config = NetworkConfig(layers=1, filters=4, block_sizes=[4], pyramid=[1], bank="pca", readout="kernel")

    def wrong(products, targets, *_):
        return -10 * targets, torch.arange(30)

    found = []
    for replaced in (False, True):
        if replaced:
            monkeypatch.setattr("rescnet.training.readout.cross_validation.cross_validate", wrong)
        run = TrainingRun(images, labels, config)
        list(run)
        found.append(run.network.readout.temperature)
    assert found[1] > 5 * found[0]


@pytest.mark.parametrize(("side", "size", "factor"), [(1, 40, 1.1), (1, 39, 1.0), (2, 40, 1.0)])
def test_the_temperature_is_raised_if_all_components_are_kept(side, size, factor, generator):
    """Not with fewer components, nor with copies."""
    rows, images = torch.randn(40, 60, generator=generator), 40 // side
    targets = torch.eye(2)[torch.arange(images) % 2].repeat_interleave(side, 0)
    columns, blocks = torch.zeros(40, 2), torch.eye(side).expand(images, side, side)
    config = NetworkConfig(readout="kernel", kernel_copies="1 shift 1" if side == 2 else "")
    products = rows @ rows.T
    _, found, _ = judge(config, targets, columns, blocks, products, size, 0.01, None)
    how = side, size, config.kernel_width, 0.01, config.seed, None
    outputs, numbers = cross_validate(products, targets, *how)
    fitted = fit_temperature(outputs, targets[::side][numbers].argmax(1))
    assert found == pytest.approx(factor * fitted)


@pytest.mark.parametrize("few", [False, True])
def test_accuracy_and_temperature_are_those_of_corrected_outputs(few, generator):
    """Each output is corrected without its image; the temperature of few images is that of folds."""
    wanted = torch.arange(60) % 3
    targets = torch.nn.functional.one_hot(wanted, 3).float()
    rows = torch.randn(60, 3, generator=generator) + 1.2 * targets
    kernel = torch.exp(-((torch.cdist(rows, rows) / 2) ** 2)) + 0.5 * torch.eye(60)
    columns, blocks = torch.linalg.solve(kernel, targets), kernel.inverse().diagonal()[:, None, None]
    config, products = NetworkConfig(readout="kernel", loo_correction=True), rows @ rows.T if few else None
    correction, temperature, accuracy = judge(config, targets, columns, blocks, products, 40, 0.5, None)

    known = leave_one_out(targets, columns, blocks)
    regression = ErrorRegression.of(known, targets)
    outputs = regression.corrected()
    assert torch.equal(correction.coefficients, regression.coefficients)
    assert accuracy == pytest.approx(share_right(outputs, wanted))
    others = share_right(known, wanted), share_right(regression.correction(known.double()), wanted)
    assert all(accuracy != pytest.approx(other) for other in others)
    if few:
        known, numbers = cross_validate(products, targets, 1, 40, config.kernel_width, 0.5, config.seed)
        outputs, wanted = regression.corrected_others(known, numbers), wanted[numbers]
    assert temperature == pytest.approx(fit_temperature(outputs, wanted))
    assert temperature != pytest.approx(fit_temperature(known, wanted), rel=0.01)


def share_right(outputs, labels):
    return float((outputs.argmax(1) == labels).double().mean())
