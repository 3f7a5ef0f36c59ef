"""Stage 1, beyond the paper: maps may go through a function before they are the next layer's input.

The paper has no non-linearity between layers: X⁽ⁱ⁺¹⁾ = scale([O⁽ⁱ⁾ ; image]). Here it may be scale([φ(O⁽ⁱ⁾) ; image]),
ranges being those of φ(O⁽ⁱ⁾). Second-order pooling takes ReLU(O⁽ⁱ⁾) all the same, so maps are stored as they come out
of the convolution, and φ is applied where the next layer reads them.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Activation = Literal["none", "relu", "abs", "tanh"]


def activate(maps: Tensor, activation: Activation) -> Tensor:
    """Return φ(maps), of any shape and floating type; ``"none"`` returns the maps themselves."""
    if activation == "relu":
        return maps.relu()
    if activation == "abs":
        return maps.abs()
    return maps.tanh() if activation == "tanh" else maps
