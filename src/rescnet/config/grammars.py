"""Grammars of options that are text: mixtures of filter banks, and augmentations.

A mixture joins bank names by ``+``, e.g. ``"3 pca + 1 stacked-lda"``. Mixtures separated by ``;`` are used by the first
layers of a stack in turn; the last one is used by all further layers. An augmentation joins changes of images, e.g.
``"flip + shift 2 + rotate 10 + jitter 0.1"``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..base.errors import ConfigError, DataError
from ..base.text import check_known


class ClassSums(NamedTuple):
    """Sums over each class's patches that a bank is solved from: what they take per class."""

    sets: int  # that its images are divided into
    outers: int  # copies of Σ p pᵀ: sums, means and intermediate results
    places: int  # copies of Σ p by position


class Bank(NamedTuple):
    """A filter bank: what is needed before it learns, and the function that learns, once that is imported."""

    directions: str = ""  # name of its filters, if they are linearly independent directions of the patch space
    class_sums: ClassSums | None = None
    learn: Callable[..., Any] | None = None  # set by ``register_bank``


BANKS = {  # ``register_bank`` adds those of other packages
    "canonical": Bank("canonical", ClassSums(2, 6, 1)),
    "cca": Bank(),
    "dct": Bank("DCT"),
    "ica": Bank("ICA"),
    "lda": Bank("LDA", ClassSums(1, 4, 3)),
    "orthogonal-subspace": Bank("", ClassSums(1, 6, 1)),
    "patches": Bank(),
    "pca": Bank("PCA"),
    "random": Bank(),
    "stacked-lda": Bank(),
}


class NotEnoughFiltersError(ConfigError):
    """Request for more filters than a bank can find in its patches."""


def check_bank(name: str) -> None:
    """Raise ValueError if no bank has this name."""
    try:
        check_known("bank", name, sorted(BANKS))
    except ValueError as error:
        raise ConfigError(f"{error} Import the file that registers it, if it is your own.") from None


@cache
def parse_mixture(mixture: str) -> tuple[tuple[float, str], ...]:
    """Return the share and the name of each bank of a mixture.

    Examples
    --------
    >>> parse_mixture("pca + stacked-lda")
    ((0.5, 'pca'), (0.5, 'stacked-lda'))
    >>> parse_mixture("3 pca + 1 stacked-lda")
    ((0.75, 'pca'), (0.25, 'stacked-lda'))
    """
    parts = []
    for term in mixture.split("+"):
        words = term.split()
        try:
            weight = float(words[0]) if len(words) == 2 else 1.0
        except ValueError:
            weight = -1.0
        if len(words) not in (1, 2) or not 0 < weight <= 1e6:
            raise ConfigError(f"bank must be a mixture, e.g. 'pca' or '3 pca + 1 stacked-lda', got {mixture!r}.")
        check_bank(words[-1])
        parts.append((weight, words[-1]))
    total = sum(weight for weight, _ in parts)
    return tuple((weight / total, name) for weight, name in parts)


def class_sums_of(mixture: str) -> list[ClassSums]:
    """Return the sums over each class's patches of a mixture's banks; these banks write patches out."""
    facts = (BANKS[name].class_sums for _, name in parse_mixture(mixture))
    return [sums for sums in facts if sums is not None]


def bank_of_layer(banks: str, layer: int) -> str:
    """Return the mixture of a layer, counted from 1.

    Examples
    --------
    >>> [bank_of_layer("dct; 3 pca + 1 ica", layer) for layer in (1, 2, 9)]
    ['dct', '3 pca + 1 ica', '3 pca + 1 ica']
    """
    mixtures = [mixture.strip() for mixture in banks.split(";")]
    return mixtures[min(layer, len(mixtures)) - 1]


def check_banks(banks: str) -> None:
    """Raise ValueError if a mixture cannot be read."""
    for mixture in banks.split(";"):
        parse_mixture(mixture)


