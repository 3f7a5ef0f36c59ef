"""Numba programs of :mod:`rescnet.fused.pooling_cpu`, which explains them."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# A compiled program is kept until this file changes: constants and fields of other files must not be part of it.
# Sums may be reordered, which vectors need; infinities and NaN stay what they are. Counters that are added to another
# index are unsigned: NumPy's rule for negative indices would cost a comparison per element, and the vectors.
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
MOST_PRODUCTS = 2**17  # multiplications at a time: SciPy's BLAS shares more among threads of its own
LEAST_PAIRS, MOST_PAIRS = 16, 64  # in them


def compiled(function):
    """Compile a function when it is first called, and keep the result beside the source or in the user's cache."""
    try:
        return njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # neither folder can be written: each process compiles, which takes seconds
        return njit(**OPTIONS)(function)


class Plan(NamedTuple):
    """Arrays and numbers that follow from the pyramids alone."""

    tile: tuple[int, int]
    inside: NDArray[Any]  # 1 where a block begins at a place, else 0, (pyramids, places)
    sums: NDArray[np.uintp]  # (row, distance, n): sums of n numbers in a row of the workspace, (operations, 3)
    results: NDArray[np.int64]  # row with the sums over each pyramid's blocks
    lengths: NDArray[np.int64]  # places up to the last block of each pyramid
    areas: NDArray[Any]  # pixels of a block
    rows: int  # of the matrix of pairs, pooled at a time
    flat: float  # ``FLAT``, of a map's standard deviation


class Buffers(NamedTuple):
    """Arrays that one thread uses for one image after the other, each row at the start of a cache line."""

    x: NDArray[Any]  # maps less their means, (d, pixels of a tile, places)
    scales: NDArray[Any]  # 1/(√area·σ) of the block at a place, (pyramids, d, places)
    means: NDArray[Any]  # √area times its mean
    work: NDArray[Any]  # sums of products of ``plan.rows`` pairs, a row per operation
    planes: NDArray[Any]  # results of some pairs, (pairs, length) for each pyramid
    of_cells: NDArray[Any]  # means of some pairs, (cells, pairs)


