"""A trained network on one self-contained HTML page: how it works, what it gets wrong, which layers put it right."""

from .model_view import TrainedModel
from .writing import write_report

__all__ = ["TrainedModel", "write_report"]
