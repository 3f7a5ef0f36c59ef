"""Leave-one-out correction: the outputs, the regression of their errors, and a network with a correction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from train_network import train_network

from rescnet import ComputeOptions, Config, load, save
from rescnet.model import Model
from rescnet.network.readout.loo_correction import JITTER, RIDGE, WIDTH, ErrorRegression, leave_one_out, nearness
from rescnet.numerics.linear_algebra import factor_solve, inverse_blocks
from rescnet.saving import ModelFileError
from rescnet.saving.tensors import readout_from_bytes, readout_to_bytes
from rescnet.stages.augment import view_images

OPTIONS = {"layers": 2, "filters": 4, "readout": "kernel"}
pytestmark = pytest.mark.usefixtures("one_cpu")


@pytest.fixture(scope="module")
def pair():
    """A network without a correction and the same with one, both of 250 digits, and their histories."""
    others = {"validation": (IMAGES[250:400], LABELS[250:400]), "test": (IMAGES[400:600], LABELS[400:600])}
    return [
        train_network(
            IMAGES[:250],
            LABELS[:250],
            Config("digits", loo_correction=loo_correction, **OPTIONS).complete(),
            **others,
            compute=ComputeOptions(dtype="float64"),
        )
        for loo_correction in (False, True)
    ]


def one_hot(labels, classes=10):
    return torch.eye(classes, dtype=torch.float64)[torch.as_tensor(labels)]


def test_an_image_is_left_out_with_its_copies():
    """Two rows per image: the output of the first without both."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    targets = one_hot(torch.arange(6).repeat_interleave(2) % 3, 3)
    matrix = torch.exp(-(torch.cdist(points, points) ** 2) / 4) + 0.1 * torch.eye(12, dtype=torch.float64)
    factor = torch.linalg.cholesky(matrix)
    found = leave_one_out(targets, factor_solve(factor, targets), inverse_blocks(factor, 2))
    for out in range(6):
        kept = [other for other in range(12) if other // 2 != out]
        coefficients = torch.linalg.solve(matrix[kept][:, kept], targets[kept])
        torch.testing.assert_close(found[out], matrix[2 * out, kept] @ coefficients)


def test_leaving_one_out_is_fitting_without_it():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    targets = one_hot(torch.arange(12) % 3, 3)
    kernel = torch.exp(-(torch.cdist(points, points) ** 2) / 4)
    ridge = 0.1 * torch.eye(12, dtype=torch.float64)
    factor = torch.linalg.cholesky(kernel + ridge)
    found = leave_one_out(targets, factor_solve(factor, targets), inverse_blocks(factor, 1))
    for out in range(12):
        kept = [other for other in range(12) if other != out]
        coefficients = torch.linalg.solve((kernel + ridge)[kept][:, kept], targets[kept])
        torch.testing.assert_close(found[out], kernel[out, kept] @ coefficients)


def test_views_are_averaged_after_the_correction():
    """With flips an image and its mirror image also have the same outputs."""
    options = OPTIONS | {"augment": "flip", "test_views": "flip + shift 1", "loo_correction": True}
    others = {"validation": (IMAGES[250:300], LABELS[250:300])}
    network, history = train_network(
        IMAGES[:250],
        LABELS[:250],
        Config("digits", **options).complete(),
        **others,
        compute=ComputeOptions(dtype="float64"),
    )
    new = IMAGES[250:300]
    found = network.outputs(new)
    torch.testing.assert_close(
        network.averaged_over("flip").outputs(new[..., ::-1].copy()),
        network.averaged_over("flip").outputs(new),
        rtol=0,
        atol=1e-8,
    )
    shifted = [
        network.averaged_over("").outputs(view_images(torch.as_tensor(new), view)) for view in network.config.views[:5]
    ]
    torch.testing.assert_close(found, torch.stack(shifted).mean(0), rtol=0, atol=1e-8)
    assert history.readout.validation_accuracy == pytest.approx(
        float((found.argmax(1).numpy() == LABELS[250:300]).mean())
    )


def test_the_regression_is_the_one_its_formula_says():
    generator = torch.Generator().manual_seed(1)
    outputs, labels = torch.rand(300, 3, generator=generator, dtype=torch.float64), torch.arange(300) % 3
    correction = ErrorRegression.of(outputs, one_hot(labels, 3)).correction
    o = outputs.numpy()
    near = np.exp(-((o[:, None] - o[None]) ** 2).sum(2) / (2 * WIDTH**2))
    system = near.T @ near + RIDGE * near + JITTER * np.eye(300)
    wanted = np.linalg.solve(system, near.T @ (one_hot(labels, 3).numpy() - o))
    np.testing.assert_allclose(correction(outputs), o + near @ wanted, atol=1e-7)


@pytest.mark.parametrize("images", [60, 1500], ids=["all are centres", "half are centres"])
def test_a_correction_without_an_image_is_the_one_fitted_without_it(images):
    """The centres stay, as the formula has it; the outputs that are corrected may be others than the known ones."""
    generator = torch.Generator().manual_seed(3)
    known = torch.rand(images, 3, generator=generator, dtype=torch.float64)
    labels = torch.arange(images) % 3
    targets, numbers = one_hot(labels, 3).double(), torch.tensor([images - 1, 0, 7, 8])
    outputs = known[numbers] + 0.1 * torch.randn(4, 3, generator=generator, dtype=torch.float64)
    regression = ErrorRegression.of(known, targets)
    centres = regression.centres
    assert len(centres) == min(images, 750)
    corrected = regression.corrected_others(outputs, numbers)
    for found, output, number in zip(corrected, outputs, numbers, strict=True):
        kept = torch.arange(images) != number
        near = nearness(known[kept], centres)
        system = near.T @ near + RIDGE * nearness(centres, centres) + JITTER * torch.eye(len(centres))
        coefficients = torch.linalg.solve(system, near.T @ (targets - known)[kept])
        expected = output + nearness(output[None], centres)[0] @ coefficients
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    everyone = regression.corrected_others(known, torch.arange(images))
    torch.testing.assert_close(regression.corrected(), everyone, rtol=0, atol=1e-9)


def test_it_corrects_a_class_with_outputs_too_small():
    """Also on other images than it was fitted to, and with more images than centres."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(3, (3000,), generator=generator)
    outputs = one_hot(labels, 3) * 0.6 + 0.15 * torch.randn(3000, 3, generator=generator, dtype=torch.float64)
    outputs[:, 1] -= 0.3
    correction = ErrorRegression.of(outputs[:2000], one_hot(labels[:2000], 3)).correction
    assert len(correction.centres) == 1000
    before, after = (
        float((z[2000:].argmax(1) == labels[2000:]).double().mean()) for z in (outputs, correction(outputs))
    )
    assert after > before + 0.02


def test_a_network_corrects_its_outputs(pair):
    (plain, _), (corrected, history) = pair
    new = IMAGES[400:600]
    first, correction = plain.outputs(new), corrected.readout.correction
    assert plain.readout.correction is None
    torch.testing.assert_close(corrected.outputs(new), correction(first), rtol=0, atol=1e-8)
    assert float((corrected.outputs(new) - first).abs().max()) > 0.05
    for accuracy, part in (
        (history.readout.validation_accuracy, slice(250, 400)),
        (history.readout.test_accuracy, slice(400, 600)),
    ):
        assert float((corrected.predict_indices(IMAGES[part]).numpy() == LABELS[part]).mean()) == pytest.approx(
            accuracy
        )
    assert corrected.nbytes - plain.nbytes == correction.centres.nbytes + correction.coefficients.nbytes


def test_it_is_learned_from_outputs_of_images_left_out(pair):
    """Its centres are outputs of the regression of the labels; the layers' heads have no part in them."""
    (plain, _), (corrected, _) = pair
    codes = plain.readout.codes.values(torch.float64)
    kernel = torch.exp(-plain.readout.scale * torch.cdist(codes, codes) ** 2)
    system = kernel + plain.readout.ridge * torch.eye(250, dtype=torch.float64)
    for out in (0, 100, 249):
        kept = [i for i in range(250) if i != out]
        alone = torch.linalg.solve(system[kept][:, kept], one_hot(LABELS[:250])[kept])
        torch.testing.assert_close(corrected.readout.correction.centres[out], kernel[out, kept] @ alone)


def test_files_keep_it(pair, tmp_path):
    (_, _), (corrected, history) = pair
    save(Model(corrected, history, tuple("0123456789"), {}), tmp_path / "model")
    read = load(tmp_path / "model").network
    assert torch.equal(read.readout.correction.centres, corrected.readout.correction.centres)
    torch.testing.assert_close(read.outputs(IMAGES[400:450]), corrected.outputs(IMAGES[400:450]))
    tensors = load_tensors(readout_to_bytes(corrected.readout))
    tensors["loo_correction.coefficients"] = tensors["loo_correction.coefficients"][:, :9].contiguous()
    network = corrected.config, (1, 8, 8), 10, 2
    with pytest.raises(ModelFileError, match=r"'loo_correction.coefficients' must have shape \(250, 10\), got"):
        readout_from_bytes(save_tensors(tensors), "readout", *network)
    del tensors["loo_correction.coefficients"]
    with pytest.raises(ModelFileError, match=r"must have a tensor 'loo_correction.coefficients'"):
        readout_from_bytes(save_tensors(tensors), "readout", *network)
