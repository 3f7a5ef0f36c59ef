"""Options beyond the paper: what passes between layers, where filters come from, how heads step. Off by default."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Literal

from ..stages.activation import Activation
from ..stages.patches import span
from .option import option

FilterLabels = Literal["image", "residual"]
DrawFrom = Literal["all", "wrong", "residual"]
Step = Literal["fixed", "held-out"]
GREATEST_GROWTH = 1e6  # of γ over all layers: with more, a head is zero anyway


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Options of the flow, the filters and the heads that the paper does not have; the defaults are the paper."""

    activation: Activation = option(
        "none", "what maps go through on their way to the next layer; pooling takes them as before"
    )
    restart_every: int = option(
        0, "layers of a stack, after which maps are dropped and the next layer sees the image alone; 0: never", 0
    )
    grey_every: int = option(
        0, "every so many-th stack sees the image without colour, as the mean of its channels; 0: none does", 0
    )
    grey_filter_size: int = option(7, "side of the filters on the image alone where it has no colour", 1)
    dilation: int = option(1, "pixels from one tap of a filter to the next, where it sees maps; 1: side by side", 1)
    patch_ridge: float = option(
        0.1, "banks 'patches' and 'rotated-pca': ridge of the whitening, relative to the mean variance", 0
    )
    filter_labels: FilterLabels = option(
        "image", "supervised filters tell apart images' classes, or the new labels of their residuals, by sign"
    )
    draw_from: DrawFrom = option(
        "all", "images filters' patches are drawn from: all alike, those still wrong, or all by their residual's norm"
    )
    ridge_growth: float = option(1.0, "factor of γ from one layer to the next", 0.1, 10)
    momentum: float = option(
        0.0,
        "share of the last change of outputs that is made again before a layer corrects what is left",
        0,
        0.99,
    )
    step: Step = option(
        "fixed", "α as scheduled, or times the share of a layer's correction that is best on the validation images"
    )
    margin_weights: float = option(
        0.0, "share of an image's weight in the heads that goes by its residual's norm; the rest is alike", 0, 1
    )

    def place_in_stack(self, layer: int) -> int:
        """Return a layer's place in its stack, both counted from 1: that of place 1 sees the image alone."""
        return (layer - 1) % self.restart_every + 1 if self.restart_every else layer

    def stack_of(self, layer: int) -> int:
        """Return the stack a layer is in, both counted from 1."""
        return (layer - 1) // self.restart_every + 1 if self.restart_every else 1

    def is_grey(self, layer: int) -> bool:
        """Return whether a layer, counted from 1, is in a stack that sees no colour."""
        return self.grey_every > 0 and self.stack_of(layer) % self.grey_every == 0

    def turns_grey(self, layers: int) -> bool:
        """Return whether the first of so many layers sees colour and a later one does not."""
        return not self.is_grey(1) and any(self.is_grey(layer) for layer in range(1, layers + 1))

    @property
    def kinds_of_layer(self) -> list[int]:
        """Numbers of layers that stand for all: on the image alone, on maps too, and on the image without colour."""
        return [1, 2, *([(self.grey_every - 1) * self.restart_every + 1] if self.grey_every else [])]

    def dilation_of(self, layer: int) -> int:
        """Return the dilation of a layer's filters, counted from 1; those on the image alone have none."""
        return self.dilation if self.place_in_stack(layer) > 1 else 1

    def check_dilation(self, layer: int, size: int, side: int) -> None:
        """Refuse filters of so many taps a side that cover more than the shorter side of the images."""
        if span(size, self.dilation_of(layer)) > side:
            raise ValueError(
                f"dilation is {self.dilation} but filters of {size}×{size} then cover more than the images' {side} "
                f"pixels: choose at most {(side - 1) // (size - 1)}."
            )

    def check_grey(self, channels: int) -> None:
        """Refuse stacks without colour where there is no colour, or one stack only."""
        if self.grey_every and channels == 1:
            raise ValueError(f"grey_every is {self.grey_every} but the images are grey: choose 0.")
        if self.grey_every > 1 and not self.restart_every:
            raise ValueError(f"grey_every is {self.grey_every} but there is one stack: choose restart_every too.")

    def ridge_factor(self, layer: int) -> float:
        """Return what γ of a layer, counted from 1, is multiplied by."""
        return exp(min((layer - 1) * log(self.ridge_growth), log(GREATEST_GROWTH)))
