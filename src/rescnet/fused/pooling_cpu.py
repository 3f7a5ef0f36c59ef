"""Stages 5 and 6, and matrix logarithms, compiled for a CPU by Numba.

As in :mod:`rescnet.stages.second_order`, sums over blocks are sums of tiles. A *place* is a tile at which a block may
begin: there are 256 on 32×32 pixels with stride 2. Two pairs of channels are pooled at a time. Their products at all
places stay in the processor's nearest cache until they are normalised, and the results of two rows of pairs in the
second one until they are cells' means. In PyTorch, each operation passes over all pairs, and waits for memory most of
the time. Maxima of cells are taken by PyTorch, from the results of all pairs.

For the default network (64 channels, blocks of 8 and 16 pixels at stride 2), each of the 2,080 pairs takes 4,000
operations for products and sums over blocks, and 1,200 to normalise. Cells are one product of matrices, with 7,700.

Matrix logarithms are taken one after the other. Products of 64×64 matrices are left to the BLAS of SciPy.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..config.geometry import BlockGrid, Cell, Reduction, count_pairs
from ..numerics.threads import in_threads
from ..stages.pooling import DOUBLINGS, THREADED, log_scale
from ..stages.second_order import FLAT, Pyramid, tile_of
from . import ROWS, WIDTH
from .pooling_numba import MOST_PAIRS, Buffers, Plan, pool_means, pool_planes, triangle_logs


def _buffers(plan: Plan, channels: int, pairs: int, cells: int) -> Buffers:
    """Return the buffers for maps with that many channels: for planes of some pairs, and for a pyramid's cells."""
    (pyramids, places), like = plan.inside.shape, torch.from_numpy(plan.inside)
    reach = max((int(distance * (count - 1)) for _, distance, count in plan.sums), default=0)
    shapes = {
        "x": (channels, prod(plan.tile), places),
        "scales": (pyramids, channels, places),
        "means": (pyramids, channels, places),
        "work": (len(plan.sums) + 1, ROWS * places + _padded(reach)),
        "planes": (pyramids, pairs * int(max(plan.lengths))),
        "of_cells": (cells * MOST_PAIRS,),
    }
    # PyTorch's memory is aligned; NumPy's is not, and loops over it take up to half as long again.
    return Buffers(**{name: like.new_zeros(shape).numpy() for name, shape in shapes.items()})


def compiled_pool(maps: Tensor, pyramids: list[Pyramid], diagonal: bool, reduction: Reduction) -> Tensor:
    """Return the result of ``stages.pooling.pool_features``, (n, Σ cells·pairs)."""
    n, d = maps.shape[:2]
    plan, shares = _plan(tuple((grid, tuple(cells)) for grid, cells in pyramids), maps.dtype)
    counts, pairs = np.array([len(cells) for _, cells in pyramids]), count_pairs(d, diagonal)
    buffers = _buffers(plan, d, ROWS * d if reduction == "mean" else pairs, int(max(counts)))
    joined = maps.new_empty(n, int(sum(counts)), pairs)
    for values, features in zip(maps.contiguous().numpy(), joined, strict=True):
        if reduction == "mean":
            pool_means(values, plan, diagonal, buffers, shares, counts, features.numpy())
        else:
            pool_planes(values, plan, diagonal, buffers)
            _take_maxima(torch.from_numpy(buffers.planes), plan, pyramids, features)
    return joined.flatten(1)


def _take_maxima(planes: Tensor, plan: Plan, pyramids: list[Pyramid], features: Tensor) -> None:
    """Write the largest result of each cell's blocks into ``features`` (cells, pairs)."""
    cells = iter(features)
    for plane, length, (grid, of_grid) in zip(planes, plan.lengths, pyramids, strict=True):
        blocks = _blocks(plane[: features.shape[1] * length].view(-1, length), grid, plan.tile)
        for c in of_grid:
            torch.amax(blocks[:, c.top : c.bottom, c.left : c.right], (1, 2), out=next(cells))


