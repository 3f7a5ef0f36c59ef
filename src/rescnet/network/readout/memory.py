"""What a kernel readout takes: it grows with the square of the training images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.network import NetworkConfig
from ...formatting import show_bytes
from ...stages.augment import Augmentation
from ...stages.gaussian_kernel import SLICE
from ...stages.mixed_precision import padded_size
from ..memory import LARGEST_WORKSPACE, memory_budget, workspace_per_image

if TYPE_CHECKING:
    from ..network import Network

PREDICTION = {"cpu": 2 * 2**30, "cuda": 16 * 2**30}  # bytes new images may take, beside the training images
KEPT = {"cpu": 2 * 2**30, "cuda": 4 * 2**30}  # bytes the training images' features may take between predictions


def image_bytes(config: NetworkConfig, image_shape: tuple[int, int, int], itemsize: int, mirrored: bool) -> int:
    """Return what one image takes on its way: its maps and the features of one layer, in all views."""
    _, height, width = image_shape
    return (1 + mirrored) * itemsize * (config.filters * height * width + config.features((height, width)))


def images_compared(config: NetworkConfig, images: int) -> int:
    """Return how many images a readout of so many training images learns from and keeps, copies included."""
    return images * (1 + config.has_kernel_copies)


def readout_bytes(
    config: NetworkConfig,
    image_shape: tuple[int, int, int],
    images: int,
    others: int,
    itemsize: int,
    half: bool,
    device_type: str,
) -> int:
    """Return the bytes fitting takes on so many images and their copies, with others that are predicted on the way.

    They are two matrices of all pairs of images, three with a second look, which takes an inverse; one or two of images
    and others, and all images on their way.
    """
    mirrored = Augmentation.parse(config.augment).flip
    images = images_compared(config, images)
    one = image_bytes(config, image_shape, 2 if half else itemsize, mirrored)
    workspace = images * workspace_per_image(config, image_shape, itemsize, half)
    workspace = min(workspace, LARGEST_WORKSPACE[device_type]) + min(images**2, SLICE) * itemsize
    pairs = (2 + config.second_look) * images**2 + (1 + mirrored) * others * images
    return itemsize * pairs + (images + others) * one + workspace


def kept_bytes(network: Network, images: int, mirrored: bool) -> int:
    """Return what features of all layers of so many training images take between predictions; 0: too much to be kept.

    At least half of what is left beside training images on their way stays free for new ones.
    """
    first, (_, height, width) = network.layers[0].weights, network.image_shape
    itemsize = 2 if network.half else first.dtype.itemsize
    walking = images * image_bytes(network.config, network.image_shape, itemsize, mirrored)
    left = memory_budget("auto", first.device) - walking
    features = network.config.features((height, width))
    features = padded_size(features) if network.half else features
    needed = len(network.layers) * images * (1 + mirrored) * itemsize * features
    return needed if needed <= min(KEPT[first.device.type], left // 2) else 0


def rows_at_a_time(network: Network, images: int, mirrored: bool) -> int:
    """Return how many new images are compared with so many training images at a time; refuse if there is no room.

    The training images go through the layers beside them, or are kept, and what the device has left is for new ones.
    """
    first = network.layers[0].weights
    one = image_bytes(network.config, network.image_shape, 2 if network.half else first.dtype.itemsize, mirrored)
    budget = memory_budget("auto", first.device)
    left = budget - images * one - kept_bytes(network, images, mirrored)
    room = min(PREDICTION[first.device.type], left)
    if room <= 0:
        raise ValueError(
            f"the kernel readout lets its {images:,} training images through the layers, which takes "
            f"{show_bytes(images * one)}, and {show_bytes(budget)} may be used: predict where there is more memory, or "
            f"with fewer layers than its {network.used_layers}, which have no readout."
        )
    return max(1, room // (one + (1 + mirrored) * first.dtype.itemsize * images))
