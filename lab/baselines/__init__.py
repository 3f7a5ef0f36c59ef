"""Networks trained by gradients, a small CNN and those of the paper's Table 2: plain PyTorch, for comparison only.

They are no part of the package. Where one differs from its paper its file says so:
batch normalisation stands in for the older normalisations and careful initialisation, so that all train in a few dozen
epochs with one recipe.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from .convolutional import resnet18, small_cnn
from .maxout import MaxoutNetwork
from .network_in_network import NetworkInNetwork
from .stochastic_pooling import StochasticPoolingNetwork

NETWORKS: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    "cnn": small_cnn,
    "resnet18": resnet18,
    "network-in-network": NetworkInNetwork,
    "maxout": MaxoutNetwork,
    "stochastic-pooling": StochasticPoolingNetwork,
}

LEARNING_RATES = {"cnn": 0.1, "resnet18": 0.2, "network-in-network": 0.1, "maxout": 0.1, "stochastic-pooling": 0.1}
"""The greatest learning rate each is trained with at 512 images a batch, unless another is given."""

LABELS = {
    "cnn": "small CNN",
    "resnet18": "ResNet-18",
    "network-in-network": "Network in Network",
    "maxout": "Maxout network",
    "stochastic-pooling": "stochastic pooling",
}
"""Names for tables."""
