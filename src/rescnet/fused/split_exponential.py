"""Exponentials of a large tile as two halves, in one pass, for products with the readout's kernel.

One operation after the other, exp, rounding, difference and rounding move 30 bytes per number. The kernel moves 8.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 4096  # per program


def split_exponential(exponents: Tensor) -> list[Tensor]:
    """Return exp of a contiguous tensor, float32, as the sum of two tensors in half precision."""
    high, low = (torch.empty_like(exponents, dtype=torch.float16) for _ in range(2))
    count = exponents.numel()
    split_numbers[(triton.cdiv(count, NUMBERS),)](exponents, high, low, count, NUMBERS=NUMBERS, num_warps=8)
    return [high, low]


@triton.jit
def split_numbers(exponents, high, low, count, NUMBERS: tl.constexpr):
    """Split the exponentials of NUMBERS consecutive numbers."""
    place = tl.program_id(0).to(tl.int64) * NUMBERS + tl.arange(0, NUMBERS)
    inside = place < count
    value = tl.exp(tl.load(exponents + place, mask=inside, other=0.0))
    upper = value.to(tl.float16)
    tl.store(high + place, upper, mask=inside)
    tl.store(low + place, (value - upper.to(tl.float32)).to(tl.float16), mask=inside)
