"""Several processes that train one network, on PyTorch's own engine: NCCL between GPUs, gloo between CPUs.

Each has its share of the images. All that is learnt comes from sums and extremes over images: those are exchanged, a
few times a layer. The factorisation is done once, by the first worker, and what is solved from it is sent to all.
``torchrun`` starts the processes and tells each its rank.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...stages.images import ValueRange
from .watchdog import Heartbeat, WorkerLostError, WorkerStopped

SHORTEST_PAUSE, LONGEST_PAUSE = 2e-5, 2e-3  # seconds between two looks at an exchange
PIECE = 64 * 2**20  # bytes of what is sent as bytes
LONGEST_STEP = timedelta(days=2)  # a worker that computes for long is not lost: the heartbeat tells


class Workers:
    """The process itself and the others that train with it.

    Attributes
    ----------
    rank : int
        Of this process, from 0. The first writes files and factorises.
    count : int
        Of all processes.
    on_this_machine : int
        Of those that share its memory.
    device : torch.device
        What is exchanged lies there.
    exchanges : bool
        Whether PyTorch's engine is asked; who works alone has all sums already.
    exchanged : int
        Bytes of all tensors exchanged so far, each counted once.
    """

    def __init__(
        self,
        rank: int = 0,
        count: int = 1,
        on_this_machine: int = 1,
        device: torch.device | None = None,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.rank, self.count, self.on_this_machine = rank, count, on_this_machine
        self.device = device or torch.device("cpu")
        self.exchanges, self.exchanged = count > 1 or heartbeat is not None, 0
        self._heartbeat = heartbeat

    @property
    def is_rank0(self) -> bool:
        """Whether this process is the one that writes and factorises."""
        return self.rank == 0

    def shard(self, total: int, what: str = "images") -> slice:
        """Return which of so many images are this worker's; refuse fewer images than workers."""
        if total < self.count:
            raise ValueError(f"{total} {what} are too few for {self.count} workers, one would have none: start fewer.")
        return slice(total * self.rank // self.count, total * (self.rank + 1) // self.count)

    def all_reduce(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all workers."""
        for tensor in tensors if self.exchanges else ():
            self._exchange(dist.all_reduce, tensor)

    def reduce_to_rank0(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all workers on the first one; what the others then have is of no use."""
        for tensor in tensors if self.exchanges else ():
            self._exchange(dist.reduce, tensor, dst=0)

    def broadcast(self, *tensors: Tensor) -> None:
        """Replace each tensor by the first worker's."""
        for tensor in tensors if self.exchanges else ():
            self._exchange(dist.broadcast, tensor, src=0)

    def sum_int(self, number: int) -> int:
        """Return a number's sum over all workers."""
        sums = torch.tensor([number], dtype=torch.int64, device=self.device)
        self.all_reduce(sums)
        return int(sums)

    def reduce_range(self, found: ValueRange) -> ValueRange:
        """Return the range over all workers' images."""
        if not self.exchanges:
            return found
        low, high = found.low.clone(), found.high.clone()
        self._exchange(dist.all_reduce, low, op=dist.ReduceOp.MIN)
        self._exchange(dist.all_reduce, high, op=dist.ReduceOp.MAX)
        return ValueRange(low, high)

    def broadcast_bytes(self, data: bytes) -> bytes:
        """Return the first worker's bytes; they go piece by piece, so that a GPU need not hold them all."""
        if not self.exchanges:
            return data
        size = torch.tensor([len(data)], dtype=torch.int64, device=self.device)
        self.broadcast(size)
        held = torch.zeros(int(size), dtype=torch.uint8)
        if self.is_rank0:
            held.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        for start in range(0, len(held), PIECE):
            self.broadcast(held[start : start + PIECE])
        return held.numpy().tobytes()

    def _exchange(self, how: Any, tensor: Tensor, **options: Any) -> None:
        """Exchange a tensor in place; if a worker is gone, say which."""
        self.exchanged += tensor.numel() * tensor.element_size()
        place = (
            tensor if tensor.is_contiguous() and tensor.device == self.device else tensor.to(self.device).contiguous()
        )
        try:
            self._wait_for(how(place, async_op=True, **options))
        except RuntimeError as error:
            lost = self._heartbeat.wait_for_a_loss() if self._heartbeat else None
            if lost is None:
                raise
            raise lost.error from error
        if place is not tensor:
            tensor.copy_(place)

    def _wait_for(self, work: Any) -> None:
        """Wait for an exchange here and not inside it, where neither Ctrl-C nor the loss of a worker would be heard."""
        pause = SHORTEST_PAUSE
        while not work.is_completed():
            if self._heartbeat:
                self._heartbeat.raise_loss()
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE)
        work.wait()


@contextmanager
def join_workers(device: str = "auto", alone: bool = False) -> Iterator[Workers]:
    """Join the workers ``torchrun`` has started; without it, work alone.

    Parameters
    ----------
    device : str
        As in :class:`ComputeOptions`; with several GPUs each worker of a machine takes its own.
    alone : bool
        Let a single worker that ``torchrun`` has started exchange with itself: so one GPU shows that NCCL does what it
        is asked (``experiments/measure.py nccl``).
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1 and not alone:
        yield Workers()
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    place = own_device(device, local, here)
    on_gpu = place.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=LONGEST_STEP, device_id=place if on_gpu else None)
    heartbeat = Heartbeat(rank, count)
    try:
        yield Workers(rank, count, here, place, heartbeat)
        heartbeat.leave()
        dist.destroy_process_group()
    except (WorkerLostError, WorkerStopped) as error:  # the others will notice the same, and name the same worker
        heartbeat.linger()
        if on_gpu:
            heartbeat.end_anyway(stopped=isinstance(error, WorkerStopped))
        raise
    except BaseException as error:
        heartbeat.give_up(error)
        heartbeat.linger()
        raise
    finally:
        heartbeat.stop()


def own_device(name: str, local_rank: int, here: int = 1) -> torch.device:
    """Return the device of a worker, of so many on this machine: its own GPU, if there are GPUs and none is named."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda:") and here > 1:
        raise ValueError(
            f"device {name!r} is one GPU for {here} workers of this machine: say --device cuda, one a GPU."
        )
    if name != "cuda":
        return torch.device(name)
    if local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"worker {local_rank} of this machine finds {torch.cuda.device_count()} GPUs: start one worker a GPU."
        )
    return torch.device("cuda", local_rank)
