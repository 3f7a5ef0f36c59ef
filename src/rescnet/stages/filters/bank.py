"""Interface of a filter bank, the registry of banks by name, and mixtures of them.

A bank is a function of patches and options that returns filters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from ...base.errors import ConfigError
from ...config.grammars import (
    BANKS,
    Bank,
    NotEnoughFiltersError,
    check_bank,
    class_sums_of,
    parse_mixture,
    share_out,
)
from ...config.network import PCABias, PCASigns, StackedLDABias, StackedLDASigns
from ..patches import ClassMoments

COPIES = 4  # of Σ p pᵀ in memory: the sum, the one it is added to, the covariance, and its eigenvectors
SAMPLES = 50_000  # patches drawn by banks that need more than sums


@dataclass(frozen=True)
class BankOptions:
    """Options of the banks, as in :class:`~rescnet.config.network.NetworkConfig`; two are for the family's LDA bank.

    The defaults of stacked-LDA are those of appendix A.4. The ridge of a draw matters in deeper layers, where patches
    have more dimensions (477) than a draw has patches (34). With the bias ``"lda"`` (appendix A.3) most responses are
    negative, so ReLU leaves a sparse map; with ``"mean"``, half are. Appendix A.4 has one-vs-rest discriminants, which
    for two classes are negatives of each other: signs ``"both"``.
    """

    positives: int = 2
    negatives: int = 32
    tolerance: float = 0.0
    draw_ridge: float = 0.01
    stacked_lda_bias: StackedLDABias = "lda"
    pca_bias: PCABias = "none"
    pca_signs: PCASigns = "fixed"
    stacked_lda_signs: StackedLDASigns = "one"
    within_ridge: float = 0.0  # of the LDA bank, added to the within scatter, relative to its mean eigenvalue
    orthonormal: bool = False  # LDA filters, the leading one first

    @staticmethod
    def of(config: object) -> BankOptions:
        """Return the options that a configuration has; the others keep their defaults."""
        names = {entry.name for entry in fields(BankOptions)} & vars(config).keys()
        return BankOptions(**{name: getattr(config, name) for name in names})


class PatchSource(Protocol):
    """Patches of a layer's scaled input, and the classes of their images.

    A patch has ``channels·size·size`` numbers. It is identified by its image and its top-left pixel; there are
    ``rows·columns`` per image. The label of a patch is the class of its image (appendix A.3).
    """

    channels: int
    size: int
    images: int
    rows: int
    columns: int
    labels: Tensor  # int64, (images,), on the CPU
    weights: Tensor | None  # (images,), on the CPU: draws pick an image in proportion to its weight. None: all are 1
    zero_mean: bool  # each channel's mean is subtracted: a filter that is constant over a channel has no response

    def covariance(self) -> Tensor:
        """Return the patch covariance, float64, shape (M, M)."""
        ...

    def mean(self) -> Tensor:
        """Return the mean patch, float64, shape (M,)."""
        ...

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the patches at the given places, float64, shape (samples, M)."""
        ...

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, with its images divided into n sets.

        If each map is treated as an image, all maps of an image are summed; a position is a place on one of the maps.
        """
        ...


@dataclass(frozen=True)
class Filters:
    """Learned filters, one per row, of unit norm, so that the maps of different banks are of similar magnitude."""

    weights: Tensor  # (count, M)
    bias: Tensor  # (count,)

    def unit_norm(self) -> Filters:
        """Return weights and bias divided by the norm of each filter; a zero filter stays zero."""
        norm = self.weights.norm(dim=1)
        inverse = torch.where(norm > 0, 1 / norm, 0)
        return Filters(self.weights * inverse[:, None], self.bias * inverse)


def sums_bytes(mixture: str, classes: int, channels: int, image_size: tuple[int, int], size: int) -> int:
    """Return the bytes of the sums over patches k×k that a mixture learns from, in float64."""
    numbers, positions = channels * size**2, (image_size[0] - size + 1) * (image_size[1] - size + 1)
    per_class = [
        sets * (outers * numbers**2 + places * positions * numbers) for sets, outers, places in class_sums_of(mixture)
    ]
    return 8 * (COPIES * numbers**2 + classes * max(per_class, default=0))


def layer_generator(seed: int, layer: int) -> torch.Generator:
    """Return the generator of a layer's draws: layer i is the same in an uninterrupted and in a resumed run."""
    return torch.Generator().manual_seed(seed * 1_000_003 + layer)


