"""Options beyond the paper: what passes between layers, where filters come from, how heads step. Off by default."""

from __future__ import annotations

from dataclasses import dataclass

from .options import option
from .stages.activation import Activation


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Options of the flow, the filters and the heads that the paper does not have; the defaults are the paper."""

    activation: Activation = option(
        "none", "what maps go through on their way to the next layer; pooling takes them as before"
    )
