"""Training on copies equals training on images that were copied in advance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.config.grammars import Augmentation
from rescnet.stages.augment import change_images, draw_changes
from rescnet.stages.patches import gather_patches
from rescnet.training.data import TrainingData
from rescnet.training.heads import residuals
from rescnet.training.stores import AugmentedImages, store_images
from rescnet.training.trainer import Trainer
from rescnet.training.workers import Workers

CHANGES = "flip + shift 2 + rotate 15 + jitter 0.2"
SMALL = {
    "filters": 6, "layers": 2, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1), "stop_at_zero_error": False,
}  # fmt: skip
CPU = torch.device("cpu")


def copied(images, labels, config):
    """Return all copies made in advance, each image followed by its own."""
    changes = draw_changes(Augmentation.parse(config.augment), len(images), config.copies, images.shape[1], config.seed)
    repeated = torch.as_tensor(images).repeat_interleave(1 + config.copies, 0)
    return change_images(repeated, changes.flatten(0, 1)), np.repeat(labels, 1 + config.copies)


@pytest.mark.parametrize("place", ["device", "host"])
def test_the_store_makes_the_copies(place, blobs, generator):
    config = NetworkConfig(augment=CHANGES, copies=2)
    whole, _ = copied(*blobs, config)
    changes = draw_changes(Augmentation.parse(CHANGES), len(blobs[0]), 2, 3, config.seed)
    store = AugmentedImages(store_images(torch.as_tensor(blobs[0]), CPU, place), changes)
    assert len(store) == 3 * len(blobs[0])
    assert torch.equal(torch.cat(list(store.chunks(33))), whole)
    image, row, column = (torch.randint(high, (50,), generator=generator) for high in (len(store), 10, 10))
    assert torch.equal(store.patches(3, image, row, column), gather_patches(whole, 3, image, row, column))
    with pytest.raises(ValueError, match="chunk size must be a multiple of 3 entries per image, got 10"):
        next(store.chunks(10))


@pytest.mark.parametrize("place", ["device", "file"])
def test_copies_on_the_fly_equal_copies_in_advance(place, blobs, tmp_path):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = NetworkConfig(**SMALL, augment=CHANGES, copies=2)
    compute = ComputeOptions(dtype="float64", maps=place, scratch=str(tmp_path))
    found, _ = train_network(images, labels, config, compute=compute)
    plain = NetworkConfig(**SMALL)
    wanted, _ = train_network(*copied(images, labels, config), plain, compute=ComputeOptions(dtype="float64"))
    for a, b in zip(found.layers, wanted.layers, strict=True):
        torch.testing.assert_close(a.weights, b.weights, rtol=0, atol=1e-9)
        torch.testing.assert_close(a.head.weights, b.head.weights, rtol=1e-6, atol=1e-7)


def test_copies_learn_their_own_residual(blobs):
    images, labels = blobs[0][:90], blobs[1][:90]
    config = NetworkConfig(**SMALL, augment="flip")
    trainer = Trainer(config, TrainingData.of(images, labels), ComputeOptions(), Workers())
    trainer.add_layer()
    found = residuals(trainer.training, config, slice(3, 150))
    one_hot = torch.nn.functional.one_hot(torch.as_tensor(labels), 6).repeat_interleave(2, 0)
    torch.testing.assert_close(found, (config.ceiling * one_hot - trainer.training.output)[3:150])
    assert not torch.equal(found[1], found[2])  # image 2 and its copy


@pytest.mark.slow
def test_accuracy_is_that_of_the_images_and_of_the_mean_over_views(blobs):
    images, labels = blobs
    config = NetworkConfig(**SMALL, augment="flip", test_views="flip + shift 1")
    test = images[160:], labels[160:]
    network, history = train_network(images[:160], labels[:160], config, test=test)
    for record in history:
        mean = float((network.predict_indices(test[0], layers=record.layer).numpy() == test[1]).mean())
        assert record.test_accuracy == pytest.approx(mean, abs=0.013)
    # By hand: the mean over ten views of a network that averages nothing.
    plain, _ = train_network(images[:160], labels[:160], NetworkConfig(**SMALL, augment="flip"))
    outputs = [
        plain.outputs(change_images(torch.as_tensor(test[0]), _change(flip, down, right, len(test[0]))))
        for flip in (0, 1)
        for down, right in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
    ]
    torch.testing.assert_close(network.outputs(test[0]), torch.stack(outputs).mean(0), rtol=0, atol=1e-5)


def _change(flip, down, right, count):
    row = torch.zeros(8)
    row[:3] = torch.tensor([flip, down, right])
    return row.expand(count, -1)


def test_a_continued_run_sees_the_same_copies(blobs):
    images, labels = blobs[0][:60], blobs[1][:60]
    options = {"augment": CHANGES, "copies": 2}
    whole, _ = train_network(images, labels, NetworkConfig(**SMALL, **options))
    start = train(images, labels, NetworkConfig(**SMALL | {"layers": 1}, **options))
    resumed, _ = train_network(images, labels, NetworkConfig(**SMALL, **options), start=start)
    for a, b in zip(whole.layers, resumed.layers, strict=True):
        assert torch.equal(a.head.weights, b.head.weights)
