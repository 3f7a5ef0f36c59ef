"""Maps in the host's memory, for a GPU that cannot hold them all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from ...stages.patches import gather_patches
from .store import MapStore, Shape

WRITES_UNDER_WAY = 2  # chunks being copied back to the host; each still holds its memory on the device
CHUNKS_ON_DEVICE = 2 + WRITES_UNDER_WAY + 1  # in use, being fetched, being written, being reordered


class HostStore(MapStore):
    """Maps of a GPU in the host's pinned memory; separate streams copy chunks during the computation.

    Two chunks are on the device at a time, one in use and one being fetched. Two more may be on their way back; a third
    one waits for the first. Otherwise the host waits for no stream.
    """

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        device: torch.device,
        channels_last: bool = False,
        given: Tensor | None = None,
    ) -> None:
        super().__init__(shape, dtype, device, channels_last)
        try:
            self._host = torch.empty(self._in_memory, dtype=dtype, pin_memory=True)
        except RuntimeError:  # no more memory can be pinned: copies are slower
            self._host = torch.empty(self._in_memory, dtype=dtype)
        if given is not None:
            self._host.copy_(given)
        self._ahead = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._back = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._written: deque[torch.cuda.Event] = deque()

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield each chunk from one of two buffers while the next one is copied to the other."""
        parts = [self._host[start : start + size] for start in range(0, len(self), size)]
        shape = (min(size, len(self)), *self._in_memory[1:])
        buffers = [torch.empty(shape, dtype=self.dtype, device=self.device) for _ in range(min(2, len(parts)))]
        self._ahead.wait_stream(self._back)  # the layer before has written them
        try:
            arrived = self._fetch(buffers[0], parts[0])
            for index, part in enumerate(parts):
                torch.cuda.current_stream(self.device).wait_event(arrived)
                if index + 1 < len(parts):
                    arrived = self._fetch(buffers[(index + 1) % 2], parts[index + 1])
                yield self._outside(buffers[index % 2][: len(part)])
        finally:  # the current stream reuses the buffers: no copy to them may be under way
            torch.cuda.current_stream(self.device).wait_stream(self._ahead)

    def _fetch(self, buffer: Tensor, part: Tensor) -> torch.cuda.Event:
        """Start to copy a chunk to the device, after all work queued so far, which may read the buffer."""
        self._ahead.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._ahead):
            buffer[: len(part)].copy_(part, non_blocking=True)
            arrived: torch.cuda.Event = self._ahead.record_event()
        return arrived

    def write(self, part: slice, maps: Tensor) -> None:
        """Start to copy a chunk back."""
        inside = self._inside(maps).to(self.dtype).contiguous()
        while len(self._written) >= WRITES_UNDER_WAY:
            self._written.popleft().synchronize()
        self._back.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._back):
            self._host[part].copy_(inside, non_blocking=True)
            inside.record_stream(self._back)
            self._written.append(self._back.record_event())

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Gather patches on the host and copy only those."""
        self._back.synchronize()
        found = gather_patches(self._outside(self._host), size, image.cpu(), row.cpu(), column.cpu())
        return found.to(self.device)

    def take(self, image: Tensor) -> Tensor:
        """Copy the named images' maps to the device."""
        self._back.synchronize()
        return self._outside(self._host)[image.cpu()].to(self.device)
