"""Stage 4: same-size convolution (equation 2, equation 15 of appendix A.3), and the rectified copy for pooling.

"The ReLU function is applied to the feature maps of each layer but not between the layers": un-rectified maps go on to
the next layer, rectified maps go to second-order pooling.

"The input images [...] are zero padded to obtain the same image size outputs": the paper does not say whether before or
after the input is scaled to [0, 1]. After, zero is the least value of all (``"zero"``); before, it is where centred
maps have their mean (``"zero-before-scaling"``; the image is scaled by itself first, and has zeros around it after
that). ``"edge"`` repeats the outermost pixels, and is not the paper's.
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
    if not isinstance(border, Tensor) and border == "zero" and before == after:
        return F.conv2d(x, weights, bias, padding=before, dilation=dilation)
    return F.conv2d(_framed(x, (before, after, before, after), border), weights, bias, dilation=dilation)


def _framed(x: Tensor, frame: tuple[int, int, int, int], border: Tensor | str) -> Tensor:
    """Return x with its border around it: so many pixels to the left and right, above and below."""
    if not isinstance(border, Tensor):
        return F.pad(x, frame, mode="replicate" if border == "edge" else "constant")
    outside = 1 - F.pad(torch.ones_like(x[:1, :1]), frame)
    return F.pad(x, frame).add_(outside * border[:, None, None])


def rectify(maps: Tensor) -> Tensor:
    """Return ReLU(maps), for the pooling branch only."""
    return maps.relu()
