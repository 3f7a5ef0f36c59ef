"""Images or columns in threads, some each, instead of PyTorch's threads, which share every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

SMALL = 2048  # rows of matrices that one thread decomposes in two seconds at most


@contextmanager
def one_thread_if_small(rows: int) -> Iterator[None]:
    """Compute in one thread what takes matrices of few rows.

    Several threads wait for each other after each column. If another program uses a core, they take a hundred times as
    long: the eigenvectors of a 250×250 matrix took 8 ms in one thread and 1.2 s in two.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if rows <= SMALL else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def in_threads(function: Callable[..., Tensor], *x: Tensor, least: int = 1) -> Tensor:
    """Return ``function(*x)``, computed on a CPU in threads that take some rows of each tensor, at least ``least``.

    PyTorch's own threads share each operation and wait for the slowest at its end. That takes several times as long if
    other programs use a core. Without MKL it multiplies batches of small matrices in one thread.
    """
    if x[0].is_cuda or torch.compiler.is_compiling():
        return function(*x)
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    parts = min(threads, len(x[0]) // least)
    if parts <= 1:
        return function(*x)

    def apply(*part: Tensor) -> Tensor:
        with torch.inference_mode(inference):
            return function(*part)

    try:
        with ThreadPoolExecutor(parts, initializer=torch.set_num_threads, initargs=(threads // parts,)) as pool:
            return torch.cat(list(pool.map(apply, *(rows.tensor_split(parts) for rows in x))))
    finally:
        torch.set_num_threads(threads)  # else threads that start later would have the last number set
