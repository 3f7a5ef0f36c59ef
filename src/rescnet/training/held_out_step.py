"""How far to go along a layer's correction, found on images it was not learnt from; beyond the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..network.network import Layer, Network
from ..stages.residual import line_search, one_hot, residual
from .distributed.workers import Workers
from .stopwatch import Stopwatch
from .stream import Split


def choose_step(
    network: Network,
    layer: Layer,
    split: Split,
    new_maps: Iterator[tuple[slice, Tensor]],
    watch: Stopwatch,
    workers: Workers,
) -> tuple[Layer, Tensor]:
    """Multiply a layer's rate by the share of its correction, within [0, 1], that is best for the images held out.

    Parameters
    ----------
    layer : Layer
        With its heads.
    split : Split
        The images held out, with the output before the layer.
    new_maps : iterator of (slice, Tensor)
        Their maps of the layer, chunk by chunk.

    Returns
    -------
    layer : Layer
        With the rate found: prediction needs nothing else.
    corrections : Tensor, shape (n, classes)
        What the layer would add to each output at rate 1; ``ahead + rate·correction`` is its update to the last bit.
    """
    whole, corrections = replace(layer, rate=1.0), torch.zeros_like(split.output)
    for part, maps in new_maps:
        with watch.time("pooling"):
            features = network.features(maps)
        with watch.time("update"):
            corrections[part] = network.update(whole, corrections[part], features)
    with watch.time("update"):
        sums = line_search(*errors(split, corrections, network.config.ceiling))
        workers.add_up(sums)
        share = min(max(float(sums[0] / sums[1]), 0.0), 1.0) if float(sums[1]) > 0 else 0.0
    return replace(layer, rate=layer.rate * share), corrections


def errors(split: Split, corrections: Tensor, ceiling: float) -> tuple[Tensor, Tensor]:
    """Return R before a layer and what it would add, both (images, classes): the means over an image's views."""
    of_images = (-1, split.copies, corrections.shape[1])
    ahead = split.ahead(slice(None)).view(of_images).mean(1)
    wanted = residual(one_hot(split.labels[:: split.copies], ahead.shape[1], ahead.dtype), ahead, ceiling)
    return wanted, corrections.view(of_images).mean(1)
