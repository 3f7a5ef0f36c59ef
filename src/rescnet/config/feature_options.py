"""Options beyond the paper: how images are prepared, and what features are made of a layer's maps. Off by default."""

from __future__ import annotations

from dataclasses import dataclass

from ..stages.pooling import Rectifier
from .option import option


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """Options of images and features that the paper does not have; the defaults are the paper."""

    contrast: int = option(0, "side of the window images' contrast is made even over, in pixels; 0: left as it is", 0)
    whitening: int = option(0, "side of the patches images are whitened by (ZCA), an odd number; 0: not whitened", 0)
    whitening_ridge: float = option(0.1, "ridge of the whitening, relative to the patches' mean variance", 1e-6)
    rectifier: Rectifier = option(
        "relu", "what of a map is pooled: its positive part, both parts as two maps, its size, or all of it"
    )
    more_block_sizes: tuple[int, ...] = option((), "sides of further pooling blocks, whose features are added", 1)
    means: bool = option(False, "pool blocks' means beside their second-order features")
    matrix_root: bool = option(
        False, "take the matrix square root of each cell's correlations; with pooling mean and z_score channel"
    )
    feature_power: float = option(1.0, "power p of features, sign(f)·|f|ᵖ; 0.5: signed square roots", 0.01, 10)

    def check_features(self) -> None:
        """Refuse what cannot be."""
        for name, side in (("contrast", self.contrast), ("whitening", self.whitening)):
            if side and side % 2 == 0:
                raise ValueError(f"{name} is {side} but has a pixel in its middle: choose an odd side.")
        if self.contrast == 1:
            raise ValueError("contrast is 1 but one pixel has none: choose 3 or more.")
        if len(set(self.more_block_sizes)) < len(self.more_block_sizes):
            raise ValueError(f"more_block_sizes is {self.more_block_sizes}, which has a size twice: name each once.")

    @property
    def prepares_images(self) -> bool:
        """Whether images are changed before the first layer."""
        return bool(self.contrast or self.whitening)
