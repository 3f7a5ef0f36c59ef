"""Saving of a model while it is trained, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..network.history import History, LayerRecord, ReadoutRecord, StopReason
from ..network.network import Network
from ..saving import InterruptedRun, ModelWriter, check_place
from .listener import Listener
from .memory_plan import MemoryPlan

SECONDS_BETWEEN = 60  # two solutions of the readout that are saved


class ModelSaver(Listener):
    """Writes each layer to the folder of the model when it was added.

    ``about`` are facts about the run, or a function that returns them when the network is known. ``records`` are those
    of the layers written, with those of a ``resumed`` run first. A second network, that of a refit, replaces the first.
    As a context manager it seals the model at the end, also after an error or Ctrl-C.
    """

    def __init__(
        self,
        place: Path,
        labels: NDArray[Any] | Sequence[str],
        about: Mapping[str, Any] | Callable[[Network], Mapping[str, Any]],
        overwrite: bool = False,
        resumed: InterruptedRun | None = None,
    ) -> None:
        if resumed is None:
            check_place(place, overwrite)
        self.place, self._labels, self._about = place, np.asarray(labels), about
        self._overwrite, self._resumed = overwrite, resumed
        self._writer: ModelWriter | None = None
        self._network: Network | None = None
        self.records: list[LayerRecord] = [] if resumed is None else list(resumed.folder.records)
        self._saved = monotonic()  # when the solution of the readout was

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.finish(StopReason.INTERRUPTED)
        elif kind is not None:
            with suppress(OSError):  # e.g. a full disk: the layers of an unsealed model can be loaded too
                self.finish(StopReason.FAILED)

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Prepare the folder; nothing is written yet."""
        if self._writer is not None:  # the network of a refit replaces the first one
            self.records, self._overwrite, self._resumed = [], True, None
        self._network = network
        self._writer = ModelWriter(
            self.place,
            network,
            self._labels[: network.classes],
            self._about(network) if callable(self._about) else self._about,
            overwrite=self._overwrite,
            resumed=self._resumed,
        )

    def started(self, network: Network, history: History) -> None:
        """Write the layers that the run continues from, unless they are in the folder."""
        assert self._writer is not None
        if self._resumed is None:
            for layer, record in zip(network.layers, history, strict=True):
                self.records.append(record)
                self._writer.add_layer(layer, record)

    def layer_added(self, record: LayerRecord) -> None:
        """Write the newest layer."""
        assert self._network is not None and self._writer is not None
        self.records.append(record)  # before the file: an interrupt in between must not lose the record
        self._writer.add_layer(self._network.layers[-1], record)

    def readout_step(self, steps: int, residual: float, solution: Tensor) -> None:
        """Write the solution so far, once a minute, so that an interrupted fit continues from it."""
        assert self._writer is not None
        if monotonic() - self._saved >= SECONDS_BETWEEN:
            self._writer.save_solution(solution)
            self._saved = monotonic()

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Write the readout of the network."""
        network = self._network
        assert network is not None and network.readout is not None and self._writer is not None
        self._writer.add_readout(network.readout, record, network.used_layers)

    def finished(self, history: History) -> None:
        """Seal the model."""
        self.finish(history.stopped)

    @property
    def folder(self) -> Path | None:
        """Folder of the layers written so far; None before the first."""
        return self._writer.folder if self._writer and self._writer.layers else None

    def finish(self, stopped: StopReason | None) -> int:
        """Seal the model and return its number of layers."""
        if self._writer is None:
            return 0
        try:
            self._writer.finish(stopped)
        finally:
            del self.records[self._writer.layers :]
        return self._writer.layers
