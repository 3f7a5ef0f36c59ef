"""The fused matrix roots against the stage they stand in for, in float64 on fresh random input.

Without a GPU the kernel runs in Triton's interpreter, on small batches.
"""

from __future__ import annotations

import pytest
import torch
from kernels.on_device import DEVICE

from rescnet.kernels import MOST_ROOT_CHANNELS, roots_for, roots_in_place
from rescnet.kernels.matrix_sqrt import fused_roots
from rescnet.stages.pooling import matrix_roots
from rescnet.stages.second_order import channel_pairs

IMAGES = 300 if DEVICE == "cuda" else 2


def random_correlations(n, cells, channels, diagonal):
    """Upper triangles of correlation matrices of a few samples more than channels, (n, cells·pairs)."""
    samples = torch.randn(n * cells, channels, channels + 5, dtype=torch.float64)
    samples[:, 1] += samples[:, 0]
    samples -= samples.mean(2, keepdim=True)
    samples /= samples.norm(dim=2, keepdim=True)
    matrix = samples @ samples.mT
    rows, columns = channel_pairs(channels, diagonal)
    return matrix[:, rows, columns].view(n, -1).to(DEVICE)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("channels", [2, 13, 50, MOST_ROOT_CHANNELS])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float16, 1e-2)])
def test_kernel_equals_stage(channels, diagonal, dtype, bound):
    features = random_correlations(IMAGES, 3, channels, diagonal).to(dtype)
    exact = matrix_roots(features.double(), channels, diagonal)
    found = fused_roots(features, channels, diagonal)
    assert found.dtype == dtype
    assert found.shape == exact.shape
    error = float((found.double() - exact).norm() / exact.norm())
    assert error < bound, error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_no_channel_varies(dtype):
    nothing = torch.zeros(2, 20, dtype=dtype, device=DEVICE)
    assert bool((fused_roots(nothing, 4, diagonal=True) == 0).all())


def test_the_kernel_is_taken_on_a_gpu_where_matrices_fit():
    assert roots_for(torch.zeros(1, 10), 4) is matrix_roots
    assert roots_for(torch.zeros(1, 10, dtype=torch.float64, device=DEVICE), 4) is matrix_roots
    assert roots_for(torch.zeros(1, 10, device=DEVICE), MOST_ROOT_CHANNELS + 1) is matrix_roots
    assert roots_for(torch.zeros(1, 10, device=DEVICE), 4) is (fused_roots if DEVICE == "cuda" else matrix_roots)
    assert roots_in_place(MOST_ROOT_CHANNELS)
    assert not roots_in_place(MOST_ROOT_CHANNELS + 1)
