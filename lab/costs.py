"""Operations and bytes of one layer by stage, and the ceilings of a device.

The count is the minimum a stage's formula needs: a symmetric matrix counts once, each input is read once, each result
written once, and padding, copies and retries count nothing. The greater of ``operations / ceiling`` and
``bytes / ceiling`` is a lower bound for the stage.

Symbols: n training images and m others of c channels, h×w pixels; d filters of k×k on c + d channels; M = (c + d)k²
numbers per patch; P channel pairs, B blocks, D features; C classes, K head columns (2C, or C for ridge). An operation
is an addition, a multiplication or a comparison.

=============  =======================================================  ================================================
stage          operations                                               bytes
=============  =======================================================  ================================================
scaling        2n(c+d)hw: a minimum and a maximum                       maps and images of n
filters        2n·hw(c+d)²(2k²-2k+1): products of pixels at all shifts  maps and images of n, M² sums
               within a patch, of which half are transposes;
               9M³: eigenvectors
residual       4nC: difference, absolute value, comparison, sign        outputs, targets of n
convolution    2(n+m)hw·M·d                                             maps and images of n + m, new maps
pooling        (n+m)P(2hw + 8B): every pixel's products once, sliding    maps of n + m, features
               sums, normalisation, reduction
moments        nD(D+1) + 2nDK: half of a Gram matrix, cross products    features of n, D(D+1)/2 + DK sums
heads          D³/3 + 2D²K: Cholesky, two triangular solves             D(D+1)/2 read and written, DK
update         2(n+m)DK                                                 features of n + m, DK, outputs twice
=============  =======================================================  ================================================

If features do not fit in memory they are computed twice, and the pooling of n counts twice. If heads are solved from
rows (few images), ``moments`` has 2nD + 2nDK operations and ``heads`` n²D + n³/3 + 2n²K + 2nDK, as if all images were
of one sign. The draws of stacked-LDA (a few thousand patches) count nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from rescnet import NetworkConfig
from rescnet.config.geometry import count_pairs

from .bench import Case

STAGES = ("scaling", "filters", "residual", "convolution", "pooling", "moments", "heads", "update")
GPU_SIDE, CPU_SIDE = 8192, 1536  # of the matrices of the ceilings
GPU_COPY, CPU_COPY = 2**31, 2**27  # bytes read, and as many written
REPEATS = 7


@dataclass(frozen=True)
class StageCost:
    """Cost of a stage; ``unit`` names the ceiling of its operations: ``float16``, ``float32`` or ``float64``."""

    operations: float
    bytes: float
    unit: str


def layer_costs(
    config: NetworkConfig,
    image_shape: tuple[int, int, int],
    classes: int,
    train: int,
    other: int,
    *,
    precision: str = "exact",
    itemsize: int = 4,
    features_kept: bool = True,
    by_rows: bool = False,
    layer: int = 2,
) -> dict[str, StageCost]:
    """Return the cost of each stage of a layer.

    Parameters
    ----------
    train, other : int
        Number of training images, and of validation and test images.
    precision : {"exact", "balanced", "fast"}
        All but ``exact`` store and factorise in half precision.
    itemsize : int
        Bytes of a number outside half precision.
    features_kept : bool
        Whether features are computed once.
    by_rows : bool
        Whether heads are solved from products of images.
    layer : int
        Counted from 1; layers that see maps are alike.
    """
    c, h, w = image_shape
    d, k, pixels = config.filters, config.size_of_filter(layer), h * w
    before = 0 if config.place_in_stack(layer) == 1 else d
    stored = itemsize if precision == "exact" else 2
    pairs = count_pairs(config.pooled_maps, config.keeps_diagonal)
    blocks = sum(grid.shape[0] * grid.shape[1] for grid, _ in config.grids((h, w)))
    features = config.features((h, w))
    outputs = classes if config.head == "ridge" else 2 * classes
    everyone = train + other
    pooled = everyone if features_kept else everyone + train

    patch = (before + c) * k * k
    products = 2 * train * pixels * (before + c) ** 2 * (2 * k * k - 2 * k + 1)
    entering = before * pixels * stored + c * pixels  # bytes of an image's maps and pixels
    triangle, head = features * (features + 1) / 2, features * outputs
    sums, solving, held = triangle, features**3 / 3 + 2 * features * head, 2 * triangle
    if by_rows:
        sums = features
        solving = train * (train + 1) * features + train**3 / 3 + 2 * train**2 * outputs + 2 * train * head
        held = 2 * train * features + train * (train + 1)
    half, full = ("float32" if itemsize == 4 else "float64",) * 2
    if precision != "exact":
        half = "float16"

    def cost(operations: float, moved: float, unit: str) -> StageCost:
        return StageCost(float(operations), float(moved), unit)

    return {
        "scaling": cost(2 * train * (before + c) * pixels, train * entering, full),
        "filters": cost(products + 9 * patch**3, train * entering + 8 * patch**2, half),
        "residual": cost(4 * train * classes, train * (classes + outputs) * itemsize, full),
        "convolution": cost(2 * everyone * pixels * patch * d, everyone * (entering + d * pixels * stored), half),
        "pooling": cost(pooled * pairs * (2 * pixels + 8 * blocks), pooled * (d * pixels + features) * stored, half),
        "moments": cost(
            2 * train * sums + 2 * train * head, train * features * stored + (sums + head) * itemsize, half
        ),
        "heads": cost(solving, (held + head) * itemsize, half),
        "update": cost(
            2 * everyone * head, everyone * (features * stored + 2 * classes * itemsize) + head * itemsize, full
        ),
    }


def stage_rates(case: Case, result: Mapping[str, Any], ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return the rates of each stage of a result of :func:`lab.bench.measure_case`."""
    sizes = case.shape, case.classes, case.train, case.test
    options = {name: result[name] for name in ("precision", "features_kept", "by_rows")}
    itemsize = 8 if result["compute"]["dtype"] == "float64" else 4
    costs = layer_costs(case.config, *sizes, **options, itemsize=itemsize)
    seconds = result["seconds_by_stage"]
    return {stage: rates(costs[stage], seconds[stage], ceilings) for stage in STAGES if stage in seconds}


