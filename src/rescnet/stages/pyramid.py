"""Stage 6: the spatial pyramid, "identical to that implemented by Chan et al." (section 2.3.2).

Each level p divides the map into p×p cells; the second-order features of the blocks in a cell are reduced to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Literal

import torch
from torch import Tensor

from .second_order import BlockGrid

Cells = Literal["official", "adaptive"]
Reduction = Literal["max", "mean"]


@dataclass(frozen=True)
class Cell:
    """The blocks of one cell: block rows ``top`` to ``bottom``, block columns ``left`` to ``right``, ends excluded."""

    top: int
    bottom: int
    left: int
    right: int


def pyramid_cells(grid: BlockGrid, levels: tuple[int, ...], cells: Cells) -> list[Cell]:
    """Return the cells that hold a block: level after level, row by row.

    Parameters
    ----------
    grid : BlockGrid
    levels : tuple of int
        Cells per side, as (4, 2, 1).
    cells : {"official", "adaptive"}
        ``"official"`` bins as PCANet's code: a block belongs to the cell of the *map* that holds the block's centre.
        Large blocks have no centre near the border, so cells there can be empty; PCANet leaves zeros in them, which
        tell a classifier nothing, and they are left out here: 16×16 blocks on 32×32 maps fill 14 of 21 cells.
        ``"adaptive"`` divides the *grid of blocks* evenly, so all cells are filled, some sharing blocks.
    """
    if not levels or min(levels) < 1:
        raise ValueError(f"pyramid levels {levels} must be positive: choose for instance (4, 2, 1).")
    finest, room = max(levels), min(grid.shape)
    if finest > room:
        raise ValueError(
            f"a pyramid of {finest}×{finest} cells is finer than the {grid.shape[0]}×{grid.shape[1]} grid of blocks: "
            f"choose levels of at most {room}, smaller blocks or a smaller stride."
        )
    found = []
    for level in levels:
        bins = _official_bins if cells == "official" else _adaptive_bins
        for (top, bottom), (left, right) in product(bins(grid, level, axis=0), bins(grid, level, axis=1)):
            found.append(Cell(top, bottom, left, right))
    return found


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


def _official_bins(grid: BlockGrid, level: int, axis: int) -> list[tuple[int, int]]:
    """Group block indices along an axis by the cell that holds their centre, in 1-based pixels."""
    size, block, stride = grid.map_size[axis], grid.block[axis], grid.stride[axis]
    centres = [ceil(block / 2) + stride * index for index in range(grid.shape[axis])]
    cell_of = [ceil(centre * level / size) for centre in centres]
    members = [[i for i, cell in enumerate(cell_of) if cell == wanted] for wanted in range(1, level + 1)]
    return [(m[0], m[-1] + 1) for m in members if m]


def _adaptive_bins(grid: BlockGrid, level: int, axis: int) -> list[tuple[int, int]]:
    """Divide the block indices along an axis evenly; neighbours share a block where they must."""
    blocks = grid.shape[axis]
    return [(index * blocks // level, ceil((index + 1) * blocks / level)) for index in range(level)]
