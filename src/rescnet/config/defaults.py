"""The default network: settings that follow from the images and the quality wanted.

They were chosen on unused training images of CIFAR-10, in part on those of MNIST, Fashion-MNIST and digits. The ridge
for many classes is that of the preset cifar100-best.
"""

from __future__ import annotations

from math import inf
from typing import Any, Literal, cast, get_args

from ..base.text import check_known
from .network import CODE_SIZE

Quality = Literal["fast", "balanced", "best"]
QUALITIES: tuple[Quality, ...] = get_args(Quality)
SMALL_SIDE = 16  # pixels: smaller images have room for one size of blocks, and for fewer filters
MANY_CLASSES = 20
FEWER_THAN = (1000, 5000, 20_000, inf)  # training images
LAYERS: dict[Quality, tuple[int, ...]] = {  # by the number of training images
    "fast": (2, 2, 4, 6),
    "balanced": (3, 6, 12, 12),
    "best": (12, 12, 24, 24),
}
STACK_DEPTHS = {2: 1, 3: 1, 4: 2, 6: 2, 12: 4, 24: 4}  # by the number of layers
IMAGES_PER_COMPONENT = 5  # of the readout
FEWER_COMPONENTS_FROM = 2000  # training images: with fewer, all components are better
CORRECTED_FROM = 500  # training images: with fewer, a leave-one-out correction fits noise
CORRECTED_PER_CLASSES = 5  # and with fewer than 5·classes²
MOST_ROWS = 45_000  # of a readout with copies
MOST_COPIES = 8


def check_quality(quality: str) -> Quality:
    """Return a quality, or raise ValueError if there is no such one."""
    check_known("quality", quality, QUALITIES)
    return cast(Quality, quality)


def default_settings(
    image_shape: tuple[int, int, int],
    images: int,
    classes: int,
    quality: Quality = "balanced",
    mirrored: bool = False,
) -> dict[str, Any]:
    """Return the settings for a number of training images (channels, height, width).

    ``mirrored`` says that mirror images are of the same class.

    Examples
    --------
    >>> settings = default_settings((3, 32, 32), 500, 10, "balanced", mirrored=True)
    >>> settings["layers"], settings["block_sizes"], settings["augment"]
    (3, [8, 16], 'flip')
    """
    channels, height, width = image_shape
    side = min(height, width)
    small, grey = side < SMALL_SIDE, channels < 3
    size = next(index for index, fewer in enumerate(FEWER_THAN) if images < fewer)
    layers, stride = LAYERS[quality][size], max(1, round(side / 16))
    settings = {
        "layers": layers,
        "stack_depth": STACK_DEPTHS[layers],
        "filters": 16 if small else 32,
        "bank": "pca + stacked-lda",
        "rectifier": "both",
        "block_sizes": [max(2, side // 2)] if small else [stride * (side // part // stride) for part in (4, 2)],
        "block_stride": stride,
        "pyramid": [3, 1],
        "pyramid_bins": "adaptive",
        "pooling": "mean",
        "matrix_log": True,
        "head": "ridge",
        "ridge": 0.5 if grey else 5.0 if classes > MANY_CLASSES else 2.0,
        "learning_rate": 0.3,
        "stop_at_zero_error": False,
        "readout": "kernel",
        "readout_size": CODE_SIZE,
        "loo_correction": images >= max(CORRECTED_FROM, CORRECTED_PER_CLASSES * classes**2),
    }
    if grey:  # 3×3 patches have too few principal components
        settings["first_filter_size"] = min(side, 5 if small else 7)
    elif channels == 3 and not small:
        settings["grey_stack_every"] = 3
    if mirrored:
        settings["augment"] = "flip"
    if images >= FEWER_COMPONENTS_FROM:
        settings["readout_size"] = min(CODE_SIZE, images // IMAGES_PER_COMPONENT)
    copies = min(MOST_COPIES, MOST_ROWS // max(1, images) - 1)
    if quality == "best" and not grey and copies > 0:
        settings["kernel_copies"] = f"{copies} shift {stride} + jitter 0.1"
    return settings


CHOSEN = frozenset(
    default_settings((3, 32, 32), 500, 10, "best", mirrored=True) | default_settings((1, 32, 32), 500, 10)
)
"""Names of the options that follow from the images."""
