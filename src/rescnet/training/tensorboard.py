"""Log of a training run for TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from ..base.errors import ConfigError
from ..network.history import LayerRecord, ReadoutRecord
from ..network.network import Network
from .listener import Listener
from .memory_plan import MemoryPlan

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardLog(Listener):
    """Listener that writes the record of each layer to a folder for TensorBoard.

    Pass it to :func:`rescnet.train`. It is a context manager, which closes the event file. The folder is created when
    training starts. A second run in the same folder replaces the first.

    Examples
    --------
    >>> from rescnet import train
    >>> from rescnet.training.tensorboard import TensorBoardLog
    >>> with TensorBoardLog("logs/a") as log:  # doctest: +SKIP
    ...     train(images, labels, listener=log)
    """

    def __init__(self, folder: Path | str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError("tensorboard must be installed. Use: pip install 'rescnet[tensorboard]'") from error
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"the TensorBoard log must be a folder, got the file {str(self.folder)!r}.")
        self._make_writer = SummaryWriter
        self._writer: SummaryWriter | None = None
        self._network: Network | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Create the folder; the event file in it is opened by the first new layer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._network = network

    def layer_added(self, record: LayerRecord) -> None:
        """Write a layer's numbers and flush them to the disk."""
        writer = self._writer or self._open(record.layer)
        for tag, value in scalars(record).items():
            writer.add_scalar(tag, value, record.layer)
        writer.flush()

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Write the accuracies of the readout at the step of its last layer."""
        assert self._network is not None
        writer, step = self._writer or self._open(len(self._network.layers) + 1), self._network.used_layers
        found = {"validation": record.validation_accuracy, "test": record.test_accuracy, "seconds": record.seconds}
        for name, value in found.items():
            if value is not None:
                writer.add_scalar(f"readout/{name}", value, step)
        writer.flush()

    def _open(self, first: int) -> SummaryWriter:
        """Open the event file and write the configuration; what a resumed run had before the ``first`` layer stays."""
        assert self._network is not None
        self._writer = self._make_writer(str(self.folder), purge_step=first)
        rows = [f"| {name} | {value} |" for name, value in self._network.config.to_dict().items()]
        self._writer.add_text("configuration", "\n".join(["| option | value |", "|---|---|", *rows]))
        return self._writer

    def close(self) -> None:
        """Close the event file, if there is one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def scalars(record: LayerRecord) -> dict[str, float]:
    """Return a layer's numbers by TensorBoard tag; accuracies without images are left out."""
    accuracies = {
        "accuracy/train": record.train_accuracy,
        "accuracy/validation": record.validation_accuracy,
        "accuracy/test": record.test_accuracy,
    }
    return {
        **{tag: accuracy for tag, accuracy in accuracies.items() if accuracy is not None},
        "positive_share": record.positive_share,
        "learning_rate": record.rate,
        "ridge": record.ridge,
        **{f"seconds/{stage}": seconds for stage, seconds in record.seconds.items()},
        "seconds/total": record.total_seconds,
        "memory/peak": float(record.peak_memory),  # bytes
    }
