"""Deep image classifiers trained without back-propagation: the residual compensation convolutional network (ResCNet).

Examples
--------
As a scikit-learn estimator, and as functions:

>>> from rescnet import ResCNetClassifier, make_config, train
>>> from sklearn.datasets import load_digits
>>> digits = load_digits()
>>> classifier = ResCNetClassifier(n_layers=1).fit(digits.images[:40], digits.target[:40])
>>> classifier.predict(digits.images[1750:]).shape
(47,)
>>> images = digits.images[:, None]  # (1797, 1, 8, 8)
>>> network, history = train(images[:200], digits.target[:200], make_config("digits", layers=2))
>>> network.predict(images[1750:]).shape
torch.Size([47])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config.compute import ComputeOptions
    from .config.network import NetworkConfig
    from .config.presets import make_config, preset_names
    from .estimator import ResCNetClassifier
    from .model import Model
    from .network.network import Network
    from .saving import load_model as load
    from .saving import save_model as save
    from .training.train import train

__all__ = [
    "ComputeOptions",
    "Model",
    "Network",
    "NetworkConfig",
    "ResCNetClassifier",
    "load",
    "make_config",
    "preset_names",
    "save",
    "train",
]
__version__ = "0.4.0"

_HOME = {
    "ComputeOptions": "config.compute.ComputeOptions",
    "Model": "model.Model",
    "Network": "network.network.Network",
    "NetworkConfig": "config.network.NetworkConfig",
    "ResCNetClassifier": "estimator.ResCNetClassifier",
    "load": "saving.load_model",
    "make_config": "config.presets.make_config",
    "preset_names": "config.presets.preset_names",
    "save": "saving.save_model",
    "train": "training.train.train",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use; PyTorch and scikit-learn take seconds to import."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOME[name].rpartition(".")
    found = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return all public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
