"""Stage 4: same-size convolution (equation 2, equation 15 of appendix A.3), and the rectified copy for pooling.

"The ReLU function is applied to the feature maps of each layer but not between the layers": un-rectified maps go on to
the next layer, rectified maps go to second-order pooling.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .patches import span


def convolve(x: Tensor, weights: Tensor, bias: Tensor, dilation: int = 1) -> Tensor:
    """Return ``x ∗ W + B``, cross-correlation with zero padding, the size of ``x``.

    Parameters
    ----------
    x : Tensor, shape (n, c, h, w)
    weights : Tensor, shape (d, c, k, k)
        An even k pads one pixel more below and to the right than above and to the left.
    bias : Tensor, shape (d,)
    dilation : int
        Pixels from one tap of a filter to the next; the paper's are side by side.

    Returns
    -------
    Tensor, shape (n, d, h, w)
    """
    if x.is_cuda:  # PyTorch would round float32 to TF32 here
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return _convolve(x, weights, bias, dilation)
    return _convolve(x, weights, bias, dilation)


def _convolve(x: Tensor, weights: Tensor, bias: Tensor, dilation: int) -> Tensor:
    covered = span(weights.shape[-1], dilation)
    before, after = (covered - 1) // 2, covered // 2
    if before == after:
        return F.conv2d(x, weights, bias, padding=before, dilation=dilation)
    return F.conv2d(F.pad(x, (before, after, before, after)), weights, bias, dilation=dilation)


def rectify(maps: Tensor) -> Tensor:
    """Return ReLU(maps), for the pooling branch only."""
    return maps.relu()
