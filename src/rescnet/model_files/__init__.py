"""Models as folders: JSON, one safetensors file a layer, and the history as JSON lines. No pickle anywhere.

::

    digits-model/
      model.json                 the configuration, class names, preprocessing, where it was trained
      history.jsonl              one line a layer: its record, and its file's name, size and SHA-256
      layers/00001.safetensors   what the first layer has learnt
      layers/00002.safetensors   …

Everything read is verified. ``model.json`` holds the checksum of its own content and, once the run is over, the number
of layers and the checksum of the last line of the history; each line's checksum covers the line before it, and the
SHA-256 of its layer's file. A file is written beside its place and moved there; a run that is killed leaves a model of
the layers finished so far, and can be taken up again (``resuming.py``). One process writes at a time (``locking.py``).
"""

from .errors import ModelFileError
from .layer_file import layer_bytes
from .places import check_place, check_space
from .reading import ModelFolder, load_model
from .resuming import InterruptedRun, read_run, run_from_bytes, run_to_bytes
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
    "read_run",
    "run_from_bytes",
    "run_to_bytes",
    "save_model",
]
