"""When a network is deep enough, and at which depth it is used then: one rule for Python, files and commands."""

from __future__ import annotations

from ..config.network import NetworkConfig
from .history import History

NO_TRAINING_ERROR = "no training image is wrong"


def reason_to_stop(config: NetworkConfig, history: History) -> str:
    """Return why no layer is to be added after those of a history; nothing where one is."""
    if len(history) and config.stop_at_zero_error and history[-1].train_accuracy == 1:
        return NO_TRAINING_ERROR
    if len(history) >= config.layers:
        return enough_layers(config.layers)
    if config.patience and history.layers_since_best() >= config.patience:
        return f"validation accuracy has not risen for {config.patience} layer{'s' if config.patience > 1 else ''}"
    return ""


def enough_layers(layers: int) -> str:
    """Return what a run says that stops at the depth it was asked for."""
    return "1 layer was asked for" if layers == 1 else f"{layers} layers were asked for"


def depth_to_use(config: NetworkConfig, history: History) -> int | None:
    """Return how many layers a prediction goes through: with patience the best on validation images; None: all.

    However the run ended: who asks for patience lets validation images choose the depth.
    """
    return history.best_layer() if config.patience and len(history) else None
