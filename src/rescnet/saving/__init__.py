"""Models as folders: JSON, one safetensors file per layer, and the history as JSON lines. No pickle.

::

    digits-model/
      model.json                 configuration, class names, preprocessing, and facts about the run
      history.jsonl              one line per layer: its record, and its file's name, size and SHA-256
      layers/00001.safetensors   learned tensors of the first layer
      layers/00002.safetensors   …
      readout.safetensors        the kernel readout, if there is one

Everything read is verified. ``model.json`` holds the checksum of its own content. It is sealed when the run ends: it
then also holds the number of layers and the checksum of the last line of the history. The checksum of a line covers
the line before it and the SHA-256 of its layer's file. A file is written beside its place and then moved there. A
killed run leaves a model of the finished layers, which can be resumed. One process writes at a time.

The format has a number (:data:`.layout.VERSION`), and ``model.json`` has the version of rescnet that wrote it. Later
versions of rescnet read every format from number 6 on: an option or a fact that they add has a default that keeps the
meaning of older files. Earlier formats are refused.
"""

from ..base.errors import ModelFileError
from .folder import check_place, check_space, partial_of
from .reading import InterruptedRun, ModelFolder, load_model, read_run
from .sending import run_from_bytes, run_to_bytes
from .tensors import layer_bytes
from .writing import ModelWriter, save_model

__all__ = [
    "InterruptedRun",
    "ModelFileError",
    "ModelFolder",
    "ModelWriter",
    "check_place",
    "check_space",
    "layer_bytes",
    "load_model",
    "partial_of",
    "read_run",
    "run_from_bytes",
    "run_to_bytes",
    "save_model",
]
