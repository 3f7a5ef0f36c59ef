"""The stock baselines of ``rescnet compare``."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescnet.compare import baselines
from rescnet.compare.baselines import BASELINES, fit_svc, hog

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


@pytest.mark.parametrize("name", ["svc", "forest", "hog-svm"])
def test_baselines_learn_and_keep_the_numbers_of_classes(name, blobs, monkeypatch):
    monkeypatch.setattr(baselines, "TREES", 30)
    images, labels = blobs[0][..., :8, :8], blobs[1]
    images, labels = images[labels != 1], labels[labels != 1].astype(np.int64)
    predict, size = BASELINES[name](images[:120], labels[:120], CPU, 1)
    predicted = predict(images[120:]).numpy()
    assert (predicted == labels[120:]).mean() > 0.5 and size > 1000
    again, _ = BASELINES[name](images[:120], labels[:120], CPU, 1)
    assert (again(images[120:]).numpy() == predicted).all()


def test_svc_refuses_sets_that_take_hours(monkeypatch, blobs):
    monkeypatch.setattr(baselines, "MOST_FOR_SVC", 100)
    with pytest.raises(ValueError, match="svc must have at most 100 training images, got 200"):
        fit_svc(blobs[0][:200], blobs[1][:200], CPU, 0)
