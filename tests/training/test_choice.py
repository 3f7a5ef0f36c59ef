"""Choice of a network: mirror images, a time limit, and too little memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, Config, ResCNetClassifier
from rescnet.base.errors import TooLittleMemoryError
from rescnet.network.history import LayerRecord
from rescnet.training import choice
from rescnet.training.choice import Choice, choose_network, choose_on_rank0
from rescnet.training.data import TrainingData
from rescnet.training.memory_plan import plan_run
from rescnet.training.workers import Workers

pytestmark = pytest.mark.usefixtures("one_cpu")
CPU = ComputeOptions(device="cpu")


def stripes(generator, kind):
    """Return 80 images of stripes; only with ``"slopes"`` are mirror images those of the other class."""
    labels = torch.arange(80) % 2
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    slope = (2 * labels - 1.0) if kind == "slopes" else labels.float()
    sign = torch.where(torch.rand(80, generator=generator) < 0.5, 1.0, 1.0 if kind == "slopes" else -1.0)
    phase = 6 * torch.rand(80, 1, 1, generator=generator)
    wave = torch.sin((slope * sign)[:, None, None] * x + y + phase)
    noise = torch.randn(80, 8, 8, generator=generator)
    return (wave + 0.7 * noise)[:, None], labels


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "flips"), [("slopes", ""), ("either slope", "flip")])
def test_mirror_images_are_tried(generator, kind, flips):
    images, labels = stripes(generator, kind)
    data = TrainingData.of(images, labels)
    found = choose_network(data, CPU)
    assert found.config.augment == flips
    verdict = "the same class" if flips else "not the same class"
    assert found.notes[0].startswith(f"mirror images: {verdict} (squared leave-one-out error 0.")
    assert choose_network(data, CPU) == found
    given = choose_network(data, CPU, given={"augment": "shift 1", "filters": 5})
    assert (given.config.augment, given.config.filters, given.notes) == ("shift 1", 5, ())
    assert choose_network(data.subset(torch.arange(40)), CPU).config.augment == ""  # too few to try


@pytest.mark.slow
def test_validation_images_decide_where_they_are_given(generator):
    """With wrong labels, the better of two classifiers has the greater error."""
    (images, labels), (others, right) = (stripes(generator, "either slope") for _ in range(2))
    for truth, flips, verdict in ((right, "flip", "the same class"), (1 - right, "", "not the same class")):
        found = choose_network(TrainingData.of(images, labels, validation=(others, truth)), CPU)
        assert found.config.augment == flips
        assert found.notes[0].startswith(f"mirror images: {verdict} (squared error ")
        assert found.notes[0].endswith("on 80 validation images)")


TIMES = {  # seconds per image and layer, of which half for filters and heads: what fits in 10.5 s for 80 images
    0.0001: {"layers": 12, "filters": 16, "kernel_copies": "8 shift 1 + jitter 0.1"},
    0.004: {"layers": 5, "filters": 16, "kernel_copies": "8 shift 1 + jitter 0.1"},
    0.02: {"layers": 5, "filters": 16, "kernel_copies": ""},
    0.08: {"layers": 5, "filters": 8, "kernel_copies": ""},
}


def time_of(monkeypatch, seconds):
    """Let a layer of 16 filters take these seconds per image, and products no time."""

    def timed(data, config, compute):
        half = 10 * seconds * (config.filters / 16) ** 2 / 2
        return LayerRecord(2, 0.5, None, None, 0.5, 0.3, 1.0, {"filters": half, "pooling": half}, 0), 10

    monkeypatch.setattr(choice, "_timed_layer", timed)
    monkeypatch.setattr(choice, "product_speed", lambda device: 1e30)


@pytest.mark.parametrize("seconds", TIMES)
def test_a_time_limit_is_kept_by_a_smaller_network(generator, monkeypatch, seconds):
    images, labels = stripes(generator, "slopes")
    data = TrainingData.of(images, labels)
    time_of(monkeypatch, seconds)
    found = choose_network(TrainingData.of(images.expand(-1, 3, -1, -1), labels), CPU, "best", 10.5, {"augment": ""})
    assert {name: getattr(found.config, name) for name in TIMES[seconds]} == TIMES[seconds]
    assert found.notes[-1].endswith(" of 10.5 s on this machine")
    time_of(monkeypatch, 1.0)
    with pytest.raises(ValueError, match=r"time_limit must be at least 3 min 20 s for 80 images, got 10 s\. Allow"):
        choose_network(data, CPU, "best", 10.0, {"augment": "", "filters": 16})
    clock = iter([0.0, 60.0])  # a trial that takes longer than the limit
    monkeypatch.setattr(choice, "perf_counter", lambda: next(clock))
    with pytest.raises(ValueError, match=r"time_limit must be at least 4 min 20 s for 80 images, got 10 s\. Allow"):
        choose_network(data, CPU, "best", 10.0, {"augment": "", "filters": 16})


def test_the_time_of_best_quality_is_printed_without_a_limit(generator, monkeypatch):
    images, labels = stripes(generator, "slopes")
    data = TrainingData.of(images, labels)
    time_of(monkeypatch, 0.5)
    found = choose_network(data, CPU, "best", None, {"augment": ""})
    assert found.config.layers == 12 and found.notes == ("time: about 8 min 00 s on this machine",)
    assert choose_network(data, CPU, "balanced", None, {"augment": ""}).notes == ()


def test_the_time_of_a_layer_is_measured(generator):
    images, labels = stripes(generator, "slopes")
    data = TrainingData.of(images, labels)
    config = choose_network(data, CPU).config
    record, seen = choice._timed_layer(data, config, CPU)
    assert seen == 24 and record.layer == 2 and 0 < record.total_seconds < 100


@pytest.mark.slow
def test_the_estimator_has_quality_and_time_limit(generator):
    images, labels = stripes(generator, "slopes")
    X, y = images.numpy()[:, 0], labels.numpy()
    fast = ResCNetClassifier(quality="fast", random_state=0).fit(X, y)
    assert len(fast.model_.network.layers) == 2 and fast.model_.history.readout.loo_accuracy > 0.5
    assert np.allclose(fast.predict_proba(X).sum(1), 1)
    limited = ResCNetClassifier(time_limit="2m", config=Config(filters=4), random_state=0).fit(X, y)
    assert len(limited.model_.network.layers) == 3
    for wrong, words in (
        ({"quality": "good"}, "quality must be one of"),
        ({"time_limit": 0}, "time_limit must be a"),
    ):
        with pytest.raises(ValueError, match=words):
            ResCNetClassifier(**wrong).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("count", [80, 2000])
def test_the_memory_that_a_refusal_names_is_enough(generator, count, monkeypatch):
    """For layers and readout, before any trial: the error that needs most is raised."""
    images, labels = torch.rand(count, 1, 8, 8, generator=generator), torch.arange(count) % 2
    data = TrainingData.of(images, labels)
    monkeypatch.setattr(choice, "_try_mirror_images", lambda *_: pytest.fail("memory comes first"))
    with pytest.raises(TooLittleMemoryError, match="got 1 kB") as error:
        choose_network(data, ComputeOptions(device="cpu", max_memory="1kB"))
    monkeypatch.setattr(choice, "_try_mirror_images", lambda *_: (False, "not the same class"))
    enough, less = (ComputeOptions(device="cpu", max_memory=str(error.value.needed - bytes)) for bytes in (0, 1))
    config = choose_network(data, enough).config
    assert plan_run(config, data, enough, torch.device("cpu"), Workers()).chunk > 0
    with pytest.raises(TooLittleMemoryError):
        choose_network(data, less)


def test_one_process_keeps_its_own_choice():
    choice = Choice(Config().complete((3, 32, 32), images=500), ("a note",))
    found = choose_on_rank0(Workers(), lambda: choice)
    assert (found.config, found.notes) == (choice.config, ("a note",))
