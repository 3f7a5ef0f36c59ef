"""Deep image classifiers trained without back-propagation: the residual compensation convolutional network (ResCNet).

Examples
--------
As a scikit-learn estimator, and as a function:

>>> from rescnet import Config, ResCNetClassifier, train
>>> from sklearn.datasets import load_digits
>>> digits = load_digits()
>>> classifier = ResCNetClassifier(n_layers=1).fit(digits.images[:40], digits.target[:40])
>>> classifier.predict(digits.images[1750:]).shape
(47,)
>>> images = digits.images[:, None]  # (1797, 1, 8, 8)
>>> model = train(images[:200], digits.target[:200], Config("digits", layers=2))
>>> model.predict(images[1750:]).shape
(47,)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base.version import __version__ as __version__

if TYPE_CHECKING:
    from .base.errors import ConfigError, DataError, ModelFileError, RescnetError
    from .config.choices import Config
    from .config.compute import ComputeOptions
    from .config.network import NetworkConfig
    from .config.presets import preset_names
    from .estimator import ResCNetClassifier
    from .explain.explanation import Explanation
    from .export import export_onnx, export_program
    from .model import Model
    from .network.history import History
    from .network.network import Network
    from .report import write_report
    from .saving import load_model as load
    from .saving import save_model as save
    from .training.fitting import Interrupted
    from .training.train import train

__all__ = [
    "ComputeOptions",
    "Config",
    "ConfigError",
    "DataError",
    "Explanation",
    "History",
    "Interrupted",
    "Model",
    "ModelFileError",
    "Network",
    "NetworkConfig",
    "ResCNetClassifier",
    "RescnetError",
    "export_onnx",
    "export_program",
    "load",
    "preset_names",
    "save",
    "train",
    "write_report",
]

_HOME = {
    "ComputeOptions": "config.compute.ComputeOptions",
    "Config": "config.choices.Config",
    "ConfigError": "base.errors.ConfigError",
    "DataError": "base.errors.DataError",
    "Explanation": "explain.explanation.Explanation",
    "History": "network.history.History",
    "Interrupted": "training.fitting.Interrupted",
    "Model": "model.Model",
    "ModelFileError": "base.errors.ModelFileError",
    "Network": "network.network.Network",
    "NetworkConfig": "config.network.NetworkConfig",
    "ResCNetClassifier": "estimator.ResCNetClassifier",
    "RescnetError": "base.errors.RescnetError",
    "export_onnx": "export.export_onnx",
    "export_program": "export.export_program",
    "load": "saving.load_model",
    "preset_names": "config.presets.preset_names",
    "save": "saving.save_model",
    "train": "training.train.train",
    "write_report": "report.write_report",
}
_RENAMED = {"make_config": "Config"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use; PyTorch and scikit-learn take seconds to import."""
    if name not in _HOME:
        now = f" Use rescnet.{_RENAMED[name]}." if name in _RENAMED else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{now}")
    module, _, attribute = _HOME[name].rpartition(".")
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