def check_components(mixture: str, count: int, dimension: int, size_option: str) -> None:
    """Raise an error if ``count`` filters of a mixture need more directions than a patch has dimensions.

    The message names ``size_option``, the option that sets the patch size, if there is one.
    """
    parts = parse_mixture(mixture)
    for share, (_, name) in zip(share_out(count, [weight for weight, _ in parts]), parts, strict=True):
        most = dimension - 1 if name == "dct" else dimension  # the DCT's constant filter is left out
        kind = BANKS[name].directions
        if kind and share > most:
            found = f"{share}" if share == count else f"{share} of {count}"
            larger = f" or a larger {size_option}" if size_option else ""
            raise NotEnoughFiltersError(
                f"filters must be at most {most} {kind} filters for patches of {dimension} numbers, got {found}. "
                f"Use fewer filters{larger}."
            )


def share_out(count: int, weights: list[float]) -> list[int]:
    """Divide ``count`` filters by weight, largest remainders first, so that they add up."""
    exact = [count * weight for weight in weights]
    whole = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda index: whole[index] - exact[index])
    for index in by_remainder[: count - sum(whole)]:
        whole[index] += 1
    return whole


View = tuple[bool, int, int]  # of an image: mirrored, pixels down, pixels right
MIRROR: View = (True, 0, 0)
MOST_COPIES = 1000
LARGEST = {"flip": 1, "shift": 64, "rotate": 180, "jitter": 1}


@dataclass(frozen=True)
class Augmentation:
    """Random changes of copies of training images."""

    flip: bool = False  # mirror every second copy, left to right
    shift: int = 0  # largest shift in pixels, in each direction; the border is repeated
    rotate: float = 0.0  # largest rotation in degrees, either way
    jitter: float = 0.0  # largest relative change of contrast and of each channel

    @staticmethod
    @cache
    def parse(text: str, option: str = "augment") -> Augmentation:
        """Read a list of changes; errors name the ``option``.

        Examples
        --------
        >>> Augmentation.parse("flip + shift 2")
        Augmentation(flip=True, shift=2, rotate=0.0, jitter=0.0)
        """
        found: dict[str, float] = {}
        for term in text.split("+") if text.strip() else ():
            name, *amount = term.split() or [""]
            value = _amount(name, amount)
            if name in found:
                raise ConfigError(f"{option} must name each change once, got {name} twice in {text!r}.")
            if name in LARGEST and amount and value > LARGEST[name]:
                raise DataError(f"{name} must be at most {LARGEST[name]}, got {value:g} in {text!r}.")
            if name not in LARGEST or not value > 0 or (name == "shift" and value % 1):
                others = "" if option == "test_views" else " + rotate 10 + jitter 0.1"
                raise ConfigError(f"{option} must be a list of changes, e.g. 'flip + shift 2{others}', got {text!r}.")
            found[name] = value
        return Augmentation(
            "flip" in found, int(found.get("shift", 0)), found.get("rotate", 0.0), found.get("jitter", 0.0)
        )

    @staticmethod
    @cache
    def parse_copies(text: str) -> tuple[int, Augmentation]:
        """Read the number of copies, by default one, and their changes.

        Examples
        --------
        >>> Augmentation.parse_copies("4 shift 2")[0], Augmentation.parse_copies("")[0]
        (4, 0)
        """
        first, _, rest = text.strip().partition(" ")
        if first.isdecimal() and 0 < int(first) <= MOST_COPIES:
            return int(first), Augmentation.parse(rest, "kernel_copies")
        return int(bool(first)), Augmentation.parse(text, "kernel_copies")

    @property
    def is_random(self) -> bool:
        """True if two copies of an image can differ by more than a flip."""
        return bool(self.shift or self.rotate or self.jitter)

    def views(self) -> list[View]:
        """Return the views that predictions are averaged over; the unchanged image is the first."""
        if self.rotate or self.jitter:
            raise ConfigError("test_views must be flips and shifts only. Leave rotate and jitter out.")
        ways = ((-1, 0), (1, 0), (0, -1), (0, 1)) if self.shift else ()
        places = [(0, 0), *((self.shift * down, self.shift * right) for down, right in ways)]
        return [(flip, *place) for flip in ((False, True) if self.flip else (False,)) for place in places]


def _amount(name: str, words: list[str]) -> float:
    """Return the number after a change's name; 1 for a flip, and 0 for what cannot be read."""
    if name == "flip":
        return float(not words)
    try:
        return float(words[0]) if len(words) == 1 else 0.0
    except ValueError:
        return 0.0
