"""What a member of the family is: banks and growth stage by stage, then an output path, then a classifier.

A member is a TOML file in ``rescnet/family/presets``. Its top level says what defines it; the tables ``[small]``,
``[grey]`` and ``[colour]`` say the sizes that suit images with a side under 16 pixels, other grey ones, and colour
ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from typing import Any, Literal

from ..config.banks import bank_of_layer, check_banks
from ..config.choices import Bins, PCABias, Reduction, ZScore
from ..config.geometry import BlockGrid, Cell, count_pairs, pyramid_cells
from ..config.option import group, validated
from ..config.presets import SMALL_SIDE, check_names
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
option = group("Family", "run")


@dataclass(frozen=True, kw_only=True)
class FamilyConfig:
    """Everything that decides which member is learnt, and at what size."""

    filters: tuple[int, ...] = option((8, 8), "filters of each stage", 1)
    filter_sizes: tuple[int, ...] = option((7,), "side of each stage's filters; the last goes on", 1)
    bank: str = option("pca", "filter bank or mixture; parted by ';' stage by stage, the last goes on")
    growth: Growth = option("each-map", "each map its own image, filtered by all filters; or filters across all maps")
    patches: Patches = option("zero-mean", "patches less their mean per channel, z-scored per channel, or as they are")
    between: Between = option("nothing", "what happens to maps between stages; mean-pool: 3×3 means, same size")
    within_ridge: float = option(0.0, "ridge of LDA filters, relative to the mean eigenvalue of the within scatter", 0)
    orthonormal: bool = option(False, "LDA filters made orthonormal, the leading one first")
    pca_bias: PCABias = option("none", "what PCA filters add: nothing, or minus their response to the mean patch")
    patch_images: int = option(0, "images that filters are learnt from, taken evenly; 0: all", 0)

    output: Output = option("histogram", "features: histograms of binary codes, second-order pooling, or the pixels")
    reads: Reads = option("last", "features of the last stage; or of all, a classifier each, their posteriors added")
    bits: int = option(0, "maps in a binary code; 0: the filters of the last stage", 0, LONGEST_CODE)
    block_size: int = option(7, "side of a block in pixels", 1)
    block_stride: int = option(4, "pixels from one block to the next", 1)
    pyramid: tuple[int, ...] = option((0,), "cells per side of each pyramid level; 0: no pyramid", 0)
    cells: Bins = option("official", "pyramid cells: PCANet's binning, or an even division of the grid of blocks")
    pooling: Reduction = option("max", "reduction of the blocks in a pyramid cell")
    normalisation: Normalisation = option("l2", "how histogram features are scaled")
    z_score: ZScore = option("channel", "second-order blocks are z-scored channel by channel, or as a whole")
    rectify: bool = option(True, "second-order pooling of rectified maps")

    classifier: Classifier = option("svm", "linear SVM, one-vs-rest LDA, or stacked-LDA")
    svm_cost: float = option(10.0, "C of the SVM", 1e-12)
    svm_tolerance: float = option(
        0.01, "share of its first gradient at which Newton's solver of the SVM stops", 1e-9, 1
    )
    ridge: float = option(0.1, "γ of the LDA, in units of a feature's variance", 0)
    sigmoid_scale: float = option(16.0, "σ of the posteriors that are added", 1e-12)
    discriminants: int = option(1000, "stacked-LDA: discriminants of the first layer", 1)
    positives: int = option(2, "stacked-LDA: samples of the drawn class in a draw", 1)
    negatives: int = option(32, "stacked-LDA: samples of other classes in a draw", 1)
    tolerance: float = option(0.0, "stacked-LDA: greatest training error of an accepted draw", 0, 1)
    draw_ridge: float = option(0.01, "stacked-LDA: ridge of a draw, relative to its samples' variance", 0)
    seed: int = option(0, "seed of every random draw", 0, 2**40)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, validated(name, value, FamilyConfig))
        check_banks(self.bank)
        if self.output == "histogram" and self.classifier != "svm":
            raise ValueError(f"the classifier is {self.classifier!r} but histograms are too many for it: choose 'svm'.")
        if (self.output == "pixels") != (self.classifier == "stacked-lda"):
            raise ValueError(
                f"output {self.output!r} does not go with the classifier {self.classifier!r}: stacked-LDA takes the "
                f"pixels, and nothing else does."
            )
        if self.reads == "all" and self.classifier != "lda":
            raise ValueError(f"posteriors of all stages cannot be added for {self.classifier!r}: choose 'lda'.")
        if self.output == "histogram":
            if self.maps(len(self.filters)) % self.code_bits:
                raise ValueError(
                    f"bits is {self.bits} but the last stage has {self.maps(len(self.filters))} maps: choose a divisor."
                )
            if self.code_bits > LONGEST_CODE:
                raise ValueError(
                    f"the last stage has {self.code_bits} filters, hence 2^{self.code_bits} bins: choose bits, or at "
                    f"most {LONGEST_CODE} filters."
                )

    @property
    def depth(self) -> int:
        """Stages of filters."""
        return 0 if self.output == "pixels" else len(self.filters)

    @property
    def code_bits(self) -> int:
        """Maps in a binary code."""
        return self.bits or self.filters[-1]

    @property
    def bank_options(self) -> BankOptions:
        """The options the filter banks take."""
        return BankOptions(
            self.positives,
            self.negatives,
            self.tolerance,
            self.draw_ridge,
            pca_bias=self.pca_bias,
            within_ridge=self.within_ridge,
            orthonormal=self.orthonormal,
        )

    def size_of_filter(self, stage: int) -> int:
        """Return k of a stage, counted from 1."""
        return self.filter_sizes[min(stage, len(self.filter_sizes)) - 1]

    def bank_of(self, stage: int) -> str:
        """Return the mixture of a stage, counted from 1."""
        return bank_of_layer(self.bank, stage)

    def maps(self, stage: int) -> int:
        """Return how many maps a stage gives, counted from 1."""
        total = 1
        for filters in self.filters[:stage]:
            total = total * filters if self.growth == "each-map" else filters
        return total

    def grid(self, image_size: tuple[int, int]) -> BlockGrid:
        """Return the blocks on images of (height, width)."""
        return BlockGrid(image_size, (self.block_size,) * 2, (self.block_stride,) * 2)

    def pyramid_of(self, image_size: tuple[int, int]) -> list[Cell] | None:
        """Return the pyramid's cells on images of (height, width), None if there is no pyramid."""
        if self.pyramid == (0,):
            return None
        return pyramid_cells(self.grid(image_size), self.pyramid, self.cells)

    @property
    def keeps_diagonal(self) -> bool:
        """Whether variances are second-order features: under the channel z-score they are all 1."""
        return self.z_score == "block"

    def features(self, image_shape: tuple[int, int, int], stage: int) -> int:
        """Return D, the features of one image (channels, height, width) at a stage, counted from 1."""
        if self.output == "pixels":
            return image_shape[0] * image_shape[1] * image_shape[2]
        rows, columns = self.grid(image_shape[1:]).shape
        cells = self.pyramid_of(image_shape[1:])
        places = rows * columns if cells is None else len(cells)
        if self.output == "histogram":
            return places * self.maps(stage) // self.code_bits << self.code_bits
        return places * count_pairs(self.maps(stage), self.keeps_diagonal)

    def check_images(self, image_shape: tuple[int, int, int]) -> None:
        """Refuse, in one sentence, images this member cannot be built on."""
        if self.output == "pixels":
            return
        for stage in range(1, self.depth + 1):
            if self.size_of_filter(stage) > min(image_shape[1:]):
                raise ValueError(
                    f"filters of {self.size_of_filter(stage)}×{self.size_of_filter(stage)} do not fit images of "
                    f"{image_shape[1]}×{image_shape[2]}: choose filter_sizes at most {min(image_shape[1:])}."
                )
        self.features(image_shape, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


def member_names() -> list[str]:
    """Return the names of the family's members."""
    folder = resources.files(__package__).joinpath("presets")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def kind_of(image_shape: tuple[int, int, int]) -> str:
    """Return which table of a preset suits images (channels, height, width)."""
    if min(image_shape[1:]) < SMALL_SIDE:
        return "small"
    return "grey" if image_shape[0] == 1 else "colour"


def make_member(name: str, image_shape: tuple[int, int, int], options: Mapping[str, Any] | None = None) -> FamilyConfig:
    """Build a member's configuration for images (channels, height, width): its preset, then ``options`` over it.

    Examples
    --------
    >>> make_member("pcanet", (1, 28, 28)).filters
    (8, 8)
    >>> make_member("pcanet", (3, 32, 32)).features((3, 32, 32), 2)
    215040
    """
    if name not in member_names():
        near = get_close_matches(name, member_names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(member_names())}."
        raise ValueError(f"there is no member {name!r} in the family: {hint}")
    text = resources.files(__package__).joinpath("presets", f"{name}.toml").read_text("utf-8")
    preset = tomllib.loads(text)
    tables = {kind: preset.pop(kind, {}) for kind in KINDS}
    settings = preset | tables[kind_of(image_shape)]
    check_names(settings, f"the preset {name}", FamilyConfig)
    check_names(options or {}, "options", FamilyConfig)
    return FamilyConfig(**(settings | dict(options or {})))
