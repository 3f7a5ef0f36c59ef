"""Deep image classifiers trained without back-propagation: the residual compensation convolutional network (ResCNet).

Examples
--------
As a scikit-learn estimator, and as functions:

>>> from rescnet import ResCNetClassifier, make_config, train
>>> from sklearn.datasets import load_digits
>>> digits = load_digits()
>>> classifier = ResCNetClassifier(n_layers=1).fit(digits.images[:1500], digits.target[:1500])
>>> classifier.predict(digits.images[1500:]).shape
(297,)
>>> images = digits.images[:, None]  # (1797, 1, 8, 8)
>>> network, history = train(images[:1500], digits.target[:1500], make_config("digits", layers=3))
>>> network.predict(images[1500:]).shape
torch.Size([297])
"""

from typing import TYPE_CHECKING, Any

from .config import ComputeOptions, NetworkConfig, make_config, preset_names
from .model_files import load_model, save_model
from .network import Network
from .training.history import History
from .training.trainer import train

if TYPE_CHECKING:
    from .estimator import ResCNetClassifier

__all__ = [
    "ComputeOptions",
    "History",
    "Network",
    "NetworkConfig",
    "ResCNetClassifier",
    "load_model",
    "make_config",
    "preset_names",
    "save_model",
    "train",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the estimator when it is asked for: scikit-learn takes as long to load as everything else."""
    if name == "ResCNetClassifier":
        from .estimator import ResCNetClassifier

        return ResCNetClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
