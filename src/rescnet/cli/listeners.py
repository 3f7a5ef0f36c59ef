"""Listeners of a training run: one that saves the layers, one that prints JSON, and a list of several."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from ..model_files import ModelWriter
from ..network.history import LayerRecord, ReadoutRecord, StopReason
from ..network.network import Network
from ..training.memory_plan import MemoryPlan
from ..training.train import Listener


class Listeners:
    """Several listeners, informed in order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.listeners = listeners

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Forward the plan."""
        for listener in self.listeners:
            listener.planned(network, plan)

    def layer_added(self, record: LayerRecord) -> None:
        """Forward the record of a layer."""
        for listener in self.listeners:
            listener.layer_added(record)

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Forward the record of the readout."""
        for listener in self.listeners:
            listener.readout_fitted(record)


class LayerSaver:
    """Writes each layer to the folder of the model when it was added.

    Attributes
    ----------
    records : list of LayerRecord
        Records of the layers written, those of an earlier session first.
    """

    def __init__(self, make_writer: Callable[[Network], ModelWriter], before: Sequence[LayerRecord] = ()) -> None:
        self._make_writer = make_writer
        self._writer: ModelWriter | None = None
        self._network: Network | None = None
        self.records = list(before)

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Prepare the folder; nothing is written yet."""
        self._network, self._writer = network, self._make_writer(network)

    def layer_added(self, record: LayerRecord) -> None:
        """Write the newest layer."""
        assert self._network is not None and self._writer is not None
        self.records.append(record)  # before the file: an interrupt in between must not lose the record
        self._writer.add_layer(self._network.layers[-1], record)

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Write the readout of the network."""
        network = self._network
        assert network is not None and network.readout is not None and self._writer is not None
        self._writer.add_readout(network.readout, record, network.used_layers)

    @property
    def folder(self) -> Path | None:
        """Folder of the layers written so far; None before the first."""
        return self._writer.folder if self._writer and self._writer.layers else None

    def finish(self, stopped: StopReason | None, **facts: object) -> int:
        """Seal the model and return its number of layers."""
        if self._writer is None:
            return 0
        try:
            self._writer.finish(stopped, **facts)
        finally:
            del self.records[self._writer.layers :]
        return self._writer.layers


class JsonLines:
    """Prints the record of each layer as one line of JSON."""

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Print nothing."""

    def layer_added(self, record: LayerRecord) -> None:
        """Print the record."""
        typer.echo(json.dumps(asdict(record)))

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Print nothing: the last line, of the run, has the readout."""