def compiled_logs(features: Tensor, channels: int) -> Tensor:
    """Return the result of ``stages.pooling.matrix_logs``, shape (n, cells·pairs)."""
    exact = features.float() if features.dtype == torch.float16 else features
    scale = log_scale(channels)

    def log(triangles: Tensor) -> Tensor:
        logs, buffers = torch.empty_like(triangles), triangles.new_empty(3, channels, channels)
        triangle_logs(triangles.numpy(), scale, DOUBLINGS, tuple(buffers.numpy()), logs.numpy())
        return logs

    triangles = exact.reshape(-1, count_pairs(channels, diagonal=True))
    logs = in_threads(log, triangles, least=-(-THREADED // channels**3))
    return logs.view(features.shape).to(features.dtype)


def _blocks(plane: Tensor, grid: BlockGrid, tile: tuple[int, int]) -> Tensor:
    """Return a view of the places where blocks begin: (m, places) → (m, block rows, block columns)."""
    down, along = (stride // side for stride, side in zip(grid.stride, tile, strict=True))
    row = grid.map_size[1] // tile[1]
    return plane.as_strided((len(plane), *grid.shape), (plane.stride(0), down * row, along), plane.storage_offset())


@lru_cache(maxsize=16)
def _plan(pyramids: tuple[tuple[BlockGrid, tuple[Cell, ...]], ...], dtype: torch.dtype) -> tuple[Plan, NDArray[Any]]:
    """Return the plan of some pyramids, and for each the weights of places in the means of cells, (cells, length).

    Pyramids share the sums over tiles, and those over smaller blocks if they divide.
    """
    tile = tile_of([grid for grid, _ in pyramids])
    height, width = (size // side for size, side in zip(pyramids[0][0].map_size, tile, strict=True))
    inside = torch.zeros(len(pyramids), _padded(height * width), dtype=dtype, device="cpu")
    sums: list[tuple[int, int, int]] = []
    results, lengths, all_shares, before, row = [], [], [], (1, 1), 0
    for begins, (grid, cells) in zip(inside, pyramids, strict=True):
        size = grid.block[0] // tile[0], grid.block[1] // tile[1]
        if size[0] % before[0] or size[1] % before[1]:
            before, row = (1, 1), 0
        row = _add_neighbours(sums, row, size[1] // before[1], before[1])
        row = _add_neighbours(sums, row, size[0] // before[0], before[0] * width)
        results.append(row)
        before = size
        _blocks(begins[None], grid, tile).fill_(1)
        lengths.append(_padded(int(begins.nonzero()[-1, 0]) + 1))
        shares = begins.new_zeros(len(cells), inside.shape[1])
        for share, c in zip(_blocks(shares, grid, tile), cells, strict=True):
            share[c.top : c.bottom, c.left : c.right] = 1 / ((c.bottom - c.top) * (c.right - c.left))
        all_shares.append(shares[:, : lengths[-1]].flatten())
    areas = np.array([prod(grid.block) for grid, _ in pyramids], inside.numpy().dtype)
    operations = np.array(sums, np.uintp).reshape(-1, 3)
    shares = pad_sequence(all_shares, batch_first=True).numpy()
    return Plan(tile, inside.numpy(), operations, np.array(results), np.array(lengths), areas, ROWS, FLAT), shares


def _padded(places: int) -> int:
    return -(-places // WIDTH) * WIDTH


def _add_neighbours(sums: list[tuple[int, int, int]], row: int, count: int, distance: int) -> int:
    """Append the operations that add ``count`` neighbours of a row, four at a time; return the row of the result."""
    for terms in (4, 3, 2):
        while count > 1 and count % terms == 0:
            sums.append((row, distance, terms))
            row, count, distance = len(sums), count // terms, distance * terms
    if count > 1:
        sums.append((row, distance, count))
        row = len(sums)
    return row
