"""Iterator over the layers of a training run, with the readout at its end.

A stand-in with the interface of the training loop: replace it by an import when that loop is an iterator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..network.history import History, LayerRecord
from ..network.network import Network
from ..training.fit_readout import add_readout
from ..training.trainer import Trainer

if TYPE_CHECKING:
    from ..training.distributed.workers import Workers
    from ..training.trainer import Array, LabelledImages


class TrainingRun:
    """One training run: yields a record per layer, then fits the readout if the configuration has one.

    Iteration may be stopped early; the readout is then not fitted.

    Attributes
    ----------
    network : Network
    history : History
    plan : Plan
        Of the memory.
    """

    def __init__(
        self,
        images: Array,
        labels: Array,
        config: NetworkConfig,
        *,
        validation: LabelledImages | None = None,
        test: LabelledImages | None = None,
        compute: ComputeOptions | None = None,
        start: tuple[Network, History] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._train, self._others = (images, labels), {"validation": validation, "test": test}
        self._config = config
        self.trainer = Trainer(images, labels, config, validation, test, compute or ComputeOptions(), workers)
        self.plan = self.trainer.plan
        self.device, self.dtype, self.precision = self.trainer.device, self.trainer.dtype, self.trainer.precision
        if start:
            self.trainer.go_on_from(*start)

    @property
    def network(self) -> Network:
        """The network so far."""
        return self.trainer.network

    @property
    def history(self) -> History:
        """The records so far."""
        return self.trainer.history

    def __iter__(self) -> Iterator[LayerRecord]:
        while not self.trainer.finished():
            yield self.trainer.add_layer()
        if self._config.readout == "kernel":
            self.trainer.let_go()  # the kernel needs the memory
            self.history.readout = add_readout(self.network, *self._train, self._others)
