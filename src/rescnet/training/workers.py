"""Processes that train one network together: NCCL between GPUs, gloo between CPUs.

Each has a shard of the images. Everything learned comes from sums and extremes over images, which are reduced a few
times per layer. Rank 0 factorises and broadcasts the solution. ``torchrun`` starts the processes, sets their ranks, and
ends all of a machine when one has failed. The others notice at their next exchange, or when it takes too long.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..base.errors import ConfigError, NumericalError, RescnetError
from ..stages.images import ValueRange

T = TypeVar("T")
SHORTEST_PAUSE, LONGEST_PAUSE = 2e-5, 2e-3  # seconds between two checks of an exchange
PIECE = 64 * 2**20  # bytes per broadcast of a byte string
LONGEST_WAIT = timedelta(hours=1)  # of an exchange: the first worker may download, and rank 0 factorises alone
LONGEST_END = 20  # seconds: an exchange with a lost worker on a GPU may never end, nor let the process end


class WorkerLostError(RescnetError, ConnectionError):
    """Another worker has ended, or does not answer."""


class Workers:
    """The processes of a run, seen from one of them."""

    def __init__(
        self,
        rank: int = 0,
        count: int = 1,
        on_this_machine: int = 1,
        device: torch.device | None = None,
        first_here: bool = True,
        exchanges: bool = False,
    ) -> None:
        self.rank, self.count = rank, count
        self.on_this_machine = on_this_machine  # processes that share this machine's memory
        self.first_here = first_here  # of the processes of this machine
        self.device = device or torch.device("cpu")  # of exchanged tensors
        self.exchanges = count > 1 or exchanges  # a single process has all sums already
        self.exchanged = 0  # bytes of all tensors exchanged so far, each counted once

    @property
    def is_rank0(self) -> bool:
        """True for the process that writes files and factorises."""
        return self.rank == 0

    def shard(self, total: int, what: str = "images") -> slice:
        """Return this worker's part of n images; raise ValueError if there are fewer images than workers."""
        if total < self.count:
            raise ConfigError(
                f"{what} must be at least {self.count}, one per worker, got {total}. Start fewer workers."
            )
        return slice(total * self.rank // self.count, total * (self.rank + 1) // self.count)

    def first_alone(self, read: Callable[[], T]) -> T:
        """Return what each worker reads; the first of each machine reads alone, since it may download or write."""
        try:
            found = read() if self.first_here else None
        except Exception:
            self.sum_int(0)  # the others go on, and fail alike
            raise
        self.sum_int(0)  # the others wait here
        return read() if found is None else found

    def all_reduce(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all workers."""
        for tensor in tensors if self.exchanges else ():
            self._exchange(dist.all_reduce, tensor)

    def reduce_to_rank0(self, *tensors: Tensor) -> None:
        """Replace each tensor on rank 0 by its sum over all workers; on the others the values are undefined."""
        for tensor in tensors if self.exchanges else ():
            self._exchange(dist.reduce, tensor, dst=0)

    def broadcast(self, *tensors: Tensor) -> None:
        """Replace each tensor by that of rank 0."""
        for tensor in tensors if self.exchanges else ():
            self._exchange(dist.broadcast, tensor, src=0)

    def from_rank0(self, compute: Callable[[], tuple[Tensor, ...]], like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return tensors that rank 0 computes, to all workers; ``like`` are of the same shapes and types.

        If rank 0 fails with an ArithmeticError, all workers raise one.
        """
        failure: ArithmeticError | None = None
        if self.is_rank0:
            try:
                like = compute()
            except ArithmeticError as error:  # the others must not wait
                failure = error
        if self.sum_int(failure is not None):
            raise failure or NumericalError("rank 0 could not solve a system of equations. See its message.")
        found = tuple(tensor.contiguous() for tensor in like)
        self.broadcast(*found)
        return found

    def sum_int(self, number: int) -> int:
        """Return the sum of a number over all workers."""
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
        """Return the bytes of rank 0; they are sent in pieces, so that a GPU need not hold them all."""
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
        """Run a collective on a tensor, in place; raise WorkerLostError if another worker has ended or is silent."""
        self.exchanged += tensor.numel() * tensor.element_size()
        place = tensor.to(self.device).contiguous()  # the tensor itself, where it can be
        try:
            self._wait_for(how(place, async_op=True, **options))
        except RuntimeError as error:
            if type(error) is not RuntimeError and not isinstance(error, dist.DistError):
                raise  # e.g. out of memory: gloo raises no class of its own
            raise WorkerLostError(
                "another worker has ended or does not answer. See its message, and continue with --resume and any "
                "number of workers."
            ) from error
        if place is not tensor:
            tensor.copy_(place)

    def _wait_for(self, work: Any) -> None:
        """Poll an exchange: a blocking wait would not notice Ctrl-C."""
        pause, end = SHORTEST_PAUSE, time.monotonic() + LONGEST_WAIT.total_seconds()
        while not work.is_completed():
            if time.monotonic() > end:
                raise RuntimeError(f"no answer for {LONGEST_WAIT}")
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE)
        work.wait()


@contextmanager
def join_workers(device: str = "auto", alone: bool = False) -> Iterator[Workers]:
    """Join the workers that ``torchrun`` has started; without it there is a single one.

    With ``device`` ``"auto"`` or ``"cuda"`` each worker of a machine takes its own GPU. ``alone`` uses collectives even
    with one rank, so that NCCL can be tested on a single GPU.
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
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=2 * LONGEST_WAIT, device_id=place if on_gpu else None)
    try:
        yield Workers(rank, count, here, place, local == 0, exchanges=True)
        dist.destroy_process_group()
    except (WorkerLostError, KeyboardInterrupt):
        if on_gpu:
            signal.alarm(LONGEST_END)
        raise


def own_device(name: str, local_rank: int, here: int = 1) -> torch.device:
    """Return the device of one of the ``here`` workers on this machine: its own GPU unless a device is named."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda:") and here > 1:
        raise ConfigError(
            f"device must be 'cuda' with {here} workers on one machine, got {name!r}. Each takes its own GPU."
        )
    if name != "cuda":
        return torch.device(name)
    if local_rank >= torch.cuda.device_count():
        gpus = torch.cuda.device_count()
        raise ConfigError(
            f"workers must be at most {gpus} on a machine with {gpus} GPUs, got {local_rank + 1} or more."
        )
    return torch.device("cuda", local_rank)
