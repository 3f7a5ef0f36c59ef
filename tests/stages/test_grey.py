"""Stacks that see no colour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.network.layer import Layer
from rescnet.network.network import Network
from rescnet.stages.filters import Filters, GreyPatches
from rescnet.stages.images import ValueRange
from rescnet.training.heads import no_head
from rescnet.training.layer_patches import LayerPatches
from rescnet.training.stores.make import store_images

CONFIG = NetworkConfig(
    filters=5, layers=3, block_sizes=(6,), block_stride=2, pyramid=(2, 1), ridge=0.3, stop_at_zero_error=False,
    grey_stack_every=1, grey_filter_size=5,
)  # fmt: skip


def source_of(images, maps, labels):
    """Return the patches of given maps and images, which lie in [0, 1]."""
    shape = (images.shape[1], *images.shape[2:])
    one, first = (
        ValueRange(torch.zeros(channels).double(), torch.ones(channels).double())
        for channels in (maps.shape[1] + shape[0], shape[0])
    )
    nothing = torch.zeros(5, shape[0], 3, 3).double()
    network = Network(CONFIG, shape, 3, [Layer(first, nothing, nothing[:, 0, 0, 0], no_head(nothing), 1, 1)])
    return LayerPatches(network, one, store_images(maps, torch.device("cpu"), "device"), images, labels, 3, 7, None)


@pytest.fixture
def both():
    """A colour source, wrapped; and a source of the same maps with images that are grey themselves."""
    generator = torch.Generator().manual_seed(0)
    maps, images = (torch.rand(11, c, 6, 7, dtype=torch.float64, generator=generator) for c in (4, 3))
    labels = torch.arange(11) % 3
    return GreyPatches(source_of(images, maps, labels), 3), source_of(images.mean(1, keepdim=True), maps, labels)


def test_grey_patches_are_those_of_grey_images(both):
    made, wanted = both
    assert (made.channels, made.size, made.rows, made.columns) == (5, 3, 4, 5)
    torch.testing.assert_close(made.mean(), wanted.mean())
    torch.testing.assert_close(made.covariance(), wanted.covariance())
    where = torch.tensor([0, 10, 4]), torch.tensor([0, 3, 1]), torch.tensor([4, 0, 2])
    torch.testing.assert_close(made.gather(*where), wanted.gather(*where))
    for name in ("images", "outer", "by_position"):
        found, expected = (getattr(source.class_moments(2), name) for source in both)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_filters_in_colour_answer_as_on_the_grey_image(both):
    made, wanted = both
    filters = Filters(torch.randn(6, 45, dtype=torch.float64), torch.randn(6, dtype=torch.float64))
    coloured = made.in_colour(filters)
    where = torch.tensor([3, 7]), torch.tensor([1, 2]), torch.tensor([0, 4])
    answers = made._source.gather(*where) @ coloured.weights.T + coloured.bias
    torch.testing.assert_close(answers, wanted.gather(*where) @ filters.weights.T + filters.bias)
    image = coloured.weights.view(6, 7, 9)[:, 4:]
    assert torch.equal(image[:, 0], image[:, 1]) and torch.equal(image[:, 0], image[:, 2])


def test_a_network_without_colour_is_that_of_grey_images(blobs):
    images, labels = blobs[0][:60].copy(), blobs[1][:60]
    images[0, :, 0, 0], images[0, :, 0, 1] = 0, 255  # so that both have the same range
    grey, compute = images.astype(np.float64).mean(1, keepdims=True), ComputeOptions(dtype="float64")
    made, _ = train(images, labels, CONFIG, compute=compute)
    wanted, _ = train(grey, labels, replace(CONFIG, grey_stack_every=0, first_filter_size=5), compute=compute)
    torch.testing.assert_close(made.outputs(images), wanted.outputs(grey), rtol=0, atol=1e-8)


def test_which_stacks_see_no_colour():
    config = replace(CONFIG, stack_depth=3, grey_stack_every=2, filter_size=2)
    grey = [config.is_grey(layer) for layer in range(1, 13)]
    assert grey == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 3
    assert [config.size_of_filter(layer) for layer in (1, 2, 4, 5, 7, 10)] == [2, 2, 5, 2, 2, 5]
    assert config.kinds_of_layer == [1, 2, 4]
    assert not any(replace(CONFIG, grey_stack_every=0).is_grey(layer) for layer in range(1, 9))


@pytest.mark.parametrize(
    ("options", "grey_images", "message"),
    [
        ({}, True, "grey_stack_every is 1 but the images are grey: choose 0"),
        ({"grey_stack_every": 2}, False, "grey_stack_every is 2 but there is one stack: choose stack_depth"),
        ({"grey_filter_size": 13}, False, "choose grey_filter_size at most 12"),
        (
            {"stack_depth": 2, "grey_stack_every": 2, "grey_filter_size": 2, "filters": 10},
            False,
            r"5 PCA filters were asked of patches with 4 numbers: .* larger filters \(grey_filter_size\)",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_any_layer(options, grey_images, message, blobs):
    images = blobs[0][:, :1] if grey_images else blobs[0]
    with pytest.raises(ValueError, match=message):
        train(images, blobs[1], replace(CONFIG, **options))
