"""Base class of the objects that are informed of a run's progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from ..network.history import History, LayerRecord, ReadoutRecord
from ..network.network import Network
from .choice import Choice
from .memory_plan import MemoryPlan


class Listener:
    """An object that is informed of a run's progress; its methods do nothing."""

    def chosen(self, choice: Choice) -> None:
        """Receive the network that will be trained, before work starts; a refit is a second one."""

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Receive the plan, once per network, before work starts."""

    def started(self, network: Network, history: History) -> None:
        """Receive the layers that the run continues from, if there are any."""

    def layer_added(self, record: LayerRecord) -> None:
        """Receive the record of a layer that was added."""

    def readout_step(self, steps: int, residual: float, solution: Tensor) -> None:
        """Receive the progress of a readout that is fitted step by step: the relative residual after n steps.

        The solution so far can be the ``readout_start`` of another run.
        """

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Receive the record of the readout, if there is one; the network has it now."""

    def finished(self, history: History) -> None:
        """Receive the history of a network that was trained to its end."""


EVENTS = [name for name in vars(Listener) if not name.startswith("_")]


class Listeners(Listener):
    """Several listeners, informed in order; None is left out."""

    def __init__(self, *listeners: Listener | None) -> None:
        present = [listener for listener in listeners if listener is not None]
        for event in EVENTS:
            setattr(self, event, partial(_inform, [getattr(listener, event) for listener in present]))


def _inform(methods: Sequence[Callable[..., None]], *news: Any) -> None:
    for method in methods:
        method(*news)
