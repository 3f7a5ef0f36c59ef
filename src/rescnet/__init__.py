"""Deep image classifiers trained without back-propagation: the residual compensation convolutional network (ResCNet).

Examples
--------
>>> from rescnet import make_config, train
>>> from sklearn.datasets import load_digits
>>> digits = load_digits()
>>> images = digits.images[:, None]  # (1797, 1, 8, 8)
>>> network, history = train(images[:1500], digits.target[:1500], make_config("digits", layers=3))
>>> network.predict(images[1500:]).shape
torch.Size([297])
"""

from .config import ComputeOptions, NetworkConfig, make_config, preset_names
from .network import Layer, Network
from .training.history import History, LayerRecord
from .training.trainer import train

__all__ = [
    "ComputeOptions",
    "History",
    "Layer",
    "LayerRecord",
    "Network",
    "NetworkConfig",
    "make_config",
    "preset_names",
    "train",
]
__version__ = "0.1.0"
