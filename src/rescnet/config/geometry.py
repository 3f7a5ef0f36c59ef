"""Blocks of second-order pooling, cells of the pyramid, and the number of features they give."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil, gcd, prod
from typing import Literal

from ..base.errors import ConfigError

Bins = Literal["official", "adaptive"]
Reduction = Literal["max", "mean"]
Rectifier = Literal["relu", "both"]
ZScore = Literal["channel", "block"]  # "block" is PCANet-II's

WINDOW = 64  # pixels: cost of writing a window's products, in units of multiplying a pixel, measured on a CPU


@dataclass(frozen=True)
class BlockGrid:
    """Grid of the blocks of second-order pooling on a map; all pairs are (rows, columns)."""

    map_size: tuple[int, int]
    block: tuple[int, int]
    stride: tuple[int, int]

    def __post_init__(self) -> None:
        if min(*self.block, *self.stride) < 1:
            raise ConfigError(f"block and stride must be at least one pixel, got {self.block} and {self.stride}.")
        if self.block[0] > self.map_size[0] or self.block[1] > self.map_size[1]:
            raise ConfigError(
                f"block_sizes must be at most {min(self.map_size)} on images of {self.map_size[0]}×{self.map_size[1]}, "
                f"got {self.block[0]}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of block rows and block columns."""
        (h, w), (r, c), (sy, sx) = self.map_size, self.block, self.stride
        return (h - r) // sy + 1, (w - c) // sx + 1

    @property
    def tile(self) -> tuple[int, int]:
        """Largest tile that divides every block at every position."""
        return gcd(self.block[0], self.stride[0]), gcd(self.block[1], self.stride[1])

    @property
    def windows(self) -> BlockGrid:
        """Windows whose products are computed: tiles or whole blocks along each axis, whichever is cheapest."""
        axes = zip(self.tile, self.block, self.stride, strict=True)
        ways = product(*(((tile, tile), (block, stride)) for tile, block, stride in axes))
        grids = (BlockGrid(self.map_size, (rows[0], columns[0]), (rows[1], columns[1])) for rows, columns in ways)
        return min(grids, key=lambda grid: prod(grid.shape) * (prod(grid.block) + WINDOW))


def count_pairs(channels: int, diagonal: bool) -> int:
    """Return the features per block: d(d+1)/2 with the diagonal, d(d-1)/2 without."""
    return channels * (channels + 1) // 2 if diagonal else channels * (channels - 1) // 2


@dataclass(frozen=True)
class Cell:
    """Blocks of one cell: block rows ``top`` to ``bottom``, block columns ``left`` to ``right``, ends excluded."""

    top: int
    bottom: int
    left: int
    right: int


@cache
def pyramid_cells(grid: BlockGrid, levels: tuple[int, ...], bins: Bins) -> list[Cell]:
    """Return the cells that hold a block: level after level, row by row.

    Levels are the cells per side, e.g. (4, 2, 1). ``"official"`` bins are PCANet's: a block belongs to the cell
    of the *map* that holds the block's centre. Large blocks have no centre near the border, so cells there can be
    empty. PCANet leaves zeros in them; they are left out here: 16×16 blocks on 32×32 maps fill 14 of 21 cells.
    ``"adaptive"`` bins divide the *grid of blocks* evenly, so all cells are filled, some sharing blocks.

    The list is computed once and shared: do not change it.
    """
    if not levels or min(levels) < 1:
        raise ConfigError(f"pyramid must be positive numbers, e.g. (4, 2, 1), got {levels}.")
    finest, room = max(levels), min(grid.shape)
    if finest > room:
        raise ConfigError(
            f"pyramid must be at most {room} on a grid of {grid.shape[0]}×{grid.shape[1]} blocks, got {finest}. Use "
            "smaller blocks or a smaller stride for a finer one."
        )
    divide = _official_bins if bins == "official" else _adaptive_bins
    return [
        Cell(top, bottom, left, right)
        for level in levels
        for (top, bottom), (left, right) in product(divide(grid, level, axis=0), divide(grid, level, axis=1))
    ]


def _official_bins(grid: BlockGrid, level: int, axis: int) -> list[tuple[int, int]]:
    """Group block indices along an axis by the cell that holds their centre, in 1-based pixels."""
    size, block, stride = grid.map_size[axis], grid.block[axis], grid.stride[axis]
    centres = [ceil(block / 2) + stride * index for index in range(grid.shape[axis])]
    cell_of = [ceil(centre * level / size) for centre in centres]
    return [(cell_of.index(cell), len(cell_of) - cell_of[::-1].index(cell)) for cell in sorted(set(cell_of))]


def _adaptive_bins(grid: BlockGrid, level: int, axis: int) -> list[tuple[int, int]]:
    """Divide the block indices along an axis evenly; neighbours share a block where they must."""
    blocks = grid.shape[axis]
    return [(index * blocks // level, ceil((index + 1) * blocks / level)) for index in range(level)]
