"""Operations and bytes of one layer, stage by stage, counted by formula from the configuration.

Counted is the least the stage's formula needs, whatever way the code takes: a symmetric matrix once and not twice, each
input read once and each result written once, nothing for padding, copies or retries. So a rate is what the useful work
was done at, and ``operations / ceiling`` or ``bytes / ceiling``, the greater of the two, is a floor for the stage.

Symbols: n training images and m others of c channels, h×w pixels; d filters of k×k on c + d channels; M = (c + d)k²
numbers a patch; P channel pairs, B blocks, D features; C classes, K head columns (2C, or C for ridge). An operation is
an addition, a multiplication or a comparison.

=============  =======================================================  ================================================
stage          operations                                               bytes
=============  =======================================================  ================================================
scaling        2n(c+d)hw: a minimum and a maximum                       maps and images of n
filters        2n·hw(c+d)²(2k²-2k+1): products of pixels at all shifts  maps and images of n, M² sums
               within a patch, of which half are transposes (or half of
               a Gram matrix of the patches sampled); 9M³: eigenvectors
residual       4nC: difference, absolute value, comparison, sign        outputs, targets of n
convolution    2(n+m)hw·M·d                                             maps and images of n + m, new maps
pooling        (n+m)P(2hw + 8B): every pixel's products once, sliding    maps of n + m, features
               sums, normalisation, reduction
moments        nD(D+1) + 2nDK: half of a Gram matrix, cross products    features of n, D(D+1)/2 + DK sums
heads          D³/3 + 2D²K: Cholesky, two triangular solves             D(D+1)/2 read and written, DK
update         2(n+m)DK                                                 features of n + m, DK, outputs twice
=============  =======================================================  ================================================

Where features do not fit the memory they are computed twice: then the pooling of n counts twice. Where each sign learns
from its own images there are two factorisations. Where heads are solved by rows, there being few images, ``moments``
has 2nD + 2nDK operations and ``heads`` n²D + n³/3 + 2n²K + 2nDK, as if all images were of one sign. The draws of
stacked-LDA (a few thousand patches) count nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...config.geometry import count_pairs
from ...config.network import NetworkConfig

STAGES = ("scaling", "filters", "residual", "convolution", "pooling", "moments", "heads", "update")


@dataclass(frozen=True)
class StageCost:
    """What a stage must do.

    Attributes
    ----------
    operations, bytes : float
    unit : str
        The ceiling its operations are measured against: ``float16``, ``float32`` or ``float64``.
    """

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
        Images learnt from, and others that are let through.
    precision : {"exact", "balanced", "fast"}
        As trained: all but ``exact`` keep maps and features in half precision, and factorise in it.
    itemsize : int
        Bytes of a number that is not in half precision.
    features_kept : bool
        Whether features are computed once.
    by_rows : bool
        Whether heads are solved from products of images, which are fewer than features.
    layer : int
        Counted from 1; those that see maps are alike.
    """
    c, h, w = image_shape
    d, k, pixels = config.filters, config.size_of_filter(layer), h * w
    before = 0 if config.place_in_stack(layer) == 1 else d
    stored = itemsize if precision == "exact" else 2
    pairs = count_pairs(config.pooled_maps, config.keeps_diagonal)
    rows, columns = config.grid((h, w)).shape
    features = config.features((h, w))
    outputs = classes if config.head == "ridge" else 2 * classes
    everyone = train + other
    pooled = everyone if features_kept else everyone + train
    factors = 2 if config.sign_samples == "own" and config.head != "ridge" else 1

    patch = (before + c) * k * k
    products = 2 * train * pixels * (before + c) ** 2 * (2 * k * k - 2 * k + 1)
    if config.patch_samples:
        products = config.patch_samples * patch * (patch + 1)
    entering = before * pixels * stored + c * pixels  # bytes of an image's maps and pixels
    triangle, head = features * (features + 1) / 2, features * outputs
    sums, solving, held = triangle, factors * features**3 / 3 + 2 * features * head, 2 * factors * triangle
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
        "pooling": cost(
            pooled * pairs * (2 * pixels + 8 * rows * columns), pooled * (d * pixels + features) * stored, half
        ),
        "moments": cost(
            2 * train * sums + 2 * train * head, train * features * stored + (sums + head) * itemsize, half
        ),
        "heads": cost(solving, (held + head) * itemsize, half),
        "update": cost(
            2 * everyone * head, everyone * (features * stored + 2 * classes * itemsize) + head * itemsize, full
        ),
    }
