"""The networks trained by gradients that ours is compared with: built as their papers say, and they learn."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from lab.__main__ import add_networks, fit_network
from lab.baselines import LEARNING_RATES, NETWORKS
from lab.baselines.maxout import maximum
from lab.baselines.stochastic_pooling import StochasticPool
from lab.baselines.training import DeviceImages, Recipe, epochs_within, shifted, train_baseline
from rescnet.compare import baselines
from rescnet.compare.comparison import parse_models

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_scores_of_colour_and_grey_images(name):
    for shape in ((3, 32, 32), (1, 28, 28)):
        network = NETWORKS[name](shape, 7).eval()
        assert network(torch.zeros(2, *shape)).shape == (2, 7)
    assert name in LEARNING_RATES


def test_stochastic_pooling_draws_by_value_and_predicts_the_weighted_mean():
    torch.manual_seed(0)
    x = torch.tensor([[1.0, 0, 3], [0, 2, 0], [4, 0, 0]]).expand(20_000, 1, 3, 3)
    pool = StochasticPool(3, 3)  # the padded window at the corner holds the upper left 2×2 pixels: 1 and 2
    drawn = pool.train()(x)[:, 0, 0, 0]
    assert set(drawn.tolist()) == {1.0, 2.0}
    assert float((drawn == 2).float().mean()) == pytest.approx(2 / 3, abs=0.02)
    assert pool.eval()(x)[0, 0, 0, 0].item() == pytest.approx((1 * 1 + 2 * 2) / 3)
    assert pool.train()(torch.zeros(4, 2, 6, 6)).abs().sum() == 0


def test_maxout_takes_the_greatest_piece():
    x = torch.randn(2, 6, 4, 4)
    wanted = torch.stack([torch.maximum(x[:, 2 * i], x[:, 2 * i + 1]) for i in range(3)], 1)
    assert torch.equal(maximum(x, 2), wanted)


def test_the_rate_rises_to_its_peak_and_falls_to_nothing():
    recipe = Recipe(epochs=10, learning_rate=0.5)
    rates = [recipe.rate(done) for done in np.linspace(0, 1, 101)]
    peak = int(np.argmax(rates))
    assert rates[peak] == pytest.approx(0.5) and peak == 30
    assert np.all(np.diff(rates[: peak + 1]) > 0) and np.all(np.diff(rates[peak:]) < 0) and rates[-1] < 1e-9


def test_a_network_learns_and_its_seconds_add_up(blobs):
    images, labels = blobs[0][..., :8, :8], blobs[1]
    training = DeviceImages(images[:180], labels[:180], CPU)
    assert training.images.mean().abs() < 0.01 and training.images.std() == pytest.approx(1, abs=0.02)
    test = DeviceImages(images[180:], labels[180:], CPU, like=training)
    heard = []
    recipe = Recipe(epochs=6, batch=30, learning_rate=0.02)
    _, records = train_baseline(NETWORKS["stochastic-pooling"], training, {"test": test}, 6, recipe, heard=heard.append)
    assert records == heard and len(records) == 6
    assert records[-1]["test_accuracy"] > 0.6 and records[-1]["loss"] < records[0]["loss"]
    assert np.all(np.diff([record["seconds"] for record in records]) > 0)
    short = Recipe(epochs=1, batch=30, learning_rate=0.02)
    once, again = (train_baseline(NETWORKS["stochastic-pooling"], training, {}, 6, short)[1] for _ in range(2))
    assert once[0]["loss"] == again[0]["loss"]
    _, late = train_baseline(NETWORKS["stochastic-pooling"], training, {}, 6, recipe, deadline=time.monotonic() - 1)
    assert late == []


def linear(shape, classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(shape)), classes))


def test_a_lost_run_is_begun_again_with_half_the_rate(blobs):
    training = DeviceImages(*blobs, CPU)
    made = []

    def spoilt_at_first(shape, classes):
        made.append(linear(shape, classes))
        if len(made) <= 2:  # of the first run: the one that warms up, and the one that is trained
            made[-1][1].weight.data.fill_(torch.nan)
        return made[-1]

    heard = []
    recipe = Recipe(epochs=3, batch=30, learning_rate=0.002)
    _, records = train_baseline(spoilt_at_first, training, {}, 6, recipe, heard=heard.append)
    assert [record["epoch"] for record in heard] == [1, 1, 2, 3] and records == heard[1:]
    assert not heard[0]["learns"] and [record["learning_rate"] for record in records] == [0.001] * 3
    _, hopeless = train_baseline(linear, training, {}, 6, Recipe(epochs=3, batch=30, learning_rate=1e38))
    assert len(hopeless) == 1 and not hopeless[0]["learns"] and hopeless[0]["learning_rate"] == 1e38 / 8


def test_epochs_are_as_many_as_the_time_allows(blobs):
    training = DeviceImages(*blobs, CPU)
    assert epochs_within(0.0, linear, training, 6, Recipe(batch=30)) == 1
    assert epochs_within(1000.0, linear, training, 6, Recipe(batch=30)) > 100


def test_flips_mirror_about_half_of_a_batch(blobs):
    torch.manual_seed(0)
    images = DeviceImages(*blobs, CPU)
    which = torch.arange(200)
    plain, _ = images.batch(which, Recipe())
    flipped, labels = images.batch(which, Recipe(flips=True))
    same = (flipped == plain).flatten(1).all(1)
    mirrored = (flipped == plain.flip(3)).flatten(1).all(1)
    assert torch.equal(same ^ mirrored, torch.ones(200, dtype=torch.bool)) and 70 < int(mirrored.sum()) < 130
    assert torch.equal(labels, images.labels[:200])


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


def test_resnet18_has_the_parameters_it_is_known_for():
    assert sum(p.numel() for p in NETWORKS["resnet18"]((3, 32, 32), 10).parameters()) == 11_173_962


def test_a_network_in_the_comparison_learns_and_leaves_the_random_state(blobs, monkeypatch):
    monkeypatch.setattr("lab.baselines.training.EPOCHS", {500: 10, 5_000: 5})
    images, labels = blobs[0][..., :8, :8], blobs[1].astype(np.int64)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    predict, size = fit_network("cnn", False, images[:120], labels[:120], CPU, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert (predict(images[120:]).numpy() == labels[120:]).mean() > 0.5 and size > 100_000


def test_the_comparison_knows_the_networks(monkeypatch):
    monkeypatch.setattr(baselines, "BASELINES", dict(baselines.BASELINES))
    with pytest.raises(ValueError, match="model must be one of"):
        parse_models("resnet18")
    with monkeypatch.context() as patch:
        for name in ("lab.__main__.BASELINES", "rescnet.compare.comparison.BASELINES"):
            patch.setattr(name, baselines.BASELINES)
        add_networks()
        assert [model.name for model in parse_models("resnet18,cnn-flips")] == ["resnet18", "cnn-flips"]
