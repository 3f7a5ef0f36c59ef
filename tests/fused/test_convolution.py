"""The fused convolution against scaling and convolution, in float64 on fresh random input.

Without a GPU the kernel runs in Triton's interpreter, on small batches.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from fused.on_device import DEVICE
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig
from rescnet.fused import convolution_for
from rescnet.fused.convolution import LARGE, TILE, FusedConvolution, tile_for
from rescnet.fused.half_precision import FoldedScale, convolve_scaled, padded_channels
from rescnet.stages.convolution import convolve
from rescnet.stages.images import ValueRange, concatenate, min_max_scale

BATCH = 130 if DEVICE == "cuda" else 2


def random_inputs(n, maps, colours, size, channels_last=True):
    """Maps of different strength and mean in each channel, and images from 0 to 1."""
    found = torch.randn(n, maps, *size) * torch.rand(maps, 1, 1).add(0.1) + 3 * torch.randn(maps, 1, 1)
    if channels_last:
        found = found.contiguous(memory_format=torch.channels_last)
    return found.half().to(DEVICE) if maps else None, torch.rand(n, colours, *size).half().to(DEVICE)


def random_filters(filters, channels, k):
    weights = torch.nn.functional.normalize(torch.randn(filters, channels * k * k), dim=1)
    return weights.view(filters, channels, k, k).to(DEVICE), torch.randn(filters).to(DEVICE)


def check(maps, images, filters, k, scope="channel", image=None):
    """Compare maps with the plain stages, and their range with that of the maps."""
    image = image or FoldedScale.none(images.shape[1], images.device)
    joined = concatenate(None if maps is None else maps.double(), image(images).double())
    fitted = ValueRange.of(joined).with_scope(scope)
    weights, bias = random_filters(filters, joined.shape[1], k)
    exact = convolve(min_max_scale(joined, fitted), weights.double(), bias.double())
    found, ends = FusedConvolution(FoldedScale.of(fitted), weights, bias, image)(maps, images)
    assert found.dtype == torch.float16
    assert found.shape == exact.shape
    assert found.stride(1) == 1
    whole = found.as_strided((*exact.shape[::2], exact.shape[3], found.stride(3)), tuple(sorted(found.stride()))[::-1])
    assert not whole[..., filters:].any()  # zeros up to a multiple of 8
    assert float((found.double() - exact).norm() / exact.norm()) < 1e-3
    worst = (found.double() - exact).abs().max() / exact.abs().max()
    assert float(worst) < 1e-3, "one entry is off, the others hide it"
    stored = ValueRange.of(found)
    assert torch.equal(ends.low, stored.low)
    assert torch.equal(ends.high, stored.high)


@pytest.mark.parametrize(
    ("maps", "colours", "k"),
    [(0, 1, 7), (0, 3, 3), (0, 3, 4), (7, 1, 2), (7, 1, 5), (5, 3, 1), (5, 3, 3), (5, 3, 7)],
)
def test_kernel_equals_stages(maps, colours, k):
    check(*random_inputs(BATCH, maps, colours, (9, 8)), 7, k)


@pytest.mark.parametrize(("maps", "filters"), [(50, 50), (64, 64), (16, 33), (70, 140)])
def test_any_number_of_channels(maps, filters):
    check(*random_inputs(BATCH, maps, 3, (6, 5)), filters, 3, "global")


def test_large_tiles():
    assert (tile_for(64, 16 * 32), tile_for(64, 16 * 31), tile_for(32, 16 * 32)) == (LARGE, TILE, TILE)
    for filters in (40, 64):
        check(*random_inputs(2, 36, 3, (16, 32)), filters, 3)


def test_one_image_smaller_than_a_tile():
    check(*random_inputs(1, 5, 1, (3, 4)), 4, 3)


def test_many_images_per_tile():
    check(*random_inputs(50, 5, 3, (2, 3)), 4, 3)


def test_any_strides():
    check(*random_inputs(BATCH, 6, 3, (8, 9), channels_last=False), 5, 3)
    maps, images = random_inputs(2 * BATCH, 12, 6, (8, 18))
    check(maps[::2, 1::2, :, ::2], images.transpose(2, 3)[1::2, ::2, ::2, :8].transpose(2, 3), 5, 4)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_images_are_scaled_as_they_are_read(dtype):
    maps, images = random_inputs(BATCH, 5, 3, (7, 6))
    images = (255 * images.float()).to(dtype)
    image = FoldedScale.of(ValueRange.of(images.float()))
    check(maps, images, 6, 3, image=image)
    check(None, images, 6, 4, image=image)


@pytest.mark.parametrize("maps", [5, 50, 64])
def test_channels_after_the_maps_count_nothing(maps):
    whole, images = random_inputs(BATCH, padded_channels(maps), 3, (7, 6))
    check(whole[:, :maps], images, 6, 3)


def test_a_constant_channel_counts_nothing():
    maps, images = random_inputs(BATCH, 5, 3, (7, 6))
    maps[:, 2] = 4.0
    check(maps, images, 6, 3)


def test_plain_version_rounds_the_same_filters():
    maps, images = random_inputs(BATCH, 5, 3, (7, 6))
    folded = FoldedScale.of(ValueRange.of(concatenate(maps, images).float()))
    weights, bias = random_filters(6, 8, 3)
    found, _ = FusedConvolution(folded, weights, bias, FoldedScale.none(3, images.device))(maps, images)
    plain = convolve_scaled(maps, images, folded, weights, bias)
    assert float((found != plain).float().mean()) < 0.05  # another order of the sums: some are rounded the other way


def test_a_network_with_the_kernel(blobs, monkeypatch):
    """Both train the same first layers, from maps in a store, and predict the same."""
    images, labels = blobs[0][:12, :, :8, :8], blobs[1][:12]
    config = NetworkConfig(filters=4, layers=2, bank="pca", block_sizes=(6,), block_stride=2, pyramid=(1,))
    config = replace(config, ridge=0.3, stop_at_zero_error=False)
    compute, outputs = ComputeOptions(device=DEVICE, precision="balanced"), []

    def plain(folded, weights, bias, image):
        return lambda maps, given: (convolve_scaled(maps, image(given), folded, weights, bias), None)

    used = []

    def fused(*given):
        used.append(given)
        return FusedConvolution(*given)

    for convolution in (plain, fused):
        monkeypatch.setattr("rescnet.network.stack.convolution_for", convolution)
        network, _ = train_network(images, labels, config, compute=compute)
        outputs.append(network.outputs(images).double())
    assert {weights.shape[1] for _, weights, *_ in used} == {3, 7}
    assert float((outputs[0] - outputs[1]).norm() / outputs[0].norm()) < 5e-3


def test_the_kernel_is_taken_on_a_gpu():
    weights, bias = random_filters(4, 3, 3)
    maps, images = random_inputs(2, 0, 3, (5, 5))
    alone = FoldedScale.none(3, weights.device)
    found = convolution_for(alone, weights, bias, alone)
    assert isinstance(found, FusedConvolution) == (DEVICE == "cuda")
    assert found(maps, images)[0].shape == (2, 4, 5, 5)
