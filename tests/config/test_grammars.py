"""Mixtures of filter banks, and augmentations, read from text."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from rescnet import NetworkConfig
from rescnet.config import grammars
from rescnet.config.grammars import (
    Augmentation,
    NotEnoughFiltersError,
    bank_of_layer,
    check_components,
    parse_mixture,
    share_out,
)
from rescnet.stages.filters import find_bank


def test_known_banks_are_the_registered_ones(monkeypatch):
    """The names as they are written down, in a copy of the module: registering a bank adds to them."""
    spec = importlib.util.find_spec(grammars.__name__)
    copy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, grammars.__name__, copy)  # a dataclass looks its module up
    spec.loader.exec_module(copy)
    registered = {name for name in grammars.BANKS if find_bank(name).__module__.startswith("rescnet.")}
    assert set(copy.BANKS) == registered


@pytest.mark.parametrize(
    ("count", "weights", "expected"), [(50, [0.5, 0.5], [25, 25]), (7, [0.75, 0.25], [5, 2]), (5, [0.5, 0.5], [3, 2])]
)
def test_filters_are_divided_by_weight(count, weights, expected):
    assert share_out(count, weights) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pcaa", r"bank must be one of .*, got 'pcaa'\. Did you mean 'pca'\?"),
        ("pca +", "bank must be a mixture, .* got 'pca \\+'"),
        ("x pca", "bank must be a mixture"),
        ("-1 pca", "bank must be a mixture"),
    ],
)
def test_unreadable_mixtures_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_mixture(text)


def test_banks_by_layer():
    assert [bank_of_layer("pca", layer) for layer in (1, 5)] == ["pca", "pca"]
    with pytest.raises(ValueError, match=r"got 'dctt'\. Did you mean 'dct'\?"):
        NetworkConfig(bank="pca; dctt")
    with pytest.raises(ValueError, match="bank must be a mixture"):
        NetworkConfig(bank="pca;")


@pytest.mark.parametrize(("bank", "most"), [("pca", 27), ("dct", 26), ("lda", 27)])
def test_more_directions_than_dimensions_are_refused(bank, most):
    check_components(f"{bank} + stacked-lda", 2 * most, 27, "filter_size")
    with pytest.raises(NotEnoughFiltersError, match=rf"at most {most} {bank.upper()} filters .* a larger filter_size"):
        check_components(f"{bank} + stacked-lda", 2 * most + 1, 27, "filter_size")


def test_changes_are_read_in_any_order():
    expected = Augmentation(flip=True, shift=2, rotate=7.5, jitter=0.1)
    assert Augmentation.parse("flip + shift 2 + rotate 7.5 + jitter 0.1") == expected
    assert Augmentation.parse("jitter 0.1+rotate 7.5  + flip + shift 2") == expected
    assert Augmentation.parse(" ") == Augmentation()
    assert expected.is_random and not Augmentation.parse("flip").is_random


@pytest.mark.parametrize("text", ["flop", "flip 2", "shift", "shift 1.5", "rotate 0", "shift -1", "+", "rotate x"])
def test_unreadable_changes_are_refused(text):
    with pytest.raises(ValueError, match=r"augment must be a list of changes, e\.g\. 'flip"):
        Augmentation.parse(text)


def test_too_large_and_repeated_changes_are_refused():
    with pytest.raises(ValueError, match="jitter must be at most 1, got 2 in 'jitter 2'"):
        Augmentation.parse("jitter 2")
    with pytest.raises(ValueError, match="augment must name each change once, got flip twice"):
        Augmentation.parse("flip + flip")


def test_predictions_are_not_averaged_over_rotations():
    with pytest.raises(ValueError, match="test_views must be flips and shifts only"):
        Augmentation.parse("rotate 5").views()
