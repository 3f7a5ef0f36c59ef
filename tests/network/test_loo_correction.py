"""The second look: leave-one-out outputs, the regression of what they miss, and the network that has one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from one_cpu import one_cpu_only
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.datasets import load_digits

from rescnet import ComputeOptions, load, make_config, save, train
from rescnet.model_files.errors import ModelFileError
from rescnet.model_files.readout_file import readout_from_bytes, readout_to_bytes
from rescnet.network.memory import readout_bytes
from rescnet.network.model import Model
from rescnet.network.readout.layerwise_pass import LayerwisePass
from rescnet.network.readout.loo_correction import JITTER, RIDGE, WIDTH, fit_correction, leave_one_out
from rescnet.stages.augment import view_images
from rescnet.stages.gaussian_kernel import PairDistances, Standard

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images[:, None].astype(np.uint8), DIGITS.target
OPTIONS = {"layers": 2, "filters": 4, "readout": "kernel"}


@pytest.fixture(scope="module", autouse=True)
def one_cpu():
    """Use no GPU where there is one, and one thread."""
    with one_cpu_only():
        yield


@pytest.fixture(scope="module")
def pair():
    """A network without a second look and the same with one, both of 250 digits, and their histories."""
    others = {"validation": (IMAGES[250:400], LABELS[250:400]), "test": (IMAGES[400:600], LABELS[400:600])}
    return [
        train(
            IMAGES[:250],
            LABELS[:250],
            make_config("digits", loo_correction=loo_correction, **OPTIONS),
            **others,
            compute=ComputeOptions(dtype="float64"),
        )
        for loo_correction in (False, True)
    ]


def one_hot(labels, classes=10):
    return torch.eye(classes, dtype=torch.float64)[torch.as_tensor(labels)]


def test_leaving_one_out_is_fitting_without_it():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    targets = one_hot(torch.arange(12) % 3, 3)
    kernel = torch.exp(-(torch.cdist(points, points) ** 2) / 4)
    ridge = 0.1 * torch.eye(12, dtype=torch.float64)
    found = leave_one_out(torch.linalg.cholesky(kernel + ridge), targets)
    for out in range(12):
        kept = [other for other in range(12) if other != out]
        coefficients = torch.linalg.solve((kernel + ridge)[kept][:, kept], targets[kept])
        torch.testing.assert_close(found[out], kernel[out, kept] @ coefficients)


def test_the_inverse_is_counted_before_any_work():
    shape, config = (1, 8, 8), make_config("digits", **OPTIONS)
    once, twice = (
        readout_bytes(replace(config, loo_correction=look), shape, 5000, 100, 4, False, "cpu") for look in (False, True)
    )
    assert twice - once == 4 * 5000**2


def test_mirrored_views_are_looked_at_again():
    """With flips an image and its mirror image stay the same, and views are averaged after the second look."""
    options = OPTIONS | {"augment": "flip", "test_views": "flip + shift 1", "loo_correction": True}
    others = {"validation": (IMAGES[250:300], LABELS[250:300])}
    network, history = train(
        IMAGES[:250], LABELS[:250], make_config("digits", **options), **others, compute=ComputeOptions(dtype="float64")
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
    look = fit_correction(outputs, one_hot(labels, 3))
    o = outputs.numpy()
    near = np.exp(-((o[:, None] - o[None]) ** 2).sum(2) / (2 * WIDTH**2))
    system = near.T @ near + RIDGE * near + JITTER * np.eye(300)
    wanted = np.linalg.solve(system, near.T @ (one_hot(labels, 3).numpy() - o))
    np.testing.assert_allclose(look(outputs), o + near @ wanted, atol=1e-7)


def test_it_mends_a_class_that_is_given_too_little():
    """Also of images it was not fitted to, from more images than it has centres."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(3, (6000,), generator=generator)
    outputs = one_hot(labels, 3) * 0.6 + 0.15 * torch.randn(6000, 3, generator=generator, dtype=torch.float64)
    outputs[:, 1] -= 0.3
    look = fit_correction(outputs[:4000], one_hot(labels[:4000], 3))
    assert len(look.centres) == 1000
    before, after = (float((z[4000:].argmax(1) == labels[4000:]).double().mean()) for z in (outputs, look(outputs)))
    assert after > before + 0.02


def test_a_network_looks_at_its_outputs_again(pair):
    (plain, _), (twice, history) = pair
    new = IMAGES[400:600]
    first, look = plain.outputs(new), twice.readout.loo_correction
    assert plain.readout.loo_correction is None
    torch.testing.assert_close(twice.outputs(new), look(first), rtol=0, atol=1e-8)
    assert float((twice.outputs(new) - first).abs().max()) > 0.05
    for accuracy, part in (
        (history.readout.validation_accuracy, slice(250, 400)),
        (history.readout.test_accuracy, slice(400, 600)),
    ):
        assert float((twice.predict(IMAGES[part]).numpy() == LABELS[part]).mean()) == pytest.approx(accuracy)
    assert twice.nbytes - plain.nbytes == look.centres.nbytes + look.coefficients.nbytes


def test_it_is_learnt_from_outputs_of_images_left_out(pair):
    """The outputs it is centred on are those of the label's regression, the layers' heads having no part in them."""
    (plain, _), (twice, _) = pair
    with torch.inference_mode():
        walk = LayerwisePass(plain, torch.as_tensor(IMAGES[:250]), False)
        distances = PairDistances(250, 250, 1, walk.output)
        for layer in plain.layers:
            features = walk.through(layer)
            distances.add(Standard.of(features).apply_(features), features)
        kernel = distances.kernel_(plain.readout.scale) + plain.readout.ridge * torch.eye(250, dtype=torch.float64)
        out, kept = 100, [i for i in range(250) if i != 100]
        alone = torch.linalg.solve(kernel[kept][:, kept], one_hot(LABELS[:250])[kept])
        torch.testing.assert_close(twice.readout.loo_correction.centres[out], kernel[out, kept] @ alone)


def test_files_keep_it(pair, tmp_path):
    (_, _), (twice, history) = pair
    save(tmp_path / "model", Model(twice, history, tuple("0123456789"), {}))
    read = load(tmp_path / "model").network
    assert torch.equal(read.readout.loo_correction.centres, twice.readout.loo_correction.centres)
    torch.testing.assert_close(read.outputs(IMAGES[400:450]), twice.outputs(IMAGES[400:450]))
    tensors = load_tensors(readout_to_bytes(twice.readout))
    tensors["loo_correction.coefficients"] = tensors["loo_correction.coefficients"][:, :9].contiguous()
    with pytest.raises(ModelFileError, match=r"looks twice at \(250, 10\) outputs with \(250, 9\) coefficients"):
        readout_from_bytes(save_tensors(tensors), "readout", (1, 8, 8), 10)
    del tensors["loo_correction.coefficients"]
    with pytest.raises(ModelFileError, match="is not a readout of rescnet"):
        readout_from_bytes(save_tensors(tensors), "readout", (1, 8, 8), 10)
