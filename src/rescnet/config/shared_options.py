"""What all layers of a network are computed with: it cannot change while the network grows."""

from __future__ import annotations

from collections.abc import Mapping

from .network import NetworkConfig

SHARED_BY_LAYERS = (
    "filters", "filter_size", "first_filter_size", "restart_every", "grey_every", "grey_filter_size", "scaling",
    "block_size", "block_stride", "z_score", "diagonal", "pyramid", "cells", "pooling", "head", "posterior",
    "sigmoid_scale", "softmax_scale", "contrast", "whitening", "whitening_ridge", "rectifier",
    "more_block_sizes", "means", "feature_power", "matrix_root",
    "activation", "border", "dilation", "momentum",
)  # fmt: skip


def check_shared(before: NetworkConfig, after: NetworkConfig, advice: str, names: Mapping[str, str]) -> None:
    """Refuse settings that the layers already learnt do not share, naming the first by ``names``, with advice."""
    for key in SHARED_BY_LAYERS:
        old, new = getattr(before, key), getattr(after, key)
        if old != new:
            raise ValueError(
                f"{names.get(key, key)} was {old!r} and is {new!r} now, but all layers share it: leave it as it was, "
                f"or {advice}."
            )
