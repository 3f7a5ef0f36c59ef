"""What is learnt: :class:`NetworkConfig`, flat, one key an option; ``making_config`` puts one together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..stages.augment import Augmentation
from ..stages.convolution import Border
from ..stages.discriminant import Prior, Shrinkage
from ..stages.filters import (
    BankOptions,
    Bias,
    DrawSides,
    FilterLength,
    PCABias,
    PCASigns,
    bank_of_layer,
    check_banks,
    check_components,
)
from ..stages.images import Scope
from ..stages.patches import Centring
from ..stages.pyramid import Cell, Cells, Reduction, pyramid_cells
from ..stages.residual import learning_rate
from ..stages.second_order import BlockGrid, ZScore, count_pairs
from .feature_options import FeatureOptions
from .flow_options import FlowOptions
from .option import checked, option
from .readout_options import ReadoutOptions

Head = Literal["lda", "multiclass-lda", "ridge"]
Posterior = Literal["sigmoid", "sigmoid-shares", "softmax"]
SignSamples = Literal["all", "own"]
CopyResiduals = Literal["shared", "own"]
Diagonal = Literal["auto", "keep", "drop"]


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(ReadoutOptions, FlowOptions, FeatureOptions):
    """Everything that decides which network is learnt.

    The defaults are the paper's CIFAR settings where it states them; where it does not, a reading that is open.
    """

    layers: int = option(20, "layers to add at most (L)", 1)
    filters: int = option(50, "filters in every layer (d_i)", 1)
    filter_size: int = option(3, "side of a filter in pixels (k)", 1)
    first_filter_size: int = option(0, "side of the filters on the image alone; 0: the same as the others", 0)
    bank: str = option(
        "pca + stacked-lda",
        "filter bank or mixture, as 'pca' or '3 pca + 1 stacked-lda'; 'dct; pca': layer by layer, 'pca | dct': stack "
        "by stack, the last goes on",
    )
    centring: Centring = option(
        "mean-patch", "PCA centres patches by the mean of all patches, or each patch by its own mean per channel"
    )
    patch_samples: int = option(0, "patches the PCA covariance is estimated from; 0: all of them, exactly", 0)
    positives: int = option(2, "stacked-LDA: patches of the drawn class in a draw", 1)
    negatives: int = option(32, "stacked-LDA: patches of other classes in a draw", 1)
    tolerance: float = option(0.0, "stacked-LDA: greatest training error of an accepted draw", 0, 1)
    draw_ridge: float = option(0.01, "stacked-LDA: ridge of a draw, relative to its patches' variance", 0)
    draw_sides: DrawSides = option(
        "one", "stacked-LDA: a draw gives the discriminant of its class, or both classes', one the other's negative"
    )
    filter_bias: Bias = option(
        "mean",
        "stacked-LDA: the discriminant's constant, the same without prior odds, minus the mean response, or none",
    )
    filter_length: FilterLength = option(
        "unit", "stacked-LDA: as long as PCA's filters, or as the discriminant has them"
    )
    pca_bias: PCABias = option("mean", "PCA: nothing, or minus the mean response, as if patches were centred")
    pca_signs: PCASigns = option(
        "fixed", "PCA: a filter's number of largest size is positive, or its sign is drawn anew"
    )
    most_draws: int = option(100_000, "stacked-LDA: draws after which the search is given up", 1)

    scaling: Scope = option(
        "source", "min-max scaling of a layer's input: one range, one for maps and one for image, or one a channel"
    )
    border: Border = option(
        "zero", "around a layer's input: zeros once it is scaled, zeros before it is, or its own outermost pixels"
    )
    block_size: int = option(16, "side of a second-order pooling block in pixels", 1)
    block_stride: int = option(4, "pixels from one block to the next", 1)
    z_score: ZScore = option("channel", "blocks are z-scored channel by channel, or as a whole")
    diagonal: Diagonal = option("auto", "variances among the second-order features; auto: dropped where constant")
    pyramid: tuple[int, ...] = option((4, 2, 1), "cells per side of each pyramid level", 1)
    cells: Cells = option("official", "pyramid cells: PCANet's binning, or an even division of the grid of blocks")
    pooling: Reduction = option("max", "reduction of the blocks in a pyramid cell")

    head: Head = option("lda", "one-vs-rest LDA, multi-class LDA, or ridge regression of the residual")
    prior: Prior = option("empirical", "LDA scores with the log prior odds, or without")
    shrinkage: Shrinkage = option("ridge", "regularised scatter: S + γI, or (1-γ)S + γtI with t the mean variance")
    ridge: float = option(0.1, "γ, in units of a feature's variance", 0)
    standardise: bool = option(True, "scale features to unit variance first; else a ridge γ is in their own units")
    sign_samples: SignSamples = option("all", "each sign's classifier sees all images (text), or its own (Algorithm 1)")
    posterior: Posterior = option(
        "sigmoid", "how LDA scores become posteriors; sigmoid-shares: sigmoids, divided by their sum over the classes"
    )
    sigmoid_scale: float = option(16.0, "σ of the sigmoid", 1e-12)
    softmax_scale: float = option(0.001, "β of the softmax", 1e-12)

    ceiling: float = option(0.8, "λ, the greatest output a class should reach", 0, 1)
    learning_rate: float = option(0.4, "α of the first layer", 0)
    rate_drop: float = option(0.0, "share of α taken off at every drop", 0, 1)
    rate_drop_every: int = option(10, "layers from one drop of α to the next", 1)
    rate_floor: float = option(0.0, "α below which no drop goes", 0)
    rate_on_first_layer: bool = option(
        True, "multiply the first layer by α too, as Algorithm 1 does; the text does not"
    )

    augment: str = option("", "changes of copies of training images, as 'flip + shift 2 + rotate 10 + jitter 0.1'")
    copies: int = option(1, "copies of each training image, where there are changes", 1)
    copy_residuals: CopyResiduals = option("shared", "copies learn the residual of their image, or their own")
    average: str = option("", "views a prediction is the mean of, as 'flip' or 'flip + shift 1'")

    stop_at_zero_error: bool = option(True, "stop when no training image is wrong")
    patience: int = option(
        0, "stop after so many layers without a better validation accuracy, and use the best depth; 0: all layers", 0
    )
    seed: int = option(0, "seed of every random draw", 0, 2**40)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, checked(name, value, NetworkConfig))
        check_banks(self.bank)
        if "|" in self.bank and not self.restart_every:
            raise ValueError(
                f"bank is {self.bank!r}, stack by stack, but there is one stack: choose restart_every too."
            )
        if self.block_size in self.more_block_sizes:
            raise ValueError(f"more_block_sizes has block_size {self.block_size} too: name others, or none.")
        if self.matrix_root and (self.pooling != "mean" or self.z_score != "channel"):
            raise ValueError("matrix_root takes mean correlations: choose pooling mean and z_score channel.")
        self.check_features()
        Augmentation.parse(self.average).views()
        changes = Augmentation.parse(self.augment)
        if self.copies > 1 and not self.augment.strip():
            raise ValueError(f"copies is {self.copies} but augment names no change: say how copies differ.")
        if changes.flip and not changes.is_random and self.copies > 1:
            raise ValueError(f"copies is {self.copies} but there is one mirrored copy of an image: choose copies 1.")
        Augmentation.parse(self.kernel_copies)
        if self.has_kernel_copies and self.second_look:
            raise ValueError(
                "a second look leaves images out, whose copies would still be there: choose no kernel_copies."
            )
        if self.margin_weights and self.sign_samples == "own" and self.head != "ridge":
            raise ValueError("margin_weights go with sign_samples 'all' only: choose that, or margin_weights 0.")
        if self.shrinkage == "convex" and self.ridge > 1:
            raise ValueError(f"ridge is {self.ridge:g} but convex shrinkage takes γ in [0, 1]: choose a smaller one.")

    def size_of_filter(self, layer: int) -> int:
        """Return k of a layer, counted from 1."""
        size: int = getattr(self, self.name_of_size(layer))
        return size

    def name_of_size(self, layer: int) -> str:
        """Return the option that says k of a layer, counted from 1."""
        if self.place_in_stack(layer) > 1:
            return "filter_size"
        if self.is_grey(layer):
            return "grey_filter_size"
        return "first_filter_size" if self.first_filter_size else "filter_size"

    def bank_of(self, layer: int) -> str:
        """Return the filter bank, or the mixture, of a layer, counted from 1."""
        return bank_of_layer(self.bank, self.place_in_stack(layer), self.stack_of(layer))

    def rate_of(self, layer: int) -> float:
        """Return α of a layer, counted from 1."""
        if layer == 1 and not self.rate_on_first_layer:
            return 1.0
        return learning_rate(layer, self.learning_rate, self.rate_drop, self.rate_drop_every, self.rate_floor)

    def ridge_of(self, layer: int) -> float:
        """Return γ of a layer, counted from 1."""
        ridge = self.ridge * self.ridge_factor(layer)
        return min(ridge, 1.0) if self.shrinkage == "convex" else ridge

    @property
    def views(self) -> list[tuple[bool, int, int]]:
        """What a prediction is the mean of, as (mirrored, down, right); the image as it is comes first."""
        return Augmentation.parse(self.average).views()

    @property
    def copies_of_each(self) -> int:
        """How many images are learnt from for each given one, itself included."""
        return 1 + self.copies if self.augment.strip() else 1

    @property
    def keeps_diagonal(self) -> bool:
        """Whether variances are features: under the channel z-score they are all 1, unless a root is taken."""
        return self.diagonal == "keep" or (self.diagonal == "auto" and (self.z_score == "block" or self.matrix_root))

    @property
    def bank_options(self) -> BankOptions:
        """The options the filter banks take."""
        return BankOptions(
            self.positives,
            self.negatives,
            self.tolerance,
            self.draw_ridge,
            self.most_draws,
            bias=self.filter_bias,
            pca_bias=self.pca_bias,
            pca_signs=self.pca_signs,
            patch_ridge=self.patch_ridge,
            length=self.filter_length,
            sides=self.draw_sides,
        )

    @property
    def pooled_maps(self) -> int:
        """How many maps of a layer are pooled: two of each, where both signs are."""
        return 2 * self.filters if self.rectifier == "both" else self.filters

    def grid(self, image_size: tuple[int, int], block_size: int = 0) -> BlockGrid:
        """Return the blocks of second-order pooling on images of (height, width), those of ``block_size`` if named."""
        return BlockGrid(image_size, (block_size or self.block_size,) * 2, (self.block_stride,) * 2)

    def grids(self, image_size: tuple[int, int]) -> list[tuple[BlockGrid, list[Cell]]]:
        """Return the blocks of every size, and the cells of their pyramid."""
        found = [self.grid(image_size, size) for size in (self.block_size, *self.more_block_sizes)]
        return [(grid, pyramid_cells(grid, self.pyramid, self.cells)) for grid in found]

    def pyramid_of(self, image_size: tuple[int, int]) -> list[Cell]:
        """Return the pyramid's cells on images of (height, width)."""
        return self.grids(image_size)[0][1]

    def features(self, image_size: tuple[int, int]) -> int:
        """Return D, the features of one image at any layer."""
        cells = sum(len(cells) for _, cells in self.grids(image_size))
        return cells * (count_pairs(self.pooled_maps, self.keeps_diagonal) + self.means * self.pooled_maps)

    def check_images(self, channels: int, image_size: tuple[int, int]) -> None:
        """Refuse, in one sentence, images this network cannot be built on."""
        for layer in self.kinds_of_layer:
            size = self.size_of_filter(layer)
            if size > min(image_size):
                raise ValueError(
                    f"filters of {size}×{size} do not fit images of {image_size[0]}×{image_size[1]}: choose "
                    f"{self.name_of_size(layer)} at most {min(image_size)}."
                )
            self.check_dilation(layer, size, min(image_size))
        self.check_grey(channels)
        self.grids(image_size)
        for name in ("augment", "average", "kernel_copies"):
            if (shift := Augmentation.parse(getattr(self, name)).shift) >= min(image_size):
                raise ValueError(
                    f"{name} moves images of {image_size[0]}×{image_size[1]} by {shift} pixels, off their own edge: "
                    "choose fewer."
                )
        if self.contrast > min(image_size) or self.whitening > min(image_size):
            raise ValueError(
                f"images of {image_size[0]}×{image_size[1]} are smaller than the window they are to be prepared by: "
                f"choose contrast and whitening at most {min(image_size)}."
            )
        if self.pooled_maps < 2 and not self.keeps_diagonal:
            raise ValueError("one filter has no pair to correlate: choose filters at least 2, or diagonal 'keep'.")
        for layer in range(1, self.layers + 1, self.restart_every or self.layers):  # on the image alone
            numbers = self.size_of_filter(layer) ** 2 * (1 if self.is_grey(layer) else channels)
            check_components(self.bank_of(layer), self.filters, numbers, self.name_of_size(layer))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
