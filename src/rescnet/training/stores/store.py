"""Where the maps of all images live between layers: on the device, on the host, or in a memory-mapped file.

A layer reads the maps before it chunk by chunk and overwrites each chunk by its successor. So they need not lie where
they are computed: a store hands chunks out on the device, the next one on its way while this one is computed with, and
takes chunks back. The numbers are the same wherever they live, bit for bit. Images are streamed the same way.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from ...stages.patches import gather_patches

Shape = tuple[int, int, int, int]


class MapStore(ABC):
    """The maps (n, d_i, h, w), or the images (n, d, h, w), of a split.

    Parameters
    ----------
    shape : tuple of int
        (n, channels, h, w).
    dtype : torch.dtype
    device : torch.device
        Where chunks are handed out.
    channels_last : bool
        The order in memory; chunks are (n, channels, h, w) in either.
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
        """The bytes the maps of one image take."""
        _, d, h, w = self.shape
        return d * h * w * self.dtype.itemsize

    @abstractmethod
    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield all chunks on the device, in order, each (size or fewer, channels, h, w).

        A chunk may be overwritten once the next one is asked for.
        """

    @abstractmethod
    def write(self, part: slice, maps: Tensor) -> None:
        """Put a chunk on the device (m, channels, h, w) in its place; it may be read again by a new pass only."""

    @abstractmethod
    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return single patches on the device, as :func:`gather_patches`, shape (samples, channels, k, k)."""

    @abstractmethod
    def take(self, image: Tensor) -> Tensor:
        """Return some images' maps on the device, shape (samples, channels, h, w)."""

    def whole(self) -> Tensor:
        """Return everything on the device, shape (n, channels, h, w)."""
        return torch.cat([chunk.clone() for chunk in self.chunks(len(self))])

    def _outside(self, tensor: Tensor) -> Tensor:
        """Return what lies in memory as (n, channels, h, w), a view."""
        return tensor.permute(0, 3, 1, 2) if self._channels_last else tensor

    def _inside(self, maps: Tensor) -> Tensor:
        """Return (n, channels, h, w) as it lies in memory."""
        return maps.permute(0, 2, 3, 1) if self._channels_last else maps


class DeviceStore(MapStore):
    """Maps in the memory of the device they are computed on.

    Parameters
    ----------
    given : Tensor, optional
        What is stored, if it is there already.
    file : mmap.mmap, optional
        What is given is mapped from this file: pages that were read are let go, so that memory does not fill with them.
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
        own = torch.empty(self._in_memory, dtype=dtype, device=device) if given is None else given
        self._maps = self._outside(own)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield views."""
        for start in range(0, len(self), size):
            yield self._maps[start : start + size]
            self._let_go()

    def write(self, part: slice, maps: Tensor) -> None:
        """Copy a chunk into its place."""
        self._maps[part] = maps

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Gather patches where they lie."""
        where = image.to(self.device), row.to(self.device), column.to(self.device)
        found = gather_patches(self._maps, size, *where)
        self._let_go()
        return found

    def take(self, image: Tensor) -> Tensor:
        """Copy some."""
        found = self._maps[image.to(self.device)]
        self._let_go()
        return found

    def _let_go(self) -> None:
        if self._file is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._file.madvise(mmap.MADV_DONTNEED)

    def whole(self) -> Tensor:
        """Return the maps themselves."""
        return self._maps
