"""The GPU's version of a stage, where one pays: same signature, same tests as the stage it stands in for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from ..stages.pooling import pool_features


def pooling_for(maps: Tensor) -> Callable[..., Tensor]:
    """Return the function that turns such maps into features: the fused kernel on a GPU, else the plain stages."""
    if maps.is_cuda and maps.dtype != torch.float64 and _has_triton():
        from .pooling import fused_pool, supports

        if supports(maps.shape[1]):
            return fused_pool
    return _pool_halves if maps.dtype == torch.float16 else pool_features


def _pool_halves(maps: Tensor, *options: object) -> Tensor:
    """Pool half-precision maps in float32 and return half-precision features."""
    return pool_features(maps.float(), *options).half()  # type: ignore[arg-type]


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
