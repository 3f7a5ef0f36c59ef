"""Rules of depth: when training stops, and how many layers a prediction uses."""

from __future__ import annotations

from ..config.network import NetworkConfig
from .history import History, StopReason


def reason_to_stop(config: NetworkConfig, history: History) -> StopReason | None:
    """Return the reason to add no further layer; None if one is to be added."""
    if len(history) and config.stop_at_zero_error and history[-1].train_accuracy == 1:
        return StopReason.ZERO_ERROR
    if len(history) >= config.layers:
        return StopReason.DEPTH
    if config.patience and history.layers_since_best() >= config.patience:
        return StopReason.PATIENCE
    return None


def depth_to_use(config: NetworkConfig, history: History) -> int | None:
    """Return the number of layers for prediction: with early stopping the best validation depth; None means all.

    The best depth is used however the run ended.
    """
    return history.best_layer() if config.patience and len(history) else None
