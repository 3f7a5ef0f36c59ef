"""The fused and the compiled matrix logarithms against the stage they stand in for, in float64 on fresh random input.

Without a GPU the fused kernel runs in Triton's interpreter, on small batches.
"""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import MOST_LOG_CHANNELS, has_log_kernel, logs_for
from rescnet.fused.matrix_log import fused_logs
from rescnet.fused.pooling_cpu import compiled_logs
from rescnet.stages.pooling import matrix_logs
from rescnet.stages.second_order import channel_pairs

IMAGES = 300 if DEVICE == "cuda" else 2


def random_correlations(n, cells, channels):
    """Upper triangles of correlation matrices of a few samples more than channels, (n, cells·pairs)."""
    samples = torch.randn(n * cells, channels, channels + 5, dtype=torch.float64)
    samples[:, 1] += samples[:, 0]
    samples -= samples.mean(2, keepdim=True)
    samples /= samples.norm(dim=2, keepdim=True)
    matrix = samples @ samples.mT
    rows, columns = channel_pairs(channels, diagonal=True)
    return matrix[:, rows, columns].view(n, -1).to(DEVICE)


@pytest.mark.parametrize("channels", [2, 13, 50, MOST_LOG_CHANNELS])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float16, 1e-2)])
def test_kernel_equals_stage(channels, dtype, bound):
    features = random_correlations(IMAGES, 3, channels).to(dtype)
    exact = matrix_logs(features.double(), channels)
    found = fused_logs(features.clone(), channels)
    assert found.dtype == dtype
    assert found.shape == exact.shape
    error = float((found.double() - exact).norm() / exact.norm())
    assert error < bound, error


@pytest.mark.parametrize("channels", [2, 13, MOST_LOG_CHANNELS])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-13), (torch.float32, 1e-6), (torch.float16, 1e-2)])
def test_compiled_logarithms_equal_the_stage(channels, dtype, bound):
    features = random_correlations(20, 3, channels).cpu().to(dtype)
    exact = matrix_logs(features.double(), channels)
    found = compiled_logs(features, channels)
    assert (found.dtype, found.shape) == (dtype, exact.shape)
    error = float((found.double() - exact).norm() / exact.norm())
    assert error < bound, error
    assert torch.equal(found[3:], compiled_logs(features[3:], channels))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_no_channel_varies(dtype):
    nothing = torch.zeros(2, 20, dtype=dtype, device=DEVICE)
    assert bool((fused_logs(nothing, 4) == 0).all())
    assert bool((compiled_logs(nothing.cpu(), 4) == 0).all())


def test_the_kernel_is_taken_on_a_gpu_where_matrices_fit():
    ours = matrix_logs if DEVICE == "cuda" else compiled_logs
    assert logs_for(torch.zeros(1, 10, dtype=torch.float64, device=DEVICE), 4) is ours
    assert logs_for(torch.zeros(1, 10, device=DEVICE), MOST_LOG_CHANNELS + 1) is matrix_logs
    assert logs_for(torch.zeros(1, 10, device=DEVICE), 4) is (fused_logs if DEVICE == "cuda" else compiled_logs)
    assert has_log_kernel(MOST_LOG_CHANNELS)
    assert not has_log_kernel(MOST_LOG_CHANNELS + 1)


def test_the_program_is_taken_on_a_cpu():
    assert logs_for(torch.zeros(1, 10), 4) is compiled_logs
    assert logs_for(torch.zeros(1, 10, requires_grad=True), 4) is matrix_logs
    assert logs_for(torch.zeros(1, 10), MOST_LOG_CHANNELS + 1) is matrix_logs
