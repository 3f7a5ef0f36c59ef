"""Maps in a memory-mapped file, for a machine that cannot hold them all."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...base.errors import ConfigError
from ...base.text import show_bytes
from ...stages.patches import gather_patches
from .store import MapStore, Shape

GATHERED_BYTES = 8 * 2**20  # bytes that are read at a time for single patches
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 2**20  # of mallopt(3)


class FileStore(MapStore):
    """Maps in a file, of which one chunk at a time is mapped: memory does not grow with the number of images.

    The file has no name: the system deletes it when the process ends, even if it is killed. Its folder is by default
    the system's temporary folder.
    """

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        device: torch.device,
        channels_last: bool = False,
        folder: str | Path | None = None,
    ) -> None:
        super().__init__(shape, dtype, device, channels_last)
        give_large_blocks_back()
        self._numbers = torch.empty(0, dtype=dtype).numpy().dtype
        self._file = reserve_file(len(self) * self.bytes_per_image, folder or None)
        weakref.finalize(self, self._file.close)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield each chunk while a thread reads the next one into the buffer of the one before."""
        parts = [slice(start, min(start + size, len(self))) for start in range(0, len(self), size)]
        buffers = [np.empty((min(size, len(self)), *self._in_memory[1:]), self._numbers) for _ in parts[:2]]
        with ThreadPoolExecutor(max_workers=1) as reader:
            coming = reader.submit(self._read, parts[0], buffers[0])
            for number in range(1, len(parts) + 1):
                here = coming.result()
                if number < len(parts):
                    coming = reader.submit(self._read, parts[number], buffers[number % 2])
                yield self._outside(torch.from_numpy(here).to(self.device))

    def write(self, part: slice, maps: Tensor) -> None:
        """Copy a chunk into the mapped file."""
        inside = self._inside(maps).to(self.dtype).contiguous()
        self._mapped(part)[...] = inside.cpu().numpy()

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Gather patches from the images that hold them, a limited number at a time."""
        samples = max(1, GATHERED_BYTES // self.bytes_per_image)
        where = zip(*(torch.split(index.cpu(), samples) for index in (image, row, column)), strict=True)
        found = []
        for some, rows, columns in where:
            needed, position = some.unique(return_inverse=True)
            found.append(gather_patches(self._read_some(needed), size, position, rows, columns))
        return torch.cat(found).to(self.device)

    def take(self, image: Tensor) -> Tensor:
        """Read the named images' maps."""
        return self._read_some(image).to(self.device)

    def _read_some(self, image: Tensor) -> Tensor:
        read = np.empty((len(image), *self._in_memory[1:]), self._numbers)
        for number, place in zip(image.tolist(), read, strict=True):
            # Read, not mapped: the system would also map neighbouring pages.
            os.preadv(self._file.fileno(), [place.data], number * self.bytes_per_image)
        return self._outside(torch.from_numpy(read))

    def _read(self, part: slice, buffer: NDArray[Any]) -> NDArray[Any]:
        """Copy a part of the file to the beginning of a buffer."""
        found = buffer[: part.stop - part.start]
        np.copyto(found, self._mapped(part))
        return found

    def _mapped(self, part: slice) -> NDArray[Any]:
        """Return a part of the file as an array; it is unmapped with the array."""
        start, stop = part.start * self.bytes_per_image, part.stop * self.bytes_per_image
        page = start - start % mmap.ALLOCATIONGRANULARITY
        view = mmap.mmap(self._file.fileno(), stop - page, offset=page)
        flat = np.frombuffer(view, self._numbers, offset=start - page)
        return flat.reshape(part.stop - part.start, *self._in_memory[1:])


def give_large_blocks_back() -> None:
    """Set glibc to return every large block to the system when it is freed; do nothing with other C libraries.

    Otherwise blocks of up to 32 MB stay on the heap, whose holes differ from run to run by half a budget.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def reserve_file(size: int, folder: str | Path | None) -> Any:
    """Return an open, unnamed file of ``size`` bytes; raise ValueError if the disk cannot hold it."""
    place = str(folder or tempfile.gettempdir())
    try:
        file = tempfile.TemporaryFile(prefix="rescnet-maps-", dir=folder)  # noqa: SIM115  (its store closes it)
    except OSError as error:
        raise ConfigError(f"scratch must be a writable folder, got {place!r} ({_reason(error)}).") from None
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    except OSError as error:
        file.close()
        raise ConfigError(
            f"scratch must have room for {show_bytes(size)} of maps, got {place!r} ({_reason(error)}). Use another "
            "folder or more memory."
        ) from None
    return file


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
