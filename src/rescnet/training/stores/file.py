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

from ...formatting import show_bytes
from ...stages.patches import gather_patches
from .store import MapStore, Shape

GATHERED_BYTES = 8 * 2**20  # of a file that are read at a time while single patches are gathered


M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 2**20  # of mallopt(3)


class FileStore(MapStore):
    """Maps in a file of which one chunk is mapped into memory at a time: memory does not grow with their number.

    The file has no name: it is gone when the process is, however that ends.

    Parameters
    ----------
    folder : str or Path, optional
        Where the file is to be; by default the system's folder for temporary files.
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
        """Yield each chunk while the next one is read by another thread, into the place of the one before."""
        parts = [slice(start, min(start + size, len(self))) for start in range(0, len(self), size)]
        places = [np.empty((min(size, len(self)), *self._in_memory[1:]), self._numbers) for _ in parts[:2]]
        with ThreadPoolExecutor(max_workers=1) as reader:
            coming = reader.submit(self._read, parts[0], places[0])
            for number in range(1, len(parts) + 1):
                here = coming.result()
                if number < len(parts):
                    coming = reader.submit(self._read, parts[number], places[number % 2])
                yield self._outside(torch.from_numpy(here).to(self.device))

    def write(self, part: slice, maps: Tensor) -> None:
        """Copy a chunk into the file; the system puts it on the disk when it likes."""
        inside = self._inside(maps).to(self.dtype).contiguous()
        self._mapped(part)[...] = inside.cpu().numpy()

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Gather patches from the images they are in, not more of them at a time than the limit."""
        samples = max(1, GATHERED_BYTES // self.bytes_per_image)
        where = zip(*(torch.split(index.cpu(), samples) for index in (image, row, column)), strict=True)
        found = []
        for some, rows, columns in where:
            needed, position = some.unique(return_inverse=True)
            found.append(gather_patches(self._read_some(needed), size, position, rows, columns))
        return torch.cat(found).to(self.device)

    def take(self, image: Tensor) -> Tensor:
        """Read some."""
        return self._read_some(image).to(self.device)

    def _read_some(self, image: Tensor) -> Tensor:
        read = np.empty((len(image), *self._in_memory[1:]), self._numbers)
        for number, place in zip(image.tolist(), read, strict=True):
            # Not mapped: the system would map the pages around as well.
            os.preadv(self._file.fileno(), [place.data], number * self.bytes_per_image)
        return self._outside(torch.from_numpy(read))

    def _read(self, part: slice, place: NDArray[Any]) -> NDArray[Any]:
        """Copy a part of the file to the beginning of a place."""
        found = place[: part.stop - part.start]
        np.copyto(found, self._mapped(part))
        return found

    def _mapped(self, part: slice) -> NDArray[Any]:
        """Return a part of the file as an array; it is unmapped when the array goes."""
        start, stop = part.start * self.bytes_per_image, part.stop * self.bytes_per_image
        page = start - start % mmap.ALLOCATIONGRANULARITY
        view = mmap.mmap(self._file.fileno(), stop - page, offset=page)
        flat = np.frombuffer(view, self._numbers, offset=start - page)
        return flat.reshape(part.stop - part.start, *self._in_memory[1:])


def give_large_blocks_back() -> None:
    """Have the C library return every large block to the system when it is freed, where it can be told so.

    By itself it soon keeps blocks of up to 32 MB on the heap, whose holes differ from run to run by half a budget.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def reserve_file(size: int, folder: str | Path | None) -> Any:
    """Return an open file of so many bytes, without a name; refuse at once what the disk cannot hold."""
    try:
        file = tempfile.TemporaryFile(prefix="rescnet-maps-", dir=folder)  # noqa: SIM115  (it lives as long as its store)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"no file can be made in {folder or tempfile.gettempdir()} ({reason}): choose scratch."
        ) from None
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    except OSError as error:
        file.close()
        raise ValueError(
            f"the maps need a file of {show_bytes(size)} and {folder or tempfile.gettempdir()} cannot hold it "
            f"({(error.strerror or str(error)).lower()}): choose another folder (scratch), or allow more memory."
        ) from None
    return file
