"""Options beyond the paper: what passes between layers, where filters come from, how heads step. Off by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .options import option
from .stages.activation import Activation

FilterLabels = Literal["image", "residual"]
DrawFrom = Literal["all", "wrong", "residual"]


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Options of the flow, the filters and the heads that the paper does not have; the defaults are the paper."""

    activation: Activation = option(
        "none", "what maps go through on their way to the next layer; pooling takes them as before"
    )
    restart_every: int = option(
        0, "layers of a stack, after which maps are dropped and the next layer sees the image alone; 0: never", 0
    )
    patch_ridge: float = option(
        0.1, "banks 'patches' and 'rotated-pca': ridge of the whitening, relative to the mean variance", 0
    )
    filter_labels: FilterLabels = option(
        "image", "supervised filters tell apart images' classes, or the new labels of their residuals, by sign"
    )
    draw_from: DrawFrom = option(
        "all", "images filters' patches are drawn from: all alike, those still wrong, or all by their residual's norm"
    )

    def place_in_stack(self, layer: int) -> int:
        """Return a layer's place in its stack, both counted from 1: that of place 1 sees the image alone."""
        return (layer - 1) % self.restart_every + 1 if self.restart_every else layer
