"""The stock baselines of ``rescnet compare``: their features, networks and training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rescnet.experiments import baselines
from rescnet.experiments.baselines import BaselineConfig, fit_baseline, hog, resnet18, shifted, small_cnn

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.mark.parametrize(("across", "orientation"), [(True, 0), (False, 4)])
def test_hog_of_an_edge_votes_for_its_orientation(across, orientation):
    ramp = np.broadcast_to(np.arange(16, dtype=np.uint8) * 10, (16, 16))
    image = (ramp if across else ramp.T)[None, None]
    blocks = hog(image, CPU).reshape(9, 4, 7, 7)  # orientations, cells of a block, blocks
    strongest = blocks[:, :, 3, 3].sum(1)
    if across:
        assert strongest.argmax() == orientation and strongest[1:].abs().max() < 1e-6
    else:  # 90° are between the orientations 4 and 5 of nine
        assert strongest[4] == pytest.approx(strongest[5]) and strongest[[0, 1, 2, 3, 6, 7, 8]].abs().max() < 1e-6


def test_hog_ignores_light_and_sign_and_takes_the_strongest_channel():
    rng = np.random.default_rng(0)
    grey = rng.random((3, 1, 16, 20), np.float32)
    features = hog(grey, CPU)
    assert features.shape == (3, 36 * 7 * 9)
    torch.testing.assert_close(hog(1 - 0.5 * grey, CPU), features)
    torch.testing.assert_close(hog(np.concatenate([0.1 * grey, grey], 1), CPU), features)
    torch.testing.assert_close(hog(grey, CPU, chunk=2), features)
    norms = features.reshape(3, 36, 63).norm(dim=1)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_resnet18_has_the_parameters_it_is_known_for():
    assert sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters()) == 11_173_962


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 12, 20)])
def test_scores_of_the_small_cnn(shape):
    assert small_cnn(shape, 7).eval()(torch.zeros(2, *shape)).shape == (2, 7)


def test_shifts_and_flips():
    torch.manual_seed(0)
    image = torch.zeros(1, 2, 9, 9)
    image[0, :, 4, 2] = torch.tensor([3.0, 5.0])
    moved = shifted(image.expand(2000, -1, -1, -1), 2, flips=False)
    rows, columns = moved[:, 1].flatten(1).argmax(1) // 9, moved[:, 1].flatten(1).argmax(1) % 9
    assert set(rows.tolist()) == {2, 3, 4, 5, 6} and set(columns.tolist()) == {0, 1, 2, 3, 4}
    assert moved.shape == (2000, 2, 9, 9) and moved.sum((2, 3)).eq(torch.tensor([3.0, 5.0])).all()
    flipped = shifted(image.expand(2000, -1, -1, -1), 0, flips=True)[:, 0, 4]
    assert set(flipped.argmax(1).tolist()) == {2, 6} and 900 < int((flipped.argmax(1) == 2).sum()) < 1100


@pytest.mark.parametrize("name", ["svc", "forest", "hog-svm", pytest.param("cnn", marks=pytest.mark.slow)])
def test_baselines_learn_and_keep_the_numbers_of_classes(name, blobs, monkeypatch):
    monkeypatch.setattr(baselines, "TREES", 30)
    images, labels = blobs[0][..., :8, :8], blobs[1]
    images, labels = images[labels != 1], labels[labels != 1].astype(np.int64)
    config = BaselineConfig(name=name, epochs=3, seed=1)
    predict, size = fit_baseline(config, images[:120], labels[:120], CPU)
    predicted = predict(images[120:]).numpy()
    assert (predicted == labels[120:]).mean() > 0.5 and size > 1000
    again, _ = fit_baseline(config, images[:120], labels[:120], CPU)
    assert (again(images[120:]).numpy() == predicted).all()


def test_resnet18_takes_a_step_and_leaves_the_random_state(blobs):
    images, labels = blobs
    torch.manual_seed(3)
    before = torch.get_rng_state()
    config = BaselineConfig(name="resnet18", seconds=1e-6)
    predict, _ = fit_baseline(config, images[:4, :, :8, :8], labels[:4].astype(np.int64), CPU)
    assert predict(images[:3, :, :8, :8]).shape == (3,)
    assert torch.equal(torch.get_rng_state(), before)


def test_svc_refuses_sets_that_take_hours(monkeypatch, blobs):
    monkeypatch.setattr(baselines, "MOST_FOR_SVC", 100)
    with pytest.raises(ValueError, match="svc must have at most 100 training images, got 200"):
        fit_baseline(BaselineConfig(), blobs[0][:200], blobs[1][:200], CPU)


def test_options_are_checked_and_described():
    with pytest.raises(ValueError, match="epochs must be finite and at least 0, got -1"):
        BaselineConfig(epochs=-1)
    config = BaselineConfig(name="resnet18")
    assert config.describe(500) == "SGD, 200 epochs, shifts, no flips"
    assert replace(config, epochs=7, flips=True).describe(500) == "SGD, 7 epochs, shifts and flips"
    assert replace(config, name="cnn", seconds="2.5").describe(500) == "Adam, 2.5 s, shifts, no flips"
