"""Stage 4: same-size convolution (equations 2 and 15), and the rectified copy for pooling.

"The ReLU function is applied to the feature maps of each layer but not between the layers." So maps are rectified for
pooling only; the next layer's input is not rectified. The scaled input is padded with zeros, its smallest value.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

INPUT_COPIES = 2  # in memory, as large as the input: the input in the convolution's own layout, and the new maps


def convolve(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Return ``x ∗ W + B``, a cross-correlation with the height and width of ``x``, shape (n, d, h, w).

    ``x`` is (n, c, h, w), the weights (d, c, k, k) and the bias (d,). With an even k, the padding below and to the
    right is one pixel wider.
    """
    k = weights.shape[-1]
    before, after = (k - 1) // 2, k // 2
    if before != after:
        x, before = F.pad(x, (before, after, before, after)), 0
    if x.is_cuda:  # PyTorch would round float32 to TF32 here by default
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return F.conv2d(x, weights, bias, padding=before)
    return F.conv2d(x, weights, bias, padding=before)


def rectify(maps: Tensor) -> Tensor:
    """Return ReLU(maps), for the pooling branch only."""
    return maps.relu()
