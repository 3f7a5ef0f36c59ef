"""Configuration of a member of the family: filters per stage, then features, then a classifier.

A member is a TOML file in ``rescnet/family/presets``. Its top level defines the member. Its tables ``[small]``,
``[grey]`` and ``[colour]`` give sizes for images with a side under 16 pixels, other grey images, and colour images.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from math import prod
from typing import Any, Literal

from ..base.text import check_known
from ..config.defaults import SMALL_SIDE
from ..config.geometry import Bins, BlockGrid, Cell, Reduction, ZScore, count_pairs, pyramid_cells
from ..config.grammars import bank_of_layer, check_banks
from ..config.network import NetworkConfig, PCABias
from ..config.option import OptionError, Options, group, options_of
from ..config.presets import check_names
from ..stages.filters import BankOptions
from ..stages.histograms import Normalisation

Growth = Literal["each-map", "across"]
Patches = Literal["zero-mean", "z-score", "plain"]
Between = Literal["nothing", "mean-pool"]
Output = Literal["histogram", "second-order", "pixels"]
Reads = Literal["last", "all"]
Classifier = Literal["svm", "lda", "stacked-lda"]
KINDS = ("small", "grey", "colour")
LONGEST_CODE = 16  # bits: a histogram has 2^bits bins

_filters = group("Filters", "run")
_features = group("Features", "run")
_classifier = group("Classifier", "run")


def _network(name: str, **changes: Any) -> Any:
    """Declare an option of :class:`NetworkConfig` again, with its help, limits and default unless changed."""
    known = options_of(NetworkConfig)[name]
    default = changes.pop("default", known.default)
    return field(default=default, metadata={**known.metadata, **changes})


@dataclass(frozen=True, kw_only=True)
class FamilyConfig(Options):
    """Options of a member of the family."""

    filters: tuple[int, ...] = _filters((8, 8), "Filters of each stage.", 1)
    filter_sizes: tuple[int, ...] = _filters(
        (7,), "Side of the filters of each stage in pixels. Further stages use the last one.", 1
    )
    bank: str = _filters(
        "pca", "Filter bank or mixture. 'dct; pca' uses dct in the first stage and pca in all further stages."
    )
    growth: Growth = _filters("each-map", "Input of a filter: each map as an image of its own, or all maps together.")
    patches: Patches = _filters(
        "zero-mean", "Patches: less their mean per channel, with a z-score per channel, or unchanged."
    )
    between: Between = _filters("nothing", "Change of maps between stages: none, or 3×3 means of the same size.")
    within_ridge: float = _filters(
        0.0, "Ridge of LDA filters, relative to the mean eigenvalue of the within-class scatter.", 0
    )
    orthonormal: bool = _filters(False, "Make LDA filters orthonormal, the leading one first.")
    pca_bias: PCABias = _network("pca_bias", default="none")
    patch_images: int = _filters(0, "Images that filters are learned from, evenly spaced. 0 means all.", 0)

    output: Output = _features("histogram", "Features: histograms of binary codes, second-order pooling, or pixels.")
    reads: Reads = _features(
        "last", "Stages that are classified: the last one, or all with a classifier each and added posteriors."
    )
    bits: int = _features(0, "Maps per binary code. 0 means the number of filters of the last stage.", 0, LONGEST_CODE)
    block_size: int = _features(7, "Side of a block in pixels.", 1)
    block_stride: int = _network("block_stride")
    pyramid: tuple[int, ...] = _network(
        "pyramid", default=(0,), low=0, help="Cells per side of each pyramid level. 0 means no pyramid."
    )
    pyramid_bins: Bins = _network("pyramid_bins")
    pooling: Reduction = _network("pooling")
    normalisation: Normalisation = _features("l2", "Scaling of histogram features.")
    z_score: ZScore = _features("channel", "Second-order blocks: z-score per channel, or of the whole block.")
    rectify: bool = _features(True, "Rectify maps before second-order pooling.")

    classifier: Classifier = _classifier("svm", "Classifier: linear SVM, one-vs-rest LDA, or stacked-LDA.")
    svm_cost: float = _classifier(10.0, "C of the SVM.", 1e-12)
    svm_tolerance: float = _classifier(
        0.01, "Newton's method for the SVM stops at this fraction of its first gradient.", 1e-9, 1
    )
    ridge: float = _network("ridge")
    sigmoid_scale: float = _network("sigmoid_scale")
    discriminants: int = _classifier(1000, "Discriminants of the first layer of stacked-LDA.", 1)
    positives: int = _network("positives")
    negatives: int = _network("negatives")
    tolerance: float = _network("tolerance")
    draw_ridge: float = _network("draw_ridge")
    seed: int = _network("seed")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_banks(self.bank)
        if self.output == "histogram":
            self._check_histogram()
        if (self.output == "pixels") != (self.classifier == "stacked-lda"):
            both = f"{self.output!r} with classifier {self.classifier!r}"
            raise OptionError("output", f"must be 'pixels' with classifier 'stacked-lda' and only then, got {both}.")
        if self.reads == "all" and self.classifier != "lda":
            raise OptionError("classifier", f"must be 'lda' with reads 'all', got {self.classifier!r}.")

    def _check_histogram(self) -> None:
        if self.classifier != "svm":
            raise OptionError("classifier", f"must be 'svm' with output 'histogram', got {self.classifier!r}.")
        maps = self.maps(len(self.filters))
        if maps % self.code_bits:
            raise OptionError("bits", f"must divide the {maps} maps of the last stage, got {self.bits}.")
        if self.code_bits > LONGEST_CODE:
            rule = f"must be at most {LONGEST_CODE} in the last stage, got {self.code_bits}. Set bits for more."
            raise OptionError("filters", rule)

    @property
    def depth(self) -> int:
        """Number of stages of filters."""
        return 0 if self.output == "pixels" else len(self.filters)

    @property
    def code_bits(self) -> int:
        """Maps per binary code."""
        return self.bits or self.filters[-1]

    @property
    def bank_options(self) -> BankOptions:
        """Options of the filter banks."""
        return BankOptions.of(self)

    def size_of_filter(self, stage: int) -> int:
        """Return k of a stage, counted from 1."""
        return self.filter_sizes[min(stage, len(self.filter_sizes)) - 1]

    def bank_of(self, stage: int) -> str:
        """Return the mixture of a stage, counted from 1."""
        return bank_of_layer(self.bank, stage)

    def maps(self, stage: int) -> int:
        """Return the number of maps of a stage, counted from 1."""
        return prod(self.filters[:stage]) if self.growth == "each-map" else self.filters[stage - 1]

    def grid(self, image_size: tuple[int, int]) -> BlockGrid:
        """Return the blocks on images of (height, width)."""
        return BlockGrid(image_size, (self.block_size,) * 2, (self.block_stride,) * 2)

    def pyramid_of(self, image_size: tuple[int, int]) -> list[Cell] | None:
        """Return the pyramid's cells on images of (height, width), or None without a pyramid."""
        if self.pyramid == (0,):
            return None
        return pyramid_cells(self.grid(image_size), self.pyramid, self.pyramid_bins)

    @property
    def keeps_diagonal(self) -> bool:
        """True if variances are second-order features; after a z-score per channel they are all 1."""
        return self.z_score == "block"

    def features(self, image_shape: tuple[int, int, int], stage: int) -> int:
        """Return D, the number of features of an image (channels, height, width) at a stage, counted from 1."""
        if self.output == "pixels":
            return prod(image_shape)
        cells = self.pyramid_of(image_shape[1:])
        places = prod(self.grid(image_shape[1:]).shape) if cells is None else len(cells)
        if self.output == "histogram":
            return places * self.maps(stage) // self.code_bits << self.code_bits
        return places * count_pairs(self.maps(stage), self.keeps_diagonal)

    def check_images(self, image_shape: tuple[int, int, int]) -> None:
        """Raise ValueError if the member cannot be built on images (channels, height, width)."""
        if self.output == "pixels":
            return
        side, shown = min(image_shape[1:]), f"{image_shape[1]}×{image_shape[2]}"
        largest = max(self.size_of_filter(stage) for stage in range(1, self.depth + 1))
        if largest > side:
            raise OptionError("filter_sizes", f"must be at most {side} on images of {shown}, got {largest}.")
        if self.block_size > side:
            raise OptionError("block_size", f"must be at most {side} on images of {shown}, got {self.block_size}.")
        self.features(image_shape, 1)


