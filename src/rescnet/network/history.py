"""Records of a run: one per layer, and one of the readout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class ReadoutRecord:
    """How often the network is right with its readout, as a share of 1; None where there are no such images.

    ``ridge`` is the ε used, ``seconds`` are those of fitting it and of predicting such images, ``layers`` are those it
    reads; None: all, as of records from before a readout could be of fewer.
    """

    validation_accuracy: float | None = None
    test_accuracy: float | None = None
    ridge: float | None = None
    seconds: float = 0.0
    layers: int | None = None


@dataclass(frozen=True)
class LayerRecord:
    """What happened while a layer was added.

    Attributes
    ----------
    layer : int
        Counted from 1.
    train_accuracy, validation_accuracy, test_accuracy : float
        Of the network up to this layer, as a share of 1; None where there are no such images.
    positive_share : float
        n_p/N: images whose largest residual was positive.
    rate : float
        α.
    ridge : float
        The γ used: more than was asked for where the factorisation failed.
    seconds : dict of str to float
        By stage.
    peak_memory : int
        Bytes: the most the process (on a CPU) or the allocator (on a GPU) held while the layer was added.
    memory : dict of str to int
        The same, by stage.
    """

    layer: int
    train_accuracy: float
    validation_accuracy: float | None
    test_accuracy: float | None
    positive_share: float
    rate: float
    ridge: float
    seconds: dict[str, float]
    peak_memory: int
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


@dataclass
class History:
    """The records of a run, in order, why it stopped, and what came of a readout."""

    records: list[LayerRecord] = field(default_factory=list)
    stopped: str = ""
    readout: ReadoutRecord | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[LayerRecord]:
        return iter(self.records)

    def __getitem__(self, index: int) -> LayerRecord:
        return self.records[index]

    def append(self, record: LayerRecord) -> None:
        """Add the record of the newest layer."""
        self.records.append(record)

    def best_layer(self) -> int:
        """Return the layer (from 1) with the best validation accuracy, the earliest of equals; without, the last."""
        scored = [r for r in self.records if r.validation_accuracy is not None]
        if not scored:
            return len(self.records)
        return max(scored, key=lambda r: (r.validation_accuracy, -r.layer)).layer

    def layers_since_best(self) -> int:
        """Return how many layers were added since the best validation accuracy."""
        return len(self.records) - self.best_layer()

    def to_lines(self) -> Iterator[str]:
        """Yield one JSON object a layer."""
        for record in self.records:
            yield json.dumps(asdict(record))

    @staticmethod
    def from_lines(lines: Iterable[str]) -> History:
        """Read what :meth:`to_lines` wrote."""
        return History([LayerRecord(**json.loads(line)) for line in lines if line.strip()])
