"""HTML report of a trained network: how it works, what it gets wrong, and which layers correct it."""

from .model_view import TrainedModel
from .page import write_report

__all__ = ["TrainedModel", "write_report"]
