"""Stage 6: the spatial pyramid, "identical to that implemented by Chan et al." (section 2.3.2).

Each level p divides the map into p×p cells; the second-order features of the blocks in a cell are reduced to one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..config.choices import Reduction
from ..config.geometry import Cell


def pyramid_pool(blocks: Tensor, cells: list[Cell], reduction: Reduction = "max") -> Tensor:
    """Reduce the features of each cell's blocks, elementwise.

    Parameters
    ----------
    blocks : Tensor, shape (n, block rows, block columns, pairs)
    reduction : {"max", "mean"}
        PCANet and this paper take the maximum, PCANet+ the mean.

    Returns
    -------
    Tensor, shape (n, cells·pairs), cell after cell
    """
    if reduction == "mean":  # one product with the share each block has in each cell
        shares = blocks.new_zeros(len(cells), *blocks.shape[1:3])
        for share, c in zip(shares, cells, strict=True):
            share[c.top : c.bottom, c.left : c.right] = 1 / ((c.bottom - c.top) * (c.right - c.left))
        return (shares.flatten(1) @ blocks.flatten(1, 2)).flatten(1)
    # Rows first: reducing one contiguous axis at a time is an order of magnitude faster than two at once.
    pooled = [blocks[:, c.top : c.bottom].amax(1)[:, c.left : c.right].amax(1) for c in cells]
    return torch.cat(pooled, dim=1)