def rates(cost: StageCost, seconds: float, ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return the rates of a stage, and the minimum seconds at the device's ceilings."""
    seconds, ceiling = max(seconds, 1e-9), ceilings.get(cost.unit)
    return {
        "seconds": seconds,
        "operations": cost.operations,
        "bytes": cost.bytes,
        "unit": cost.unit,
        "tflops": cost.operations / seconds / 1e12,
        "gigabytes_per_second": cost.bytes / seconds / 1e9,
        "share_of_operations_ceiling": cost.operations / seconds / ceiling if ceiling else None,
        "share_of_copy_ceiling": cost.bytes / seconds / ceilings["copy"],
        "least_seconds": max(cost.bytes / ceilings["copy"], cost.operations / ceiling if ceiling else 0.0),
    }


def measure_ceilings(device: torch.device, side: int | None = None, copied: int | None = None) -> dict[str, float]:
    """Return operations per second by type of number (``float16``, …, ``float32``), and bytes per second of a copy.

    A square product counts 2·side³ operations, a copy the bytes read and written. The ceiling is the best of several
    runs after two that warm up; a CPU has ``float32`` and ``copy`` only.
    """
    gpu = device.type == "cuda"
    side, copied = side or (GPU_SIDE if gpu else CPU_SIDE), copied or (GPU_COPY if gpu else CPU_COPY)
    found = {}
    types = [("float16", torch.float16), ("bfloat16", torch.bfloat16), ("tf32", torch.float32)] if gpu else []
    for name, dtype in [*types, ("float32", torch.float32)]:
        a, b = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        with _matrix_precision("high" if name == "tf32" else "highest"):
            found[name] = 2 * side**3 / min(times(partial(torch.mm, a, b, out=out), device, REPEATS))
        del a, b, out
    source = torch.zeros(copied, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    found["copy"] = 2 * copied / min(times(lambda: target.copy_(source), device, REPEATS))
    return found


def times(work: Callable[[], object], device: torch.device, repeats: int, warm_up: int = 2) -> list[float]:
    """Return the seconds of each repeat, synchronised with the device."""
    found = []
    for number in range(warm_up + repeats):
        _synchronise(device)
        start = time.perf_counter()
        work()
        _synchronise(device)
        if number >= warm_up:
            found.append(time.perf_counter() - start)
    return found


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _matrix_precision(wanted: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
