"""The networks trained by back-propagation that ours is compared with: built as their papers say, and they learn."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from lab.baselines import LEARNING_RATES, NETWORKS
from lab.baselines.maxout import maximum
from lab.baselines.stochastic_pooling import StochasticPool
from lab.baselines.training import DeviceImages, Recipe, epochs_within, train_baseline

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


@pytest.mark.parametrize("schedule", ["one-cycle", "cosine"])
def test_the_rate_rises_to_its_peak_and_falls_to_nothing(schedule):
    recipe = Recipe(epochs=10, learning_rate=0.5, schedule=schedule)
    rates = [recipe.rate(done) for done in np.linspace(0, 1, 101)]
    peak = int(np.argmax(rates))
    assert rates[peak] == pytest.approx(0.5) and peak == {"one-cycle": 30, "cosine": 10}[schedule]
    assert np.all(np.diff(rates[: peak + 1]) > 0) and np.all(np.diff(rates[peak:]) < 0) and rates[-1] < 1e-9


def test_a_network_learns_and_its_seconds_add_up(blobs):
    images, labels = blobs[0][..., :8, :8], blobs[1]
    training = DeviceImages(images[:180], labels[:180], CPU)
    assert training.images.mean().abs() < 0.01 and training.images.std() == pytest.approx(1, abs=0.02)
    test = DeviceImages(images[180:], labels[180:], CPU, like=training)
    heard = []
    recipe = Recipe(epochs=6, batch=30, learning_rate=0.02)
    records = train_baseline(NETWORKS["stochastic-pooling"], training, {"test": test}, 6, recipe, heard=heard.append)
    assert records == heard and len(records) == 6
    assert records[-1]["test_accuracy"] > 0.6 and records[-1]["loss"] < records[0]["loss"]
    assert np.all(np.diff([record["seconds"] for record in records]) > 0)
    short = Recipe(epochs=1, batch=30, learning_rate=0.02)
    once, again = (train_baseline(NETWORKS["stochastic-pooling"], training, {}, 6, short) for _ in range(2))
    assert once[0]["loss"] == again[0]["loss"]
    late = train_baseline(NETWORKS["stochastic-pooling"], training, {}, 6, recipe, deadline=time.monotonic() - 1)
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
    records = train_baseline(spoilt_at_first, training, {}, 6, recipe, heard=heard.append)
    assert [record["epoch"] for record in heard] == [1, 1, 2, 3] and records == heard[1:]
    assert not heard[0]["learns"] and [record["learning_rate"] for record in records] == [0.001] * 3
    hopeless = train_baseline(linear, training, {}, 6, Recipe(epochs=3, batch=30, learning_rate=1e38))
    assert len(hopeless) == 1 and not hopeless[0]["learns"] and hopeless[0]["learning_rate"] == 1e38 / 8


def test_epochs_are_as_many_as_the_time_allows(blobs):
    training = DeviceImages(*blobs, CPU)
    assert epochs_within(0.0, linear, training, 6, Recipe(batch=30)) == 1
    assert epochs_within(1000.0, linear, training, 6, Recipe(batch=30)) > 100


def test_flips_mirror_about_half_of_a_batch(blobs):
    torch.manual_seed(0)
    images = DeviceImages(*blobs, CPU)
    which = torch.arange(200)
    plain, _ = images.batch(which, flips=False)
    flipped, labels = images.batch(which, flips=True)
    same = (flipped == plain).flatten(1).all(1)
    mirrored = (flipped == plain.flip(3)).flatten(1).all(1)
    assert torch.equal(same ^ mirrored, torch.ones(200, dtype=torch.bool)) and 70 < int(mirrored.sum()) < 130
    assert torch.equal(labels, images.labels[:200])