def member_names() -> list[str]:
    """Return the names of all members."""
    folder = resources.files(__package__).joinpath("presets")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def make_member(name: str, image_shape: tuple[int, int, int], options: Mapping[str, Any] | None = None) -> FamilyConfig:
    """Build a member's configuration for images (channels, height, width): its preset, changed by ``options``.

    The preset has sizes for each kind of image. Those of small images also replace sizes that do not fit, e.g. a
    pyramid of 4×4 cells on 16×16 pixels.

    Examples
    --------
    >>> make_member("pcanet", (1, 28, 28)).filters
    (8, 8)
    >>> make_member("pcanet", (3, 32, 32)).features((3, 32, 32), 2)
    215040
    """
    check_known("member", name, member_names())
    preset = tomllib.loads(resources.files(__package__).joinpath("presets", f"{name}.toml").read_text("utf-8"))
    tables = {kind: preset.pop(kind, {}) for kind in KINDS}
    kind = "small" if min(image_shape[1:]) < SMALL_SIDE else "grey" if image_shape[0] == 1 else "colour"
    try:
        FamilyConfig(**(preset | tables[kind])).check_images(image_shape)
    except ValueError:
        kind = "small"
    settings = preset | tables[kind]
    check_names(settings, f"the preset {name}", FamilyConfig)
    check_names(options or {}, "options", FamilyConfig)
    return FamilyConfig(**(settings | dict(options or {})))