@compiled
def pool_means(maps, plan, diagonal, buffers, shares, cells, found):
    """Write the mean products of z-scores of each cell's blocks into ``found`` (cells, pairs), for maps (d, h, w).

    Few rows of pairs at a time: their planes stay in the second cache.
    """
    means = buffers.of_cells
    normalise(maps, plan, buffers)
    pair, d = 0, len(maps)
    for i in range(0, d, plan.rows):
        end = min(i + plan.rows, d)
        pairs = write_planes(plan, i, end, diagonal, buffers, 0)
        first = 0
        for q in range(len(cells)):
            count, length = cells[q], plan.lengths[q]
            share = shares[q][: count * length].reshape(count, length)
            step = max(LEAST_PAIRS, min(MOST_PAIRS, MOST_PRODUCTS // (count * length)))
            for start in range(0, pairs, step):
                n = min(step, pairs - start)
                planes = buffers.planes[q][start * length : (start + n) * length].reshape(n, length)
                of_cells = means[: count * n].reshape(count, n)
                np.dot(share, planes.T, of_cells)
                for c in range(count):
                    for k in range(n):
                        found[first + c, pair + start + k] = of_cells[c, k]
            first += count
        pair += pairs


@compiled
def pool_planes(maps, plan, diagonal, buffers):
    """Write the planes of all pairs of maps (d, h, w)."""
    normalise(maps, plan, buffers)
    pair = 0
    for i in range(0, len(maps), plan.rows):
        pair += write_planes(plan, i, min(i + plan.rows, len(maps)), diagonal, buffers, pair)


@compiled
def write_planes(plan, top, bottom, diagonal, buffers, before):
    """Write the planes of the pairs (i, j) of ``top`` ≤ i < ``bottom``, after some others, and return their number.

    The planes (pairs, places) of each pyramid hold the mean product of z-scores of the block that begins at a place,
    and zero where none begins. The rows share each map j while it is in the nearest cache.
    """
    x, scales, means, work, planes = buffers.x, buffers.scales, buffers.means, buffers.work, buffers.planes
    d, places = x.shape[0], x.shape[2]
    for j in range(top, d):
        for i in range(top, bottom):
            multiply(x, i, j, work[0, (i - top) * places :])
        add_neighbours(work, plan.sums, (bottom - top) * places)
        pair = before
        for i in range(top, bottom):
            begin = i if diagonal else i + 1
            if j >= begin:
                for q in range(len(plan.results)):
                    length = np.uintp(plan.lengths[q])
                    sums = work[plan.results[q], (i - top) * places :]
                    plane = planes[q, (pair + j - begin) * length :]
                    for t in range(length):
                        covariance = sums[t] - means[q, i, t] * means[q, j, t]
                        plane[t] = covariance * (scales[q, i, t] * scales[q, j, t])
            pair += d - begin
    return pair - before


@compiled
def normalise(maps, plan, buffers):
    """Write x = map - μ in tiles, and for the block at each place √area·mean(x) and 1/(√area·σ), or 0 if it is flat."""
    x, scales, means, work = buffers.x, buffers.scales, buffers.means, buffers.work
    tile, inside, areas = plan.tile, plan.inside, plan.areas
    d, h, w = maps.shape
    size, pixels, places = x.dtype.type(h * w), x.shape[1], x.shape[2]
    rows, columns = h // tile[0], w // tile[1]
    zero, one, eps = x.dtype.type(0), x.dtype.type(1), np.finfo(x.dtype).eps
    work.fill(zero)  # what is beside a pair's last place is read, though no block begins there: NaN of another image
    for c in range(d):
        values = maps[c].reshape(h * w)
        centre = power = zero
        for k in range(h * w):
            centre += zero if values[k] < zero else values[k]
        centre /= size
        for k in range(h * w):
            difference = (zero if values[k] < zero else values[k]) - centre
            power += difference * difference
        flat = x.dtype.type(plan.flat * plan.flat)
        least = max(power / size * flat, x.dtype.type(256 * eps * eps) * centre * centre)
        for a in range(tile[0]):
            for b in range(tile[1]):
                p = a * tile[1] + b
                for r in range(rows):
                    for k in range(columns):
                        x[c, p, r * columns + k] = maps[c, r * tile[0] + a, k * tile[1] + b]
                for t in range(rows * columns):  # the padding stays zero
                    x[c, p, t] = (zero if x[c, p, t] < zero else x[c, p, t]) - centre
        for t in range(places):
            work[0, t] = x[c, 0, t]
        for p in range(1, pixels):
            for t in range(places):
                work[0, t] += x[c, p, t]
        add_neighbours(work, plan.sums, places)
        for q in range(len(areas)):
            row, root = plan.results[q], one / np.sqrt(areas[q])
            for t in range(places):
                means[q, c, t] = work[row, t] * root
        multiply(x, c, c, work[0])
        add_neighbours(work, plan.sums, places)
        for q in range(len(areas)):
            row, share, root = plan.results[q], one / areas[q], one / np.sqrt(areas[q])
            for t in range(places):
                variance = (work[row, t] - means[q, c, t] * means[q, c, t]) * share
                varies = variance > max(least, x.dtype.type(32 * eps) * share * work[row, t])
                scales[q, c, t] = (root / np.sqrt(variance) if varies else zero) * inside[q, t]


@compiled
def multiply(x, i, j, products):
    """Write Σ x_i x_j over the pixels of each tile."""
    _, pixels, places = x.shape
    for t in range(places):
        products[t] = x[i, 0, t] * x[j, 0, t]
    for p in range(1, pixels):
        for t in range(places):
            products[t] += x[i, p, t] * x[j, p, t]


@compiled
def add_neighbours(work, sums, places):
    """Write sums of n numbers a distance apart, each (row, distance, n) of ``sums`` into a row of its own."""
    for o in range(len(sums)):
        a, s, terms = sums[o]
        if terms == 2:
            for t in range(np.uintp(places)):
                work[o + 1, t] = work[a, t] + work[a, t + s]
        elif terms == 3:
            for t in range(np.uintp(places)):
                work[o + 1, t] = work[a, t] + work[a, t + s] + work[a, t + s + s]
        elif terms == 4:
            for t in range(np.uintp(places)):
                work[o + 1, t] = (work[a, t] + work[a, t + s]) + (work[a, t + s + s] + work[a, t + s + s + s])
        else:
            for t in range(places):
                work[o + 1, t] = work[a, t]
            for k in range(np.uintp(1), terms):
                for t in range(np.uintp(places)):
                    work[o + 1, t] += work[a, t + k * s]


@compiled
def triangle_logs(triangles, scale, doublings, buffers, logs):
    """Write the logarithms of correlation matrices (n, pairs), times ``scale``: see ``stages.pooling.matrix_logs``.

    A matrix stays in the nearest caches through all doublings; ``buffers`` (3, d, d) hold X, X² and the sum of all X.
    """
    x, square, total = buffers
    d = np.uintp(len(x))
    x_, square_, total_ = x.reshape(d * d), square.reshape(d * d), total.reshape(d * d)
    zero, one, two = x.dtype.type(0), x.dtype.type(1), x.dtype.type(2)
    for n in range(len(triangles)):
        trace, k = zero, np.uintp(0)
        for i in range(d):
            trace += triangles[n, k]
            k += d - i
        trace = trace if trace > zero else one
        share, k = one / trace, np.uintp(0)
        for i in range(d):
            for j in range(i, d):
                x[i, j] = x[j, i] = triangles[n, k + (j - i)] * share
            k += d - i
        for t in range(d * d):
            total_[t] = x_[t]
        for _ in range(doublings):
            np.dot(x, x, square)
            for t in range(d * d):
                x_[t] = two * x_[t] - square_[t]
                total_[t] += x_[t]
        factor, k = x.dtype.type(np.sqrt(trace) * scale), np.uintp(0)
        for i in range(d):
            for j in range(i, d):
                logs[n, k + (j - i)] = total[i, j] * factor
            k += d - i
