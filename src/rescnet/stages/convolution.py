"""Stage 4: same-size convolution (equation 2, equation 15 of appendix A.3), and the rectified copy for pooling.

"The ReLU function is applied to the feature maps of each layer but not between the layers": un-rectified maps go on to
the next layer, rectified maps go to second-order pooling.

"The input images [...] are zero padded to obtain the same image size outputs": the paper does not say whether before or
after the input is scaled to [0, 1]. After, zero is the least value of all (``"zero"``); before, it is where centred
maps have their mean (``"zero-before-scaling"``). ``"edge"`` repeats the outermost pixels, and is not the paper's.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from .patches import span

Border = Literal["zero", "zero-before-scaling", "edge"]


def convolve(
    x: Tensor, weights: Tensor, bias: Tensor, dilation: int = 1, border: Tensor | Literal["zero", "edge"] = "zero"
) -> Tensor:
    """Return ``x ∗ W + B``, cross-correlation of the size of ``x``.

    Parameters
    ----------
    x : Tensor, shape (n, c, h, w)
    weights : Tensor, shape (d, c, k, k)
        An even k pads one pixel more below and to the right than above and to the left.
    bias : Tensor, shape (d,)
    dilation : int
        Pixels from one tap of a filter to the next; the paper's are side by side.
    border : {"zero", "edge"} or Tensor of shape (c,)
        What lies around x: zeros, its outermost pixels, or a value for each channel.

    Returns
    -------
    Tensor, shape (n, d, h, w)
    """
    if x.is_cuda:  # PyTorch would round float32 to TF32 here
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return _convolve(x, weights, bias, dilation, border)
    return _convolve(x, weights, bias, dilation, border)


def _convolve(x: Tensor, weights: Tensor, bias: Tensor, dilation: int, border: Tensor | str) -> Tensor:
    covered = span(weights.shape[-1], dilation)
    before, after = (covered - 1) // 2, covered // 2
    frame = (before, after, before, after)
    if isinstance(border, Tensor):  # zeros around what is left of x without it, whose response is the bias's part
        x, bias = x - border[:, None, None], bias + (weights * border[:, None, None]).sum((1, 2, 3))
    elif border == "edge":
        return F.conv2d(F.pad(x, frame, mode="replicate"), weights, bias, dilation=dilation)
    if before == after:
        return F.conv2d(x, weights, bias, padding=before, dilation=dilation)
    return F.conv2d(F.pad(x, frame), weights, bias, dilation=dilation)


def rectify(maps: Tensor) -> Tensor:
    """Return ReLU(maps), for the pooling branch only."""
    return maps.relu()
