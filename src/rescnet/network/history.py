"""Records of a run, one per layer and one of the readout, and the rules of depth that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import nan
from typing import TYPE_CHECKING

from ..base.errors import ConfigError
from ..base.text import count
from ..config.network import NetworkConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StopReason(StrEnum):
    """Reasons why a run has stopped; the value completes the sentence "stopped because ..."."""

    DEPTH = "all layers were added"
    ZERO_ERROR = "no training image is wrong"
    PATIENCE = "the validation accuracy no longer rises"
    DEADLINE = "the time limit was reached"
    TIME = "the time limit leaves no time for another layer"
    INTERRUPTED = "it was interrupted"
    FAILED = "an error occurred"

    @property
    def is_complete(self) -> bool:
        """True if the run ended by its own rules: a rule of depth, not a limit or an error."""
        return self in (StopReason.DEPTH, StopReason.ZERO_ERROR, StopReason.PATIENCE, StopReason.TIME)

    @staticmethod
    def early(text: object) -> str:
        """Return the reason if a run stopped before all layers were added; else, or without a reason, nothing."""
        return "" if text == StopReason.DEPTH else str(text or "")

    @staticmethod
    def read(text: object) -> StopReason | None:
        """Return the reason with this text; None for any other text, e.g. of a later version."""
        return next((reason for reason in StopReason if reason == text), None)


@dataclass(frozen=True)
class ReadoutRecord:
    """Accuracies with the readout, as a fraction of 1; None where there are no such images."""

    validation_accuracy: float | None = None
    test_accuracy: float | None = None
    loo_accuracy: float | None = None  #: leave-one-out accuracy of the training images
    images: int | None = None  #: training images
    ridge: float | None = None  #: the ε used
    seconds: float = 0.0  #: to fit the readout and to predict the validation and test images
    layers: int | None = None  #: that the readout compares; None means all
    steps: int = 0  #: of conjugate gradients; 0 if one factor solved the readout exactly
    residual: float = 0.0  #: largest relative residual after these steps


@dataclass(frozen=True)
class LayerRecord:
    """Record of one added layer.

    Accuracies are those of the network up to this layer, as a fraction of 1; None where there are no such images.
    """

    layer: int  #: counted from 1
    train_accuracy: float
    validation_accuracy: float | None
    test_accuracy: float | None
    positive_share: float  #: n_p/N: fraction of images whose largest residual is positive
    rate: float  #: learning rate α
    ridge: float  #: the γ used: more than the option's where the factorisation failed
    seconds: dict[str, float]  #: by stage
    peak_memory: int  #: bytes of the process (on a CPU) or of the allocator (on a GPU)
    memory: dict[str, int] = field(default_factory=dict)  #: the same, by stage

    @property
    def total_seconds(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


@dataclass(repr=False)
class History:
    """Records of a run, in order."""

    records: list[LayerRecord] = field(default_factory=list)
    stopped: StopReason | None = None  #: None while the run is under way
    readout: ReadoutRecord | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[LayerRecord]:
        return iter(self.records)

    def __repr__(self) -> str:
        content = count(len(self), "layer", "layers") + (" and a readout" if self.readout else "")
        return f"History({content}; {self.stopped})" if self.stopped else f"History({content})"

    def __getitem__(self, index: int) -> LayerRecord:
        return self.records[index]

    @property
    def left_out(self) -> tuple[float, int] | None:
        """Leave-one-out accuracy of the readout and the number of its images; None if it is not known."""
        readout = self.readout
        if readout is None or readout.loo_accuracy is None or not readout.images:
            return None
        return readout.loo_accuracy, readout.images

    def best_layer(self) -> int:
        """Return the layer (from 1) with the best validation accuracy, the earliest of equals; without, the last."""
        scored = [r for r in self.records if r.validation_accuracy is not None]
        if not scored:
            return len(self.records)
        return max(scored, key=lambda r: (r.validation_accuracy, -r.layer)).layer

    def layers_since_best(self) -> int:
        """Return the number of layers added since the best validation accuracy."""
        return len(self.records) - self.best_layer()

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the accuracies after each layer, and stars for those with the readout; needs matplotlib.

        The readout's star of the training images is their leave-one-out accuracy.

        Parameters
        ----------
        axes : Axes, optional
            Matplotlib axes to draw on; by default those of a new figure.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ConfigError("plot needs matplotlib. Use pip install matplotlib.") from None
        if axes is None:
            axes = plt.figure(figsize=(7, 3.6), layout="constrained").add_subplot()
        readout, layers = self.readout or ReadoutRecord(), [record.layer for record in self.records]
        ticks, end = layers[:: max(1, -(-len(layers) // 8))], len(layers) + 1
        splits = (
            ("training", "train_accuracy", readout.loo_accuracy),
            ("validation", "validation_accuracy", readout.validation_accuracy),
            ("test", "test_accuracy", readout.test_accuracy),
        )
        for colour, (split, entry, star) in enumerate(splits):
            shares = [getattr(record, entry) for record in self.records]
            if any(share is not None for share in shares):
                percent = [nan if share is None else 100 * share for share in shares]
                axes.plot(layers, percent, ".-", color=f"C{colour}", label=split)
            if star is not None:
                label = "training, leave-one-out" if split == "training" else f"{split}, with the readout"
                axes.plot(end, 100 * star, "*", color=f"C{colour}", label=label)
        if self.readout:
            axes.set_xticks([*ticks, end], [*map(str, ticks), "readout"])
        else:
            axes.set_xticks(ticks)
        axes.set(xlabel="layer", ylabel="accuracy, %")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize="small", frameon=False)
        return axes


def reason_to_stop(config: NetworkConfig, history: History) -> StopReason | None:
    """Return the reason to add no further layer; None if one is to be added."""
    if len(history) and config.stop_at_zero_error and history[-1].train_accuracy == 1:
        return StopReason.ZERO_ERROR
    if len(history) >= config.layers:
        return StopReason.DEPTH
    if config.patience and history.layers_since_best() >= config.patience:
        return StopReason.PATIENCE
    return None


def layers_to_use(config: NetworkConfig, history: History) -> int:
    """Return the number of layers for prediction: with early stopping the best validation depth, else all.

    The best depth is used however the run ended.
    """
    return history.best_layer() if config.patience else len(history)
