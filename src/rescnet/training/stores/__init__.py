"""Stores of maps and images: on the device, on the host, or in a file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ...config.compute import Place
from .file import FileStore
from .host import HostStore
from .store import AugmentedImages, DeviceStore, MapStore, Shape

__all__ = ["AugmentedImages", "MapStore", "make_store", "store_images", "stream"]


def make_store(
    place: Place, shape: Shape, dtype: torch.dtype, device: torch.device, channels_last: bool, folder: str | Path
) -> MapStore:
    """Return an empty store; a CPU's own memory is the host's."""
    if place == "file":
        return FileStore(shape, dtype, device, channels_last, folder)
    kind = HostStore if place == "host" and device.type == "cuda" else DeviceStore
    return kind(shape, dtype, device, channels_last)


def store_images(images: Tensor, device: torch.device, place: Place, file: mmap.mmap | None = None) -> MapStore:
    """Return a store of images (n, d, h, w), in their own type.

    They are on the device, unless the maps are not: then a GPU streams them from the host. ``file`` is the one that
    they are mapped from, if any.
    """
    n, d, h, w = images.shape
    if device.type == "cuda" and place != "device":
        return HostStore((n, d, h, w), images.dtype, device, given=images)
    return DeviceStore((n, d, h, w), images.dtype, device, given=images.to(device), file=file)


def stream(size: int, maps: MapStore | None, images: MapStore) -> Iterator[tuple[slice, Tensor | None, Tensor]]:
    """Yield the part, its maps (none before the first layer) and its images, chunk by chunk."""
    before = None if maps is None else maps.chunks(size)
    for index, chunk in enumerate(images.chunks(size)):
        yield slice(index * size, index * size + len(chunk)), None if before is None else next(before), chunk
