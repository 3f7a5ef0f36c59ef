"""Stages 5 and 6 in one Triton kernel: second-order pooling fused with the pyramid, without the block grid in memory.

First the maps are rectified and centred. Sliding sums give the mean and standard deviation of each channel of each
block: d numbers per block, not d². Then each program processes one image and one *atom*: a rectangle of blocks
that lies completely inside or outside each pyramid cell. For each block of the atom, the d×d sums of products stay in
registers: tensor cores add the columns that a sliding block gains and subtract those it loses. The sums are normalised,
and the running maximum or sum is kept. Only atoms are written. A cell is the maximum, or the weighted mean, of its
atoms.

For CIFAR-10 (16×16 blocks at stride 1, d = 50 padded to 64), 51 blocks are multiplied in full and 238 are updated. That
is 0.17 GFLOP per image on tensor cores, and 4 operations for each of 289·64² normalised entries. The block grid would
have 289·1,225 numbers per image.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ..config.geometry import BlockGrid, Cell, Rectifier, Reduction, count_pairs
from ..numerics.linear_algebra import aligned_rows
from ..stages.second_order import FLAT, Pyramid
from .pooling_triton import block_scales, centre_maps, join_atoms, pool_atoms

# One stage: with loads ahead, Triton 3.6 lets some programs read a strip while it is overwritten, and is no faster.
LAUNCH = {"num_warps": 4, "num_stages": 1}
IN_HALF = {"maxnreg": 112}  # registers for up to 64 channels: four programs per processor instead of three
MOST_PIXELS = 32  # per product
JOINED = 1024  # pairs per program of join_atoms
MOST_ATOMS = 4  # per cell


def numbers_of_maps(channels: int, image_size: tuple[int, int]) -> int:
    """Return the numbers per image in memory, in half precision, padded to at most twice the channels.

    These are the maps, contiguous and centred, and a mean and a scale per block in float32.
    """
    return (2 + 2 * 2) * 2 * channels * prod(image_size)


def fused_pool(
    maps: Tensor,
    pyramids: list[Pyramid],
    diagonal: bool = True,
    reduction: Reduction = "max",
    rectifier: Rectifier = "relu",
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the features of all pyramids, shape (n, Σ cells·pairs): ``stages.pooling.pool_features``.

    Half-precision maps are multiplied on tensor cores and summed in float32; float32 maps are multiplied in float32.
    Features have the type of the maps unless ``out_dtype`` is given. In half precision zeros follow each row
    (:func:`~rescnet.numerics.linear_algebra.aligned_rows`).
    """
    n, raw, h, w = maps.shape
    d = 2 * raw if rectifier == "both" else raw
    padded = max(16, triton.next_power_of_2(d))
    if maps.stride(2) != w * maps.stride(3):
        maps = maps.contiguous()
    x, floor = maps.new_empty(n, h, w, padded), torch.empty(n, padded, device=maps.device)
    eps = torch.finfo(maps.dtype).eps
    relative_floor = (16 * eps if maps.dtype.itemsize >= 4 else 0.5 * eps) ** 2
    both = rectifier == "both"
    options = {"RAW": max(16, triton.next_power_of_2(raw)) if both else padded, "BOTH": both, "FLAT": FLAT}
    strides = maps.stride(0), maps.stride(1), maps.stride(3)
    centre_maps[(n,)](
        *(maps, x, floor, relative_floor, h * w, raw, *strides),
        **options,
        SUMMED=64,
        STEP=128,
        CHANNELS=padded,
        num_warps=8,
    )
    sizes = [len(cells) * count_pairs(d, diagonal) for _, cells in pyramids]
    features = aligned_rows(n, sum(sizes), out_dtype or maps.dtype, maps.device)
    for (grid, cells), of_grid in zip(pyramids, torch.split(features, sizes, dim=1), strict=True):
        _pool_grid(x, floor, d, grid, cells, of_grid, diagonal, reduction)
    return features


