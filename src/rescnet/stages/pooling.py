"""Stage 6: the spatial pyramid of PCANet (section 2.3.2); stages 5 and 6 together; and matrix roots of the cells.

Each level p divides the map into p×p cells; the second-order features of the blocks in a cell are reduced to one. On a
GPU :mod:`rescnet.kernels.pooling` replaces :func:`pool_features`, and :mod:`rescnet.kernels.matrix_sqrt` replaces
:func:`matrix_roots`. The roots go beyond the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from ..config.geometry import BlockGrid, Cell, Rectifier, Reduction, ZScore, count_pairs
from .convolution import rectify
from .second_order import Pyramid, channel_pairs, mean_correlations, second_order_pool


def pyramid_pool(blocks: Tensor, cells: list[Cell], reduction: Reduction = "max") -> Tensor:
    """Reduce the features of each cell's blocks, elementwise: (n, block rows, block columns, pairs) → (n, cells·pairs).

    PCANet and this paper take the maximum, PCANet+ the mean.
    """
    if reduction == "mean":  # one product with the weight of each block in each cell
        shares = blocks.new_zeros(len(cells), *blocks.shape[1:3])
        for share, c in zip(shares, cells, strict=True):
            share[c.top : c.bottom, c.left : c.right] = 1 / ((c.bottom - c.top) * (c.right - c.left))
        return (shares.flatten(1) @ blocks.flatten(1, 2)).flatten(1)
    # Rows first: reducing one contiguous axis at a time is an order of magnitude faster than two at once.
    pooled = [blocks[:, c.top : c.bottom].amax(1)[:, c.left : c.right].amax(1) for c in cells]
    return torch.cat(pooled, dim=1)


def pool_features(
    maps: Tensor,
    grid: BlockGrid,
    cells: list[Cell],
    z_score: ZScore = "channel",
    diagonal: bool = True,
    reduction: Reduction = "max",
) -> Tensor:
    """Return the features of the positive parts of ``maps`` (n, d, h, w), shape (n, cells·pairs)."""
    return pool_pyramids(maps, [(grid, cells)], z_score, diagonal, reduction)[0]


def pool_pyramids(
    maps: Tensor,
    pyramids: list[Pyramid],
    z_score: ZScore = "channel",
    diagonal: bool = True,
    reduction: Reduction = "max",
) -> list[Tensor]:
    """Return the result of :func:`pool_features` for each pyramid."""
    maps = rectify(maps)
    if reduction == "mean" and not maps.is_cuda and not torch.compiler.is_compiling():
        return mean_correlations(maps, pyramids, z_score, diagonal)
    return [pyramid_pool(second_order_pool(maps, grid, z_score, diagonal), c, reduction) for grid, c in pyramids]


def pooling_input(maps: Tensor, rectifier: Rectifier) -> Tensor:
    """Return the maps whose positive parts are pooled: (n, d, h, w), or (n, 2d, h, w) for both signs."""
    return torch.cat([maps, -maps], dim=1) if rectifier == "both" else maps


ITERATIONS = 5  # of Newton and Schulz
THREADED = 2**21  # multiplications: fewer are not worth a thread
ALIGNED = 8  # sides of half-precision matrices are padded to a multiple of this, for tensor cores


def matrix_roots(features: Tensor, channels: int, diagonal: bool) -> Tensor:
    """Replace each cell's correlation matrix by its square root; both are stored as upper triangles.

    Five steps of the coupled Newton-Schulz iteration on the matrix divided by its trace: Y₀ = A/tr A, Z₀ = I,
    T = (3I - Z Y)/2, Y ← Y T, Z ← T Z; the root is √(tr A)·Y. Eigenvalues far below the mean have not converged by
    then and stay too small, which suppresses noise. Two steps at once save products: 10 are left of 13. On a GPU
    one cell at a time, to save memory.

    Features, (n, cells·pairs) like the result, are means of positive semi-definite matrices; without a diagonal it is
    1. On a GPU half precision is multiplied as such with float32 sums: no entry of Y exceeds 1, none of Z 1.5⁵.
    """
    half = features.dtype == torch.float16
    exact = features.float() if half and not features.is_cuda else features
    triangles = exact.view(features.shape[0], -1, count_pairs(channels, diagonal))
    side = -(-channels // ALIGNED) * ALIGNED if half else channels
    place = _places(channels, side, diagonal, features.device)
    rows, columns = channel_pairs(channels, diagonal, features.device)
    chosen = rows * side + columns

    def root(part: Tensor) -> Tensor:
        return _root(part, place, side).flatten(1).index_select(1, chosen)

    if features.is_cuda:
        roots = torch.cat([root(cell) for cell in triangles.unbind(1)], dim=1)
    else:  # all cells at once: few large operations are faster, and an exported graph is smaller
        roots = _in_threads(root, triangles.flatten(0, 1), products=side**3)
    return roots.view(features.shape).to(features.dtype)


def _in_threads(function: Callable[[Tensor], Tensor], x: Tensor, products: int) -> Tensor:
    """Apply a function to the parts of ``x`` in threads: without MKL, PyTorch multiplies batches of matrices in one.

    ``products`` is the number of multiplications per row of ``x``.
    """
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    if torch.compiler.is_compiling() or threads == 1 or torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return function(x)
    if len(x) * products < threads * THREADED:
        return function(x)

    def apply(part: Tensor) -> Tensor:
        with torch.inference_mode(inference):
            return function(part)

    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return torch.cat(list(pool.map(apply, x.chunk(threads))))
    finally:
        torch.set_num_threads(threads)  # else threads that start later would have the last number set, 1


def _places(channels: int, side: int, diagonal: bool, device: torch.device) -> Tensor:
    """Return the index of each entry of a matrix (side²) in ``[triangle, 1, 0]``."""
    index, pairs = torch.arange(side, device=device), count_pairs(channels, diagonal)
    row, column = torch.minimum(index[:, None], index), torch.maximum(index[:, None], index)
    above = row * (row - 1) // 2 if diagonal else row * (row + 1) // 2 + 1  # entries left out of the full rows before
    place = row * channels - above + column - row
    place = place if diagonal else torch.where(row == column, pairs, place)
    return torch.where(column < channels, place, pairs + 1).flatten()


def _root(triangle: Tensor, place: Tensor, side: int) -> Tensor:
    """Return the square roots of the matrices in ``triangle`` (n, pairs), shape (n, side, side)."""
    ends = triangle.new_tensor([1.0, 0.0]).expand(triangle.shape[0], 2)
    matrix = torch.cat([triangle, ends], dim=1).index_select(1, place).view(-1, side, side)
    trace = matrix.diagonal(dim1=1, dim2=2).sum(1)
    trace = torch.where(trace > 0, trace, 1)[:, None, None]  # if no channel varies, the root is zero
    matrix = matrix / trace
    identity = torch.eye(side, dtype=matrix.dtype, device=matrix.device)
    inverse = _two_steps(matrix, identity)
    root = matrix @ inverse
    steps = _two_steps(root @ inverse, identity)
    root, inverse = root @ steps, inverse @ steps
    return torch.baddbmm(root, root, root @ inverse, beta=1.5, alpha=-0.5).mul_(trace.sqrt())


def _two_steps(product: Tensor, identity: Tensor) -> Tensor:
    """Return T T' of two steps from N = Z Y, where T = (3I - N)/2, N' = N T² and T' = (3I - N')/2.

    All iterates are polynomials of A and commute, so T T' = 9/4 - 39/16 N + 27/16 N² - 9/16 N³ + 1/16 N⁴.
    """
    square = product @ product
    factor = torch.add(product - 3 * identity, square, alpha=-1 / 9)
    steps = torch.add(9 / 4 * identity, product, alpha=-39 / 16)
    return torch.baddbmm(steps, square, factor, alpha=-9 / 16)
