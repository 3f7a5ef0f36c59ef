"""The training images as a readout compares with them: their features, standardised, of one layer after another."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from ...stages.gaussian_kernel import Standard
from .layerwise_pass import Walk

if TYPE_CHECKING:
    from ...config.network import NetworkConfig
    from ..network import Layer, Network


@dataclass(frozen=True)
class KnownLayer:
    """How features of a layer are standardised, and those of the training images, shape (views, N, D), that are so."""

    standard: Standard
    features: Tensor


@dataclass(frozen=True)
class KnownImages:
    """The training images' features of all layers, kept from one prediction to the next.

    ``config``, ``half`` and ``by`` are what they were computed with: a network's options, precision and layers.
    """

    layers: list[KnownLayer]
    config: NetworkConfig
    half: bool
    by: list[Layer]

    @staticmethod
    def of(network: Network, images: Tensor, mirrored: bool) -> KnownImages:
        """Let training images through the layers, once."""
        walked = walk_known(network, images, mirrored)
        layers = [KnownLayer(known.standard, known.features.clone()) for known in walked]
        return KnownImages(layers, network.config, network.half, list(network.layers))

    def are_of(self, network: Network) -> bool:
        """Return whether this network would have the same features; they know nothing of views to be averaged."""
        same = self.half == network.half and replace(self.config, average=network.config.average) == network.config
        return same and len(self.by) == len(network.layers) and all(map(operator.is_, self.by, network.layers))


def walk_known(network: Network, images: Tensor, mirrored: bool) -> Iterator[KnownLayer]:
    """Let training images through the layers; the features of one are there until the next is asked for."""
    walk = Walk(network, images, mirrored)
    for layer in network.layers:
        features = walk.through(layer)
        standard = Standard.of(features)
        yield KnownLayer(standard, standard.apply_(features))