FilterBank = Callable[[PatchSource, int, torch.Generator, BankOptions], Filters]


def check_count(name: str, count: int, most: int) -> None:
    """Raise an error if more filters of a bank are requested than its patches allow."""
    if count > most:
        raise NotEnoughFiltersError(
            f"filters must be at most {most} {name} filters for these patches, got {count}. Use fewer filters or a "
            "larger filter size."
        )


def sample_patches(source: PatchSource, generator: torch.Generator, samples: int = SAMPLES) -> Tensor:
    """Return patches drawn uniformly over images, or by their weights, and positions, float64, shape (samples, M)."""
    if source.weights is None:
        image = torch.randint(source.images, (samples,), generator=generator)
    else:
        image = torch.multinomial(source.weights, samples, replacement=True, generator=generator)
    row = torch.randint(source.rows, (samples,), generator=generator)
    column = torch.randint(source.columns, (samples,), generator=generator)
    return source.gather(image, row, column)


def register_bank(name: str) -> Callable[[FilterBank], FilterBank]:
    """Register a bank under a name, for the option ``bank`` and its mixtures.

    Examples
    --------
    >>> import torch
    >>> from rescnet.stages.filters import Filters, register_bank
    >>> @register_bank("gaussian")
    ... def gaussian_filters(source, count, generator, options):
    ...     dimension = source.channels * source.size**2
    ...     weights = torch.randn(count, dimension, generator=generator, dtype=torch.float64)
    ...     return Filters(weights, torch.zeros(count, dtype=torch.float64)).unit_norm()
    """

    def add(bank: FilterBank) -> FilterBank:
        known = BANKS.get(name, Bank())
        if _is_own(known.learn) and not _is_own(bank):
            raise ConfigError(f"bank {name!r} must have a name that rescnet does not use. Choose another one.")
        if len(name.split()) != 1 or {"+", ";"} & set(name):
            raise ConfigError(f"bank must have a name without spaces, + and ;, got {name!r}.")
        BANKS[name] = known._replace(learn=bank)
        return bank

    return add


def _is_own(bank: FilterBank | None) -> bool:
    """Return whether a bank is one of this library."""
    return getattr(bank, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def find_bank(name: str) -> FilterBank:
    """Return the bank of that name."""
    check_bank(name)
    bank = BANKS[name].learn
    assert bank is not None, "the files of this folder register their banks"
    return bank


def learn_filters(
    mixture: str, source: PatchSource, count: int, generator: torch.Generator, options: BankOptions
) -> Filters:
    """Learn ``count`` filters from patches, by one bank or by a mixture of banks in its order.

    The paper mixes "50 % of the supervised stacked-LDA filters with 50 % of the unsupervised PCA filters".
    """
    parts = parse_mixture(mixture)
    learned = [
        _learn(name, source, share, generator, options)
        for share, (_, name) in zip(share_out(count, [weight for weight, _ in parts]), parts, strict=True)
        if share > 0
    ]
    device = learned[0].weights.device
    return Filters(
        torch.cat([filters.weights.to(device) for filters in learned]),
        torch.cat([filters.bias.to(device) for filters in learned]),
    )


def _learn(name: str, source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    bank = find_bank(name)
    filters = bank(source, count, generator, options)
    if not isinstance(filters, Filters):
        raise ConfigError(f"bank {name!r} must return Filters, got an object of type {type(filters).__name__}.")
    wanted = (count, source.channels * source.size**2), (count,)
    if (given := (tuple(filters.weights.shape), tuple(filters.bias.shape))) != wanted:
        raise ConfigError(
            f"bank {name!r} must return weights of shape {wanted[0]} and a bias of shape {wanted[1]}, got {given[0]} "
            f"and {given[1]}."
        )
    if not _is_own(bank) and not bool(filters.weights.isfinite().all() & filters.bias.isfinite().all()):
        raise ConfigError(f"bank {name!r} must return finite filters, got NaN or infinity.")
    return filters