def _pool_grid(
    x: Tensor,
    floor: Tensor,
    d: int,
    grid: BlockGrid,
    cells: list[Cell],
    features: Tensor,
    diagonal: bool,
    reduction: Reduction,
) -> None:
    """Write the features of one block size, (n, cells·pairs), from d centred maps x (n, h, w, padded channels)."""
    n, h, w, padded = x.shape
    (block_h, block_w), (stride_h, stride_w), (block_rows, block_columns) = grid.block, grid.stride, grid.shape
    rows = {"BLOCK_H": block_h, "STRIDE_H": stride_h}
    columns = {"BLOCK_W": block_w, "STRIDE_W": stride_w}
    scales = torch.empty(n, block_rows, block_columns, 2, padded, device=x.device)
    part, warps = (min(64, padded), 2) if w <= 64 else (16, 4 if w <= 128 else 8)  # its sums stay in registers
    block_scales[(n, triton.cdiv(padded, part))](
        *(x, floor, scales, h, w, d, block_rows, block_columns),
        **rows,
        **columns,
        COLUMNS=max(16, triton.next_power_of_2(w)),
        STARTS=max(16, triton.next_power_of_2(block_columns)),
        PART=part,
        CHANNELS=padded,
        num_warps=warps,
    )
    tables, pairs = _tables(tuple(cells), x.device), count_pairs(d, diagonal)
    atom_rows, atom_columns = len(tables.heights), len(tables.widths)
    pooled = features.new_empty(n, atom_rows, atom_columns, pairs)
    width = _strip_width(stride_w, block_h)
    pool_atoms[(n * atom_rows * atom_columns,)](
        *(x, scales, pooled, tables.rows, tables.columns, h * w, w, d, *grid.shape, atom_rows, atom_columns, pairs),
        **rows,
        **columns,
        FILL=min(MOST_PIXELS, max(16, triton.next_power_of_2(block_h * block_w))),
        SLIDES=2 * stride_w <= block_w,
        WIDTH=width,
        SIDE=max(8, triton.next_power_of_2(block_h * width)),
        CHANNELS=padded,
        DIAGONAL=diagonal,
        MAXIMUM=reduction == "max",
        PRECISION="ieee" if x.dtype.itemsize >= 4 else "tf32",
        **LAUNCH,
        **(IN_HALF if x.dtype == torch.float16 and padded <= 64 else {}),
    )
    join_atoms[(n, triton.cdiv(pairs, JOINED))](
        *(pooled, tables.cells, tables.heights, tables.widths, features, features.stride(0)),
        *(atom_rows, atom_columns, pairs),
        CELLS=len(cells),
        WIDTH=JOINED,
        MAXIMUM=reduction == "max",
        num_warps=4,
    )


def _strip_width(columns: int, height: int) -> int:
    """Return the columns per product: the largest divisor of ``columns`` with strips of at most 32 pixels, or 1."""
    return max(c for c in range(1, columns + 1) if columns % c == 0 and (c == 1 or c * height <= MOST_PIXELS))


class Tables(NamedTuple):
    """Cells and atoms on the GPU.

    Atoms are the coarsest division of the block grid such that every cell is a union of atoms: atom (a, b) holds block
    rows rows[a] to rows[a + 1], columns likewise.
    """

    rows: Tensor  # cuts of the atoms, int32
    columns: Tensor
    heights: Tensor  # of the atoms, in blocks
    widths: Tensor
    cells: Tensor  # first and last atom row and column of each cell, the last excluded, (cells, 4)


@cache
def _tables(cells: tuple[Cell, ...], device: torch.device) -> Tables:
    """Return the tables of some cells: kept, since a single image would wait for their copies at every layer."""
    down = sorted({end for cell in cells for end in (cell.top, cell.bottom)})
    along = sorted({end for cell in cells for end in (cell.left, cell.right)})
    inside = [[down.index(c.top), down.index(c.bottom), along.index(c.left), along.index(c.right)] for c in cells]
    rows, columns, cuts = (torch.tensor(each, dtype=torch.int32) for each in (down, along, inside))
    heights, widths = rows.diff().float(), columns.diff().float()  # on the host: any stream may use them
    return Tables(*(each.to(device) for each in (rows, columns, heights, widths, cuts)))
