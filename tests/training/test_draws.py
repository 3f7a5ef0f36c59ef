"""Filters drawn by the residual: labels, weights, and what is drawn by them."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from patch_sources import source_of

from rescnet import ComputeOptions, NetworkConfig
from rescnet.stages.filters import BankOptions
from rescnet.stages.filters.sampling import places_by_weight, sample_patches
from rescnet.stages.filters.stacked_lda import draw_patches
from rescnet.training.draws import Draws
from rescnet.training.targets import Targets
from rescnet.training.trainer import Trainer


def test_places_are_drawn_by_weight_within_their_stretch(generator):
    weights = torch.tensor([1.0, 0.0, 3.0, 0.0, 2.0, 2.0], dtype=torch.float64)
    found = places_by_weight(weights, torch.tensor([[0], [3]]), torch.tensor([[3], [6]]), 4000, generator)
    shares = torch.stack([row.bincount(minlength=6) / 4000 for row in found])
    expected = torch.tensor([[0.25, 0, 0.75, 0, 0, 0], [0, 0, 0, 0, 0.5, 0.5]])
    torch.testing.assert_close(shares, expected, atol=0.03, rtol=0)
    assert bool((shares[expected == 0] == 0).all())


def test_positives_come_from_images_with_weight_and_negatives_from_all(generator):
    """Each image's pixels are its number, so a patch tells where it came from."""
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    numbers = torch.arange(7)
    source = source_of(numbers.double().view(-1, 1, 1, 1).expand(-1, 1, 6, 6), labels)
    source.weights = torch.tensor([0, 1, 3, 0, 2, 0, 0], dtype=torch.float64)
    told = (draw_patches(source, 800, generator, BankOptions())[..., 0] * 6).round().long()
    positives, negatives = told[:, :2], told[:, 2:]
    assert set(positives.flatten().tolist()) == {1, 2, 4}
    assert set(negatives.flatten().tolist()) == set(range(7))
    assert bool((labels[positives] == labels[positives[:, :1]]).all())
    assert bool((labels[negatives] != labels[positives[:, :1]]).all())
    assert float((positives == 2).sum() / (positives < 3).sum()) == pytest.approx(0.75, abs=0.05)
    alone = (sample_patches(source, generator, 3000)[:, 0] * 6).round().long().bincount(minlength=7) / 3000
    torch.testing.assert_close(alone, torch.tensor([0, 1, 3, 0, 2, 0, 0]) / 6, atol=0.03, rtol=0)


@pytest.mark.parametrize("copy_residuals", ["shared", "own"])
@pytest.mark.parametrize("draw_from", ["wrong", "residual"])
def test_labels_and_weights_are_those_of_the_residual(draw_from, copy_residuals, blobs):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = NetworkConfig(
        filters=4, block_size=6, block_stride=2, pyramid=(1,), bank="pca", ridge=1.0, augment="flip",
        copy_residuals=copy_residuals, filter_labels="residual", draw_from=draw_from,
    )  # fmt: skip
    trainer = Trainer(images, labels, config, None, None, ComputeOptions(dtype="float64"))

    def draws(number):
        targets = Targets.of(number, trainer.training, config)
        return Draws.of(number, targets, trainer._labels, trainer.workers, trainer._mine)

    first = draws(1)
    assert first.weights is None
    assert torch.equal(first.labels, trainer._labels)
    trainer.add_layer()
    found = draws(2)
    repeated = labels.repeat(2)
    output = trainer.training.output.numpy()
    if copy_residuals == "shared":
        output = output[::2].repeat(2, 0)
    targets, signs = naive.residual_step(repeated, output, config.ceiling)
    np.testing.assert_array_equal(found.labels.numpy(), [t + 6 * (s < 0) for t, s in zip(targets, signs, strict=True)])
    wanted = output.argmax(1) != repeated
    if draw_from == "residual":
        wanted = np.linalg.norm(config.ceiling * np.eye(6)[repeated] - output, axis=1)
    assert wanted.astype(bool).any()
    np.testing.assert_allclose(found.weights.numpy(), wanted, atol=1e-12)


def test_where_nothing_is_wrong_or_all_have_one_label_everything_is_drawn_from(blobs):
    images, labels = blobs[0][:20], blobs[1][:20] % 2
    config = NetworkConfig(
        filters=4, block_size=6, block_stride=2, pyramid=(1,), filter_labels="residual", draw_from="wrong"
    )
    trainer = Trainer(images, labels, config, None, None, ComputeOptions(dtype="float64"))
    outputs = torch.tensor([[0.8, -2.0], [-2.5, -2.0]], dtype=torch.float64)  # of either class; both are right
    trainer.training.output.copy_(outputs[torch.as_tensor(labels)])
    targets = Targets.of(2, trainer.training, config)
    assert bool((targets.labels == 1).all() and targets.positive.all())
    found = Draws.of(2, targets, trainer._labels, trainer.workers, trainer._mine)
    assert found.weights is None
    assert torch.equal(found.labels, trainer._labels)
