"""Stores of the maps of all images between layers, and of the images themselves.

A layer reads the maps of the layer before, chunk by chunk, and overwrites each chunk. A store therefore keeps them on
the device, on the host or in a file, and copies the next chunk to the device while one is computed. The numbers are the
same in every place, bit for bit.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from ...base.errors import ConfigError
from ...fused.half_precision import padded_channels
from ...stages.augment import change_images
from ...stages.patches import gather_patches

Shape = tuple[int, int, int, int]
TAKEN_AT_A_TIME = 1024  # augmented images that single patches are gathered from


class MapStore(ABC):
    """Maps (n, d_i, h, w), or images (n, d, h, w), of a split, in chunks on a device.

    ``channels_last`` is the order in memory; chunks are (n, channels, h, w) in either order.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype, device: torch.device, channels_last: bool = False) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self._channels_last = channels_last
        n, d, h, w = shape
        self._in_memory: Shape = (n, h, w, d) if channels_last else shape

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def bytes_per_image(self) -> int:
        """Bytes of one image's maps."""
        _, d, h, w = self.shape
        return d * h * w * self.dtype.itemsize

    @abstractmethod
    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield all chunks on the device, in order, each (size or fewer, channels, h, w).

        A chunk may be overwritten when the next one is requested.
        """

    @abstractmethod
    def write(self, part: slice, maps: Tensor) -> None:
        """Overwrite a part by a chunk (m, channels, h, w) on the device; only a new pass may read it."""

    @abstractmethod
    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return single patches on the device, like :func:`gather_patches`, shape (samples, channels, k, k)."""

    @abstractmethod
    def take(self, image: Tensor) -> Tensor:
        """Return the maps of the named images on the device, shape (samples, channels, h, w)."""

    def _outside(self, tensor: Tensor) -> Tensor:
        """Return a view (n, channels, h, w) of a tensor in the order of the memory."""
        return tensor.permute(0, 3, 1, 2) if self._channels_last else tensor

    def _inside(self, maps: Tensor) -> Tensor:
        """Return a view in the order of the memory of maps (n, channels, h, w)."""
        return maps.permute(0, 2, 3, 1) if self._channels_last else maps


class DeviceStore(MapStore):
    """Maps in the memory of the device they are computed on.

    ``given`` is the tensor to store; by default an empty one is made. If it is mapped from a ``file``, its pages are
    released after reading, so that they do not fill the memory.
    """

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        device: torch.device,
        channels_last: bool = False,
        given: Tensor | None = None,
        file: mmap.mmap | None = None,
    ) -> None:
        super().__init__(shape, dtype, device, channels_last)
        self._file = file
        n, d, h, w = shape
        if given is None and channels_last:  # 16 bytes of a pixel can be read at once; zeros, since kernels do so
            given = torch.zeros(n, h, w, padded_channels(d), dtype=dtype, device=device)
        self._own = torch.empty(shape, dtype=dtype, device=device) if given is None else given
        self._maps = self._outside(self._own)[:, :d]

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield views of the maps."""
        for start in range(0, len(self), size):
            yield self._maps[start : start + size]
            self._release_pages()

    def write(self, part: slice, maps: Tensor) -> None:
        """Copy a chunk to its part, with the zeros that follow its channels if it has them, too: a plain copy."""
        if self._channels_last and maps.stride() == self._maps.stride():
            self._own[part] = maps.as_strided((len(maps), *self._own.shape[1:]), self._own.stride())
        else:
            self._maps[part] = maps

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Gather patches on the device."""
        where = image.to(self.device), row.to(self.device), column.to(self.device)
        found = gather_patches(self._maps, size, *where)
        self._release_pages()
        return found

    def take(self, image: Tensor) -> Tensor:
        """Copy the named images' maps."""
        found = self._maps[image.to(self.device)]
        self._release_pages()
        return found

    def _release_pages(self) -> None:
        if self._file is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._file.madvise(mmap.MADV_DONTNEED)


class AugmentedImages(MapStore):
    """Images (n, d, h, w), each followed by its copies or views, which are computed per chunk and never kept.

    ``changes`` (n or 1, copies, numbers) are those of each copy; the first one is the unchanged image.
    """

    def __init__(self, images: MapStore, changes: Tensor) -> None:
        n, d, h, w = images.shape
        self.per_image = changes.shape[1]
        super().__init__((n * self.per_image, d, h, w), images.dtype, images.device)
        self._images, self._changes = images, changes.expand(n, -1, -1)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield images with all their copies; ``size`` is a multiple of the copies."""
        if size % self.per_image:
            raise ConfigError(f"chunk size must be a multiple of {self.per_image} entries per image, got {size}.")
        start = 0
        for images in self._images.chunks(size // self.per_image):
            changes = self._changes[start : start + len(images)].flatten(0, 1)
            start += len(images)
            yield change_images(images.repeat_interleave(self.per_image, 0), changes)

    def write(self, part: slice, maps: Tensor) -> None:
        """Raise TypeError: images are read-only."""
        raise TypeError("images are read-only.")

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Compute the named copies and cut a patch out of each."""
        image = image.cpu()
        found = []
        for start in range(0, max(1, len(image)), TAKEN_AT_A_TIME):
            some = slice(start, start + TAKEN_AT_A_TIME)
            made = self.take(image[some])
            where = torch.arange(len(made), device=self.device)
            found.append(gather_patches(made, size, where, row[some].to(self.device), column[some].to(self.device)))
        return torch.cat(found)

    def take(self, image: Tensor) -> Tensor:
        """Return whole copies, on the device."""
        image = image.cpu()
        whole = self._images.take(image // self.per_image)
        return change_images(whole, self._changes[image // self.per_image, image % self.per_image])
