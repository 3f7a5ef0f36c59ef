"""Options of earlier versions: their new names, or the last commit that has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LAST_COMMIT = "ad30d1c"  # the last commit with the removed options, except these
LAST_COMMITS = {"matrix_root": "0e1a9a3"}

RENAMED = {
    "average": "test_views",
    "block_size": "block_sizes",
    "cells": "pyramid_bins",
    "draw_sides": "stacked_lda_signs",
    "filter_bias": "stacked_lda_bias",
    "grey_every": "grey_stack_every",
    "more_block_sizes": "block_sizes",
    "restart_every": "stack_depth",
    "second_look": "loo_correction",
}
REMOVED: dict[str, Any] = {  # with the value that today's networks behave like
    "activation": "none",
    "border": "zero",
    "centring": "mean-patch",
    "contrast": 0,
    "diagonal": "auto",
    "dilation": 1,
    "draw_from": "all",
    "feature_power": 1.0,
    "filter_labels": "image",
    "filter_length": "unit",
    "gram": "auto",
    "grey_filter_size": 7,
    "margin_weights": 0.0,
    "matrix_root": False,
    "means": False,
    "momentum": 0.0,
    "most_draws": 100_000,
    "patch_ridge": 0.1,
    "patch_samples": 0,
    "prior": "empirical",
    "rate_on_first_layer": True,
    "ridge_growth": 1.0,
    "shrinkage": "ridge",
    "sign_samples": "all",
    "standardise": True,
    "step": "fixed",
    "whitening": 0,
    "whitening_ridge": 0.1,
    "z_score": "channel",
}
_ANY_VALUE = {"copy_residuals", "whitening_ridge"}  # they change training only, or nothing without their partner


def explain_removed(name: str) -> str:
    """Return a sentence about an option of an earlier version; empty for a name that never was one."""
    if name in RENAMED:
        return f"It is called {RENAMED[name]!r} now."
    if name == "copy_residuals":
        return "It was removed: copies always learn their own residual."
    if name == "matrix_root":
        return f"It was replaced by 'matrix_log'; the last commit that has it is {last_commit(name)}."
    return f"It was removed; the last commit that has it is {last_commit(name)}." if name in REMOVED else ""


def last_commit(name: str) -> str:
    """Return the last commit that has a removed option."""
    return LAST_COMMITS.get(name, LAST_COMMIT)


def upgrade_config(old: Mapping[str, Any], version: int = 1) -> dict[str, Any]:
    """Return the options of a model of an earlier format under today's names.

    ValueError says if a removed option has another value than today's networks behave like.
    """
    new: dict[str, Any] = {"pca_bias": "none"} if version == 1 else {}  # files from before this option
    for name, value in old.items():
        if name in _ANY_VALUE or name == "more_block_sizes":
            continue
        if name in REMOVED:
            if value != REMOVED[name]:
                raise ValueError(
                    f"{name} must be {REMOVED[name]!r}, got {value!r}. Read the model with rescnet at commit "
                    f"{last_commit(name)}, the last one with this option."
                )
        elif name == "block_size":
            new["block_sizes"] = [value, *old.get("more_block_sizes", ())]
        else:
            shares = (name, value) == ("posterior", "sigmoid-shares")
            new[RENAMED.get(name, name)] = "normalised-sigmoid" if shares else value
    return new
