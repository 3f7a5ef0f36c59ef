"""Options of earlier versions: renamed, removed, and in models of format 1."""

from __future__ import annotations

import pytest

from rescnet import NetworkConfig
from rescnet.config.option import options_of
from rescnet.config.presets import make_config
from rescnet.config.removed import LAST_COMMIT, REMOVED, RENAMED, explain_removed, last_commit, upgrade_config


def test_the_lists_name_no_option_of_today():
    known = set(options_of(NetworkConfig))
    assert set(RENAMED.values()) <= known
    assert not (set(RENAMED) | set(REMOVED) | {"copy_residuals"}) & known


@pytest.mark.parametrize("old", RENAMED)
def test_a_renamed_keyword_names_the_new_one(old, tmp_path):
    message = rf"option names must be known, got {old!r} in .*\. It is called {RENAMED[old]!r} now\.$"
    with pytest.raises(ValueError, match=message):
        make_config("digits", **{old: 16})
    file = tmp_path / "mine.toml"
    file.write_text(f"{old} = 16\n")
    with pytest.raises(ValueError, match=message):
        make_config("digits", file)


@pytest.mark.parametrize("old", sorted(set(REMOVED) - {"matrix_root"}))
def test_a_removed_keyword_names_the_last_commit(old):
    message = rf"got {old!r} in keywords\. It was removed; the last commit that has it is ad30d1c\.$"
    with pytest.raises(ValueError, match=message):
        make_config("digits", **{old: REMOVED[old]})


def test_a_replaced_keyword_names_the_new_one():
    message = (
        r"got 'matrix_root' in keywords\. It was replaced by 'matrix_log'; the last commit that has it is 0e1a9a3\.$"
    )
    with pytest.raises(ValueError, match=message):
        make_config("digits", matrix_root=True)


def test_other_names_are_explained_by_nothing():
    assert explain_removed("filters") == explain_removed("nonsense") == ""


def test_format_1_options_are_renamed():
    old = {
        "layers": 7, "block_size": 12, "more_block_sizes": [20], "restart_every": 3, "grey_every": 2, "average": "flip",
        "cells": "adaptive", "draw_sides": "both", "filter_bias": "lda", "second_look": True, "readout": "kernel",
        "posterior": "sigmoid-shares", "pyramid": [2, 1],
    }  # fmt: skip
    assert NetworkConfig(**upgrade_config(old)) == NetworkConfig(
        layers=7, block_sizes=(12, 20), stack_depth=3, grey_stack_every=2, test_views="flip", pyramid_bins="adaptive",
        stacked_lda_signs="both", stacked_lda_bias="lda", loo_correction=True, readout="kernel",
        posterior="normalised-sigmoid", pyramid=(2, 1), pca_bias="none",
    )  # fmt: skip


def test_one_block_size_of_format_1():
    assert upgrade_config({"block_size": 8, "more_block_sizes": []})["block_sizes"] == [8]
    assert upgrade_config({"block_size": 8})["block_sizes"] == [8]


def test_todays_options_stay():
    config = make_config("cifar100", ridge=0.25)
    assert NetworkConfig(**upgrade_config(config.to_dict())) == config


def test_removed_options_at_their_default_are_dropped():
    assert upgrade_config(REMOVED | {"filters": 5, "copy_residuals": "shared"}) == {"pca_bias": "none", "filters": 5}


@pytest.mark.parametrize("name", sorted(set(REMOVED) - {"whitening_ridge"}))
def test_other_values_of_removed_options_are_an_error(name):
    assert (LAST_COMMIT, last_commit("matrix_root")) == ("ad30d1c", "0e1a9a3")
    message = rf"^{name} must be .*, got 'else'\. Read the model with rescnet at commit {last_commit(name)}"
    with pytest.raises(ValueError, match=message):
        upgrade_config({name: "else"})


def test_a_partner_of_a_removed_option_may_have_any_value():
    """Without whitening its ridge changes nothing."""
    assert upgrade_config({"whitening": 0, "whitening_ridge": 7.0}) == {"pca_bias": "none"}
    with pytest.raises(ValueError, match="whitening must be 0, got 3"):
        upgrade_config({"whitening": 3, "whitening_ridge": 0.1})
