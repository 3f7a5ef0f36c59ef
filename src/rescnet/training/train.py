"""The training loop, and who hears how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..network.history import History, LayerRecord, ReadoutRecord
from ..network.network import Network
from .distributed.workers import Workers
from .fit_readout import add_readout
from .memory_plan import Plan
from .trainer import Trainer

if TYPE_CHECKING:
    from .trainer import Array, LabelledImages


class Listener(Protocol):
    """Who wants to hear how training goes."""

    def planned(self, network: Network, plan: Plan) -> None:
        """Hear of the plan, once, before work starts."""

    def layer_added(self, record: LayerRecord) -> None:
        """Hear of a layer that was added."""

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Hear of the readout, where there is one: the network has it now."""


def train(
    images: Array,
    labels: Array,
    config: NetworkConfig,
    *,
    validation: LabelledImages | None = None,
    test: LabelledImages | None = None,
    compute: ComputeOptions | None = None,
    listener: Listener | None = None,
    start: tuple[Network, History] | None = None,
    workers: Workers | None = None,
) -> tuple[Network, History]:
    """Train a network.

    Parameters
    ----------
    images : Tensor or array, shape (n, channels, height, width)
        uint8 or floating, in any range of values.
    labels : Tensor or array, shape (n,)
        Classes, counted from 0.
    config : NetworkConfig
    validation : (images, labels), optional
        Held-out training images: accuracy is followed, and patience counts, on them. With ``config.patience`` the
        network predicts with the layers that were best on them (``Network.depth``), and a readout is fitted to those.
    test : (images, labels), optional
        Accuracy is recorded, and decides nothing.
    compute : ComputeOptions, optional
    listener : Listener, optional
    start : (network, history), optional
        A network to go on from: the images are sent through its layers, and new ones are added up to ``config.layers``.
        It is left as it was. On the same images and machine this ends with the network an uninterrupted run ends with.
    workers : Workers, optional
        Processes that train together (``training/workers.py``): each is given all images, and takes its share.

    Returns
    -------
    network : Network
    history : History
    """
    trainer = Trainer(images, labels, config, validation, test, compute or ComputeOptions(), workers)
    if listener:
        listener.planned(trainer.network, trainer.plan)
    if start:
        trainer.go_on_from(*start)
    while not trainer.finished():
        record = trainer.add_layer()
        if listener:
            listener.layer_added(record)
    if config.readout == "kernel":
        trainer.let_go()  # the kernel needs the room
        others = {"validation": validation, "test": test}
        trainer.history.readout = add_readout(trainer.network, images, labels, others)
        if listener:
            listener.readout_fitted(trainer.history.readout)
    return trainer.network, trainer.history
