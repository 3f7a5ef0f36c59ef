"""Options that decide which network is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .geometry import Bins, BlockGrid, Cell, Rectifier, Reduction, count_pairs, pyramid_cells
from .grammars import Augmentation, View, bank_of_layer, check_banks, check_components
from .option import OptionError, Options, group

Scope = Literal["global", "source", "channel"]
PCABias = Literal["none", "mean"]
PCASigns = Literal["fixed", "drawn"]
StackedLDABias = Literal["lda", "mean"]
StackedLDASigns = Literal["one", "both"]
Posterior = Literal["sigmoid", "normalised-sigmoid", "softmax"]

MOST_LAYERS = 99_999  # a file of each: no run has as many, but a forged model can claim to
CODE_SIZE = 3800  # numbers per code of the readout, its components, if there are enough images
GREY_FILTER_SIZE = 7  # k of a grey stack's first layer: 3×3 grey patches have only nine dimensions

_depth = group("Depth", fixed_by="nothing")
_filters = group("Filters", fixed_by="run")
_stacked_lda = group("Stacked-LDA filters", fixed_by="run")
_input = group("Layer input", fixed_by="layers")
_pooling = group("Second-order pooling", fixed_by="layers")
_heads = group("Heads", fixed_by="layers")
_residual = group("Residual", fixed_by="run")
_data = group("Augmentation", fixed_by="run")
_readout = group("Readout", fixed_by="nothing")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Options):
    """Options of a network; the defaults are the paper's CIFAR settings where it states them."""

    layers: int = _depth(20, "Largest number of layers (L).", 1, MOST_LAYERS, common=True, sklearn="n_layers")
    stop_at_zero_error: bool = _depth(True, "Stop when every training image is classified correctly.")
    patience: int = _depth(
        0,
        "Early stopping: stop after n layers without a better validation accuracy, and use the best depth. 0: off.",
        0,
        MOST_LAYERS,
        common=True,
        sklearn="n_iter_no_change",
    )
    seed: int = _depth(0, "Seed of all random draws.", 0, 2**40, common=True, sklearn="random_state", fixed_by="run")

    bank: str = _filters(
        "pca + stacked-lda",
        "Filter bank or mixture, e.g. 'pca' or '3 pca + 1 stacked-lda'. 'dct; pca' begins each stack with dct.",
        common=True,
    )
    filters: int = _filters(50, "Filters per layer (d_i).", 1, 10_000, common=True, fixed_by="layers")
    filter_size: int = _filters(3, "Side of a filter in pixels (k).", 1, 1000, fixed_by="layers")
    first_filter_size: int = _filters(
        0,
        "Side of the filters of a layer that sees the image alone. 0 means filter_size.",
        0,
        1000,
        fixed_by="layers",
    )
    pca_signs: PCASigns = _filters(
        "fixed", "Sign of a PCA filter. fixed: its largest number is positive; drawn: random."
    )
    pca_bias: PCABias = _filters(
        "mean", "Bias of a PCA filter. none: zero; mean: minus its response to the mean patch."
    )

    positives: int = _stacked_lda(2, "Patches of the drawn class per draw.", 1, 1e6)
    negatives: int = _stacked_lda(32, "Patches of other classes per draw.", 1, 1e6)
    tolerance: float = _stacked_lda(0.0, "Largest training error of an accepted draw.", 0, 1)
    draw_ridge: float = _stacked_lda(0.01, "Ridge of a draw, relative to the variance of its patches.", 0, 1e9)
    stacked_lda_signs: StackedLDASigns = _stacked_lda(
        "one", "Filters per draw. one: the discriminant of the drawn class; both: also its negative."
    )
    stacked_lda_bias: StackedLDABias = _stacked_lda(
        "mean", "Bias. lda: the constant of the discriminant; mean: minus the response to the mean patch."
    )

    scaling: Scope = _input(
        "source", "Min-max ranges. global: one; source: one for maps, one for the image; channel: one each."
    )
    stack_depth: int = _input(
        0, "Layers per stack. The first layer of a stack sees the image alone. 0 means one stack.", 0, MOST_LAYERS
    )
    grey_stack_every: int = _input(0, "Train every n-th stack on the grey image. 0 disables it.", 0, MOST_LAYERS)

    block_sizes: tuple[int, ...] = _pooling(
        (16,), "Sides of the pooling blocks in pixels, e.g. 12,20.", 1, 100_000, common=True
    )
    block_stride: int = _pooling(4, "Pixels between neighbouring blocks.", 1, 100_000, common=True)
    pyramid: tuple[int, ...] = _pooling((4, 2, 1), "Cells per side of each pyramid level.", 1, 64)
    pyramid_bins: Bins = _pooling("official", "Pyramid cells. official: PCANet's binning; adaptive: an even division.")
    pooling: Reduction = _pooling("max", "Reduction of the blocks of a pyramid cell.")
    rectifier: Rectifier = _pooling(
        "relu", "Parts of a map that are pooled. relu: the positive one; both: both, as maps."
    )
    matrix_log: bool = _pooling(False, "Take the matrix logarithm of each cell's correlations. Needs pooling mean.")

    head: Literal["lda", "multiclass-lda", "ridge"] = _heads(
        "lda",
        "Classifier of a layer: one-vs-rest LDA, multi-class LDA, or ridge regression of the residual.",
        common=True,
    )
    ridge: float = _heads(
        0.1,
        "Regularisation γ of the heads, in units of a feature's variance.",
        0,
        1e9,
        common=True,
        fixed_by="run",
    )
    posterior: Posterior = _heads(
        "sigmoid", "Posterior of LDA scores: sigmoid, sigmoid divided by the sum over the classes, or softmax."
    )
    sigmoid_scale: float = _heads(16.0, "Scale σ of the sigmoid.", 1e-12, 1e12)
    softmax_scale: float = _heads(0.001, "Scale β of the softmax.", 1e-12, 1e12)

    ceiling: float = _residual(0.8, "Target output λ of the correct class.", 0, 1)
    learning_rate: float = _residual(0.4, "Learning rate α of the first layer.", 0, 100, common=True)
    rate_drop: float = _residual(0.0, "Fraction by which α falls at each drop.", 0, 1)
    rate_drop_every: int = _residual(10, "Layers between two drops of α.", 1, MOST_LAYERS)
    rate_floor: float = _residual(0.0, "Smallest α.", 0, 100)

    augment: str = _data(
        "",
        "Changes of copies of the training images, e.g. 'flip + shift 2 + rotate 10'.",
        common=True,
        sklearn="augment",
    )
    copies: int = _data(1, "Changed copies per training image, if augment is set.", 1, 1000)
    test_views: str = _data("", "Views that a prediction is averaged over, e.g. 'flip' or 'flip + shift 1'.")

    readout: Literal["heads", "kernel"] = _readout(
        "heads",
        "'heads' uses the layer heads only. 'kernel' is Gaussian-kernel ridge regression on short codes of the images.",
        common=True,
        sklearn="readout",
    )
    readout_size: int = _readout(CODE_SIZE, "Numbers per code of the kernel readout; each takes a byte per image.", 1)
    kernel_width: float = _readout(
        0.8,
        "Width w of the kernel exp(-w·s), where s is a squared distance over the median one of training images.",
        1e-6,
    )
    kernel_ridge: float = _readout(
        0.01, "Ridge of the kernel, whose diagonal is 1; it grows with N from 100,000 rows.", 0
    )
    kernel_copies: str = _readout("", "Copies per training image that the readout also learns from, e.g. '4 shift 2'.")
    loo_correction: bool = _readout(
        False, "Correct the outputs by a regression fitted to leave-one-out outputs of the training images."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_banks(self.bank)
        if len(set(self.block_sizes)) < len(self.block_sizes):
            raise OptionError("block_sizes", f"must differ from each other, got {self.block_sizes}.")
        if self.matrix_log and self.pooling != "mean":
            raise OptionError("pooling", f"must be mean with matrix_log, got {self.pooling!r}.")
        Augmentation.parse(self.test_views, "test_views").views()
        changes = Augmentation.parse(self.augment)
        if self.copies > 1 and not self.augment.strip():
            raise OptionError("augment", f"must name a change with copies {self.copies}. Use e.g. 'shift 2'.")
        if changes.flip and not changes.is_random and self.copies > 1:
            raise OptionError("copies", f"must be 1 with augment 'flip' alone, got {self.copies}.")
        Augmentation.parse_copies(self.kernel_copies)

    # Schedule: the facts of one layer, counted from 1.

    def place_in_stack(self, layer: int) -> int:
        """Return the place of a layer in its stack, counted from 1; at place 1 it sees the image alone."""
        return (layer - 1) % self.stack_depth + 1 if self.stack_depth else layer

    def is_grey(self, layer: int) -> bool:
        """Return whether a layer belongs to a grey stack."""
        stack = (layer - 1) // self.stack_depth + 1 if self.stack_depth else 1
        return self.grey_stack_every > 0 and stack % self.grey_stack_every == 0

    @property
    def kinds_of_layer(self) -> list[int]:
        """One layer of each kind: on the image alone, on maps too, and on the grey image if there is such a stack."""
        first_grey = (self.grey_stack_every - 1) * self.stack_depth + 1
        return [1, 2, first_grey] if self.grey_stack_every else [1, 2]

    def size_of_filter(self, layer: int) -> int:
        """Return k of a layer."""
        return self._filter_size(layer)[1]

    def _filter_size(self, layer: int) -> tuple[str, int]:
        """Return the option that sets k of a layer, and k; no option sets that of a grey stack's first layer."""
        sees_image_alone = self.place_in_stack(layer) == 1
        if sees_image_alone and self.is_grey(layer):
            return "", GREY_FILTER_SIZE
        if sees_image_alone and self.first_filter_size:
            return "first_filter_size", self.first_filter_size
        return "filter_size", self.filter_size

    def bank_of(self, layer: int) -> str:
        """Return the filter bank, or the mixture, of a layer."""
        return bank_of_layer(self.bank, self.place_in_stack(layer))

    def rate_of(self, layer: int) -> float:
        """Return α of a layer (equation 13).

        A drop below the floor is not made: the paper "stopped reducing the learning rate when it reached 0.387", 0.9⁹.
        """
        rate = self.learning_rate
        for _ in range((layer - 1) // self.rate_drop_every):
            if rate * (1 - self.rate_drop) < self.rate_floor:
                break
            rate *= 1 - self.rate_drop
        return rate

    @property
    def keeps_diagonal(self) -> bool:
        """True if variances are features: they are all 1 after the z-score, unless a matrix logarithm is taken."""
        return self.matrix_log

    @property
    def pooled_maps(self) -> int:
        """Maps of a layer that are pooled: two per filter if both signs are."""
        return 2 * self.filters if self.rectifier == "both" else self.filters

    def grids(self, image_size: tuple[int, int]) -> list[tuple[BlockGrid, list[Cell]]]:
        """Return the blocks of each size, with the cells of their pyramid, on images of (height, width)."""
        stride = (self.block_stride, self.block_stride)
        found = [BlockGrid(image_size, (size, size), stride) for size in self.block_sizes]
        return [(grid, pyramid_cells(grid, self.pyramid, self.pyramid_bins)) for grid in found]

    def features(self, image_size: tuple[int, int]) -> int:
        """Return D, the number of features per image and layer."""
        cells = sum(len(cells) for _, cells in self.grids(image_size))
        return cells * count_pairs(self.pooled_maps, self.keeps_diagonal)

    @property
    def views(self) -> list[View]:
        """Views that a prediction is averaged over; the unchanged image is the first."""
        return Augmentation.parse(self.test_views, "test_views").views()

    @property
    def copies_per_image(self) -> int:
        """Images learned from per training image, itself included."""
        return 1 + self.copies if self.augment.strip() else 1

    @property
    def passes_per_image(self) -> int:
        """Passes of a training image through each layer: itself, its copies, and those of the readout."""
        return self.copies_per_image + (self.rows_per_image - 1) * (1 + self.mirrors_kernel) * self.has_kernel

    @property
    def has_kernel(self) -> bool:
        """True if a kernel readout is fitted after the layers."""
        return self.readout == "kernel"

    @property
    def mirrors_kernel(self) -> bool:
        """True if the kernel readout treats an image and its mirror image as equal."""
        return Augmentation.parse(self.augment).flip

    @property
    def rows_per_image(self) -> int:
        """Rows of the readout per training image: itself and its copies."""
        return 1 + Augmentation.parse_copies(self.kernel_copies)[0]

    def check_images(self, channels: int, image_size: tuple[int, int]) -> None:
        """Raise ValueError if the network cannot be built on such images."""
        height, width = image_size
        for layer in self.kinds_of_layer:
            name, size = self._filter_size(layer)
            if size > min(image_size) and not name:
                rule = f"must be 0 on images of {height}×{width}: filters of a grey stack are {size}×{size}."
                raise OptionError("grey_stack_every", rule)
            if size > min(image_size):
                raise OptionError(name, f"must be at most {min(image_size)} on images of {height}×{width}, got {size}.")
        if self.grey_stack_every and channels == 1:
            raise OptionError("grey_stack_every", f"must be 0 on grey images, got {self.grey_stack_every}.")
        if self.grey_stack_every > 1 and not self.stack_depth:
            raise OptionError("stack_depth", f"must be set with grey_stack_every {self.grey_stack_every}.")
        self.grids(image_size)
        for name in ("augment", "test_views", "kernel_copies"):
            if (shift := Augmentation.parse_copies(getattr(self, name))[1].shift) >= min(image_size):
                raise OptionError(name, f"must shift images of {height}×{width} by fewer pixels, got {shift}.")
        if self.pooled_maps < 2 and not self.keeps_diagonal:
            raise OptionError("filters", "must be at least 2: one filter has no pair to correlate.")
        firsts = [layer for layer in self.kinds_of_layer if self.place_in_stack(layer) == 1 and layer <= self.layers]
        for layer in firsts:  # of a stack
            name, size = self._filter_size(layer)
            dimension = size**2 * (1 if self.is_grey(layer) else channels)
            check_components(self.bank_of(layer), self.filters, dimension, name)
