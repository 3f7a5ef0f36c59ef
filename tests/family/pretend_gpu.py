"""A GPU that is not there: tensors that say they are on ``cuda``, live on the CPU, and refuse what a GPU would.

Mixing with tensors of the CPU is refused as PyTorch refuses it on a real GPU: numbers (no axes) may come from the CPU,
a tensor may be indexed from it, a copy may go either way, and nothing else. So mistakes of device show without a GPU;
what only its kernels know, speed, memory and rounding, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
COPIES = {aten.copy_, aten._to_copy, aten.to}
INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
GPU = torch.device("cuda", 0)


class OnGPU(Tensor):
    """A tensor that says it is on a GPU."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> OnGPU:
        made = Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device="meta",  # a PyTorch built without CUDA has no guard for its devices
        )
        made.inside = inside
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return GPU

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def tolist(self) -> Any:
        return self.inside.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy: use Tensor.cpu() first.")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})

    def __repr__(self) -> str:
        return f"OnGPU({self.inside!r})"


class PretendMode(TorchDispatchMode):
    """Catches what makes tensors on a GPU out of nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


def dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on what is inside the tensors, or refuse it."""
    packet, flat = func.overloadpacket, list(_leaves((args, kwargs)))
    here = any(isinstance(value, OnGPU) for value in flat)
    if here and packet not in COPIES:
        indices = args[1] if packet in INDEXED and isinstance(args[0], OnGPU) else ()
        strangers = [v for v in flat if isinstance(v, Tensor) and not isinstance(v, OnGPU) and v.dim()]
        for value in strangers:
            if not any(value is index for index in indices):
                raise RuntimeError(f"{func}: all tensors must be on one device, {tuple(value.shape)} is on the cpu")
    named = [value for value in flat if isinstance(value, torch.device)]
    goes_there = named[0].type != "cpu" if named else here
    inside_args, inside_kwargs = _mapped(_inside, (args, kwargs))
    if func is aten.mm.dtype:  # half-precision factors, float32 sums: a GPU's alone
        return OnGPU(inside_args[0].float() @ inside_args[1].float())
    found = func(*inside_args, **inside_kwargs)
    if func._schema.is_mutable and isinstance(args[0], Tensor):
        return args[0]
    if packet is aten.to and isinstance(args[0], OnGPU) == goes_there and found is inside_args[0]:
        return args[0]
    return _mapped(lambda value: OnGPU(value) if goes_there and isinstance(value, Tensor) else value, found)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what lists, tuples and dictionaries hold; torch's own trees take longer than the operations."""
    if isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)([_mapped(function, part) for part in value])
    if isinstance(value, dict):
        return {key: _mapped(function, part) for key, part in value.items()}
    return function(value)


def _inside(value: Any) -> Any:
    if isinstance(value, OnGPU):
        return value.inside
    return torch.device("cpu") if isinstance(value, torch.device) else value


@contextmanager
def pretend_gpu() -> Iterator[torch.device]:
    """Let there be one GPU, with 139 GiB of memory."""
    memory = 139 * 2**30

    class Properties:
        total_memory = memory
        name = "pretended"

    with (
        patch("torch.cuda._lazy_init"),
        patch("torch.cuda.is_available", return_value=True),
        patch("torch.cuda.device_count", return_value=1),
        patch("torch.cuda.get_device_properties", return_value=Properties()),
        patch("torch.cuda.get_device_name", return_value="pretended"),
        patch("torch.cuda.synchronize"),
        patch("torch.cuda.empty_cache"),
        PretendMode(),
    ):
        yield GPU
