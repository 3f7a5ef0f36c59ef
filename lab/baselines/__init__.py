"""Networks of the paper's Table 2 that are trained by gradients: small, plain PyTorch, for comparison only.

They are trained by back-propagation and are no part of the package. Where one differs from its paper its file says so:
batch normalisation stands in for the older normalisations and careful initialisation, so that all train in a few dozen
epochs with one recipe.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from rescnet.experiments.baselines import resnet18

from .maxout import MaxoutNetwork
from .network_in_network import NetworkInNetwork
from .stochastic_pooling import StochasticPoolingNetwork

NETWORKS: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    "resnet18": resnet18,
    "network-in-network": NetworkInNetwork,
    "maxout": MaxoutNetwork,
    "stochastic-pooling": StochasticPoolingNetwork,
}

LEARNING_RATES = {"resnet18": 0.2, "network-in-network": 0.1, "maxout": 0.1, "stochastic-pooling": 0.1}
"""The greatest learning rate each is trained with at 512 images a batch, unless another is given."""

LABELS = {
    "resnet18": "ResNet-18",
    "network-in-network": "Network in Network",
    "maxout": "Maxout network",
    "stochastic-pooling": "stochastic pooling",
}
"""Names for tables."""

__all__ = [
    "LABELS",
    "LEARNING_RATES",
    "NETWORKS",
    "MaxoutNetwork",
    "NetworkInNetwork",
    "StochasticPoolingNetwork",
    "resnet18",
]
