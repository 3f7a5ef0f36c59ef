"""Lazy reading of a model's folder; every file is verified before it is used."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from ..config.network import NetworkConfig
from ..network.history import History, LayerRecord, ReadoutRecord, StopReason, depth_to_use
from ..network.model import Model
from ..network.network import Network
from ..network.readout import KernelReadout
from ..network.stack import Layer, LayerStack
from .folder import COPY_AGAIN, HISTORY, MODEL, READOUT, ModelFileError, read_file, read_verified
from .layout import check_end, read_model_json, read_network, read_record, whole_lines
from .tensors import layer_from_bytes, readout_from_bytes


def load_model(
    path: str | Path,
    layers: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Model:
    """Load a model.

    Parameters
    ----------
    path : str or Path
        The model's folder.
    layers : int, optional
        Load the first n layers only; the files of the others are not opened, and the history ends there. By default
        all, or the best validation depth of a model trained with ``patience``; a readout belongs to that depth.
    device : device or str, default "cpu"
    dtype : torch.dtype, optional
        The floating type to compute in; by default that of the training. A network trained in half precision computes
        in it on a GPU only, and only if no other type is given.

    Raises
    ------
    ModelFileError
        If there is no model, or a file of it is cut short, altered, foreign, or of a later version.
    """
    folder = ModelFolder.open(path)
    wanted = folder.depth if layers is None else layers
    if not 1 <= wanted <= len(folder.records):
        raise ValueError(f"layers must be between 1 and {len(folder.records)}, got {wanted}.")
    half = folder.half and torch.device(device).type == "cuda" and dtype in (None, torch.float32)
    network = Network(LayerStack(folder.config, folder.image_shape, len(folder.class_names), half=half))
    for number in range(1, wanted + 1):
        layer = folder.read_layer(number)
        network.layers.append(layer.to(torch.device(device), dtype or layer.weights.dtype))
    about = folder.about
    if wanted == folder.depth:
        network.readout = folder.read_readout()
    else:
        about = {key: value for key, value in about.items() if key != "readout"}
    return Model(network, folder.history(wanted), folder.class_names, about)


@dataclass(frozen=True)
class ModelFolder:
    """A model's folder of which everything but the layers has been read.

    Attributes
    ----------
    path : Path
    config : NetworkConfig
    image_shape : tuple of int
        (channels, height, width).
    class_names : tuple of str
    half : bool
        Whether it was trained with maps and features in half precision.
    about : dict
        Facts about the run.
    records : tuple of LayerRecord
        One per layer that can be loaded.
    files : tuple of dict
        ``file``, ``bytes`` and ``sha256`` of each layer's file.
    sealed : bool
        Whether the run has ended, by its own rules or by Ctrl-C. False: it is running, or was killed.
    """

    path: Path
    config: NetworkConfig
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    half: bool
    about: dict[str, Any]
    records: tuple[LayerRecord, ...]
    files: tuple[dict[str, Any], ...]
    sealed: bool

    @staticmethod
    def open(path: str | Path) -> ModelFolder:
        """Read and verify ``model.json`` and ``history.jsonl`` of a model."""
        folder = Path(path)
        content = read_model_json(folder)
        lines = whole_lines(read_file(folder / HISTORY))
        check_end(folder / HISTORY, content["sealed"], lines)
        found = ModelFolder.of(folder, content, lines)
        if not 1 <= found.depth <= len(lines):
            raise ModelFileError(
                f"{folder / MODEL} must use 1 to {len(lines)} layers for prediction, got {found.depth}. {COPY_AGAIN}"
            )
        return found

    @staticmethod
    def of(folder: Path, content: dict[str, Any], lines: list[dict[str, Any]]) -> ModelFolder:
        """Return the folder with this ``model.json`` and these lines of history, both verified."""
        records = tuple(read_record(folder / HISTORY, number, line) for number, line in enumerate(lines, 1))
        config, image_shape, class_names = read_network(folder / MODEL, content)
        return ModelFolder(
            path=folder,
            config=config,
            image_shape=image_shape,
            class_names=class_names,
            half=content["half"],
            about=content["about"],
            records=records,
            files=tuple({key: line[key] for key in ("file", "bytes", "sha256")} for line in lines),
            sealed=content["sealed"] is not None,
        )

    def history(self, layers: int | None = None) -> History:
        """Return the history of the first n layers, by default of all."""
        record = (self.about.get("readout") or {}).get("record") if layers in (None, self.depth) else None
        known = {entry.name for entry in fields(ReadoutRecord)}
        readout = ReadoutRecord(**{key: record[key] for key in record.keys() & known}) if record else None
        return History(list(self.records[:layers]), StopReason.read(self.about.get("stopped")), readout)

    @property
    def depth(self) -> int:
        """Default number of layers for prediction: of the readout, as saved, or the best validation depth."""
        if readout := self.about.get("readout"):
            return int(readout.get("layers", len(self.records)))
        if saved := self.about.get("used_layers"):
            return int(saved)
        return depth_to_use(self.config, History(list(self.records))) or len(self.records)

    def read_layer(self, number: int) -> Layer:
        """Read and verify one layer, counted from 1."""
        facts = self.files[number - 1]
        file = self.path / facts["file"]
        data = read_verified(file, facts)
        return layer_from_bytes(data, str(file), self.config, self.image_shape, len(self.class_names), number)

    def read_readout(self) -> KernelReadout | None:
        """Read and verify the kernel readout, if the model has one."""
        facts = self.about.get("readout")
        if facts is None:
            return None
        file = self.path / READOUT
        return readout_from_bytes(read_verified(file, facts), str(file), self.image_shape, len(self.class_names))

    @property
    def misses_readout(self) -> bool:
        """Whether the configured kernel readout is missing because the run stopped early."""
        return self.config.readout == "kernel" and not self.about.get("readout")

    def size_on_disk(self) -> int:
        """Return the bytes of all files."""
        own = sum((self.path / name).stat().st_size for name in (MODEL, HISTORY))
        readout = int((self.about.get("readout") or {}).get("bytes", 0))
        return own + readout + sum(int(facts["bytes"]) for facts in self.files)
