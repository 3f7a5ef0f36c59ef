"""Export of layers and readout to ONNX, and to a ``.pt2`` file through ``torch.export``.

Both files take images float32 (n, channels, height, width) for any n, **in the units of the training images**. The
scaling to [0, 1] is inside, so pixels of 0 to 255 are passed as 0.0 to 255.0. ``model.about["preprocessing"]`` and the
file's metadata state the range. Both return the outputs Ỹ (n, classes); the largest is the predicted class.

All is computed in float32, also for a network in half precision or float64. A file is compared with the network before
it is moved to its place.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from ..base.errors import ConfigError
from ..base.files import check_new_file
from ..base.text import count, show_bytes
from ..base.version import __version__
from ..model import HasModel, Model, as_model
from ..network.network import Network
from .verify import Run, differences, is_explained

ONNX_LIMIT = 2_000_000_000  # bytes of weights; protobuf holds 2 GiB in one file
_NOISY = ("torch.onnx", "onnxscript", "onnx_ir")


class Buffers(nn.Module):
    """A dataclass, e.g. a layer, whose tensors are float32 buffers; integers stay integers. There are no gradients."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held  # its constants; the tensors are the buffers
        for entry in (entry for entry in fields(held) if entry.init):
            part = getattr(held, entry.name)
            if isinstance(part, Tensor):
                kept = part.float() if part.is_floating_point() else part
                self.register_buffer(entry.name, kept.detach().clone(memory_format=torch.contiguous_format))
            elif is_dataclass(part):
                self.add_module(entry.name, Buffers(part))

    def restored(self) -> Any:
        """Return the dataclass with the buffers as its tensors."""
        inner = {name: module.restored() for name, module in self.named_children() if isinstance(module, Buffers)}
        return replace(self.held, **dict(self.named_buffers(recurse=False)), **inner)


class ExportedNetwork(nn.Module):
    """The layers of a network, and its readout if there is one, as a module that ``torch.export`` can trace."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.stack = replace(network.stack, layers=[], half=False)
        self.layers = nn.ModuleList(map(Buffers, network.layers))
        self.readout = Buffers(network.readout) if network.readout is not None else None

    def forward(self, images: Tensor) -> Tensor:
        """Return Ỹ (n, classes) of images (n, channels, height, width)."""
        layers = [module.restored() for module in self.layers if isinstance(module, Buffers)]
        stack = replace(self.stack, layers=layers)
        if self.readout is None:
            return stack.outputs(images)
        outputs: Tensor = self.readout.restored().forward(stack, images)
        return outputs


def export_program(
    model: Model | Network | HasModel,
    path: str | Path,
    layers: int | None = None,
    tolerance: float = 1e-4,
    overwrite: bool = False,
    without_readout: bool = False,
    progress: Callable[[str], None] | None = None,
) -> float:
    """Write the first layers as a ``.pt2`` file, which ``torch.export.load`` reads back.

    The metadata is in the file's ``rescnet.json``, one of ``torch.export.load``'s ``extra_files``.

    Parameters
    ----------
    model : Model, Network or fitted ResCNetClassifier
    path : str or Path
        Ends in ``.pt2``; must not exist, unless `overwrite`.
    layers : int, optional
        Number of layers to export; by default those used for prediction.
    tolerance : float
        Largest difference from the network's outputs. It may be exceeded on an image whose outputs change as much when
        the last digits of its pixels change (:mod:`rescnet.export.verify`).
    overwrite : bool
        Replace an existing file.
    without_readout : bool
        Export the layers of a network without its kernel readout. The outputs differ.
    progress : callable, optional
        Called with each step when it starts: tracing, writing, comparing.

    Returns
    -------
    float
        The largest difference, on random images in the range of the training images.

    Raises
    ------
    ValueError
        If an argument is invalid, or the file computes other outputs than the network. Nothing is written then.
    """
    model, target, network = _checked(model, path, ".pt2", layers, overwrite, without_readout)

    def write(program: torch.export.ExportedProgram, partial: Path) -> Run:
        buffer = BytesIO()  # writing to a full disk would end the process
        torch.export.save(program, buffer, extra_files={"rescnet.json": json.dumps(_metadata(model, network))})
        partial.write_bytes(buffer.getbuffer())
        loaded: Run = torch.export.load(partial).module()
        return loaded

    return _export(network, target, write, tolerance, overwrite, progress)


def export_onnx(
    model: Model | Network | HasModel,
    path: str | Path,
    layers: int | None = None,
    tolerance: float = 1e-4,
    overwrite: bool = False,
    without_readout: bool = False,
    progress: Callable[[str], None] | None = None,
) -> float:
    """Write the first layers as an ``.onnx`` file and run it once in onnxruntime; needs ``rescnet[export]``.

    The input is called ``images``, the output ``outputs``. The metadata holds e.g. the class names and the version, and
    the doc string describes input and output. Parameters, result and errors are those of :func:`export_program`.
    """
    model, target, network = _checked(model, path, ".onnx", layers, overwrite, without_readout)
    try:
        runtime, *_ = (import_module(name) for name in ("onnxruntime", "onnx", "onnxscript"))
    except ImportError as error:
        raise ConfigError(f"export to ONNX needs {error.name}. Run pip install 'rescnet[export]'.") from error
    size = sum(buffer.nbytes for buffer in ExportedNetwork(network).buffers())
    if size > ONNX_LIMIT:
        raise ConfigError(
            f"an ONNX file must hold at most {show_bytes(ONNX_LIMIT)}, got {show_bytes(size)} in "
            f"{len(network.layers)} layers. Export fewer layers, or to .pt2."
        )

    def write(program: torch.export.ExportedProgram, partial: Path) -> Run:
        onnx_program = torch.onnx.export(
            program,
            dynamo=True,
            optimize=False,  # onnxruntime does that itself; here it takes a fifth of the time
            verbose=False,
            input_names=["images"],
            output_names=["outputs"],
            dynamic_shapes=_free_batch(),
        )
        assert onnx_program is not None
        facts, made = _metadata(model, network), onnx_program.model
        for node in made.graph:
            node.metadata_props.clear()  # where in the source it comes from
        made.metadata_props.update(facts)
        made.doc_string = f"images: {facts['images']}; outputs: {facts['outputs']}"
        made.graph.inputs[0].doc_string, made.graph.outputs[0].doc_string = facts["images"], facts["outputs"]
        onnx_program.save(partial, external_data=False)
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(str(partial), options, providers=["CPUExecutionProvider"])
        return lambda images: torch.as_tensor(session.run(["outputs"], {"images": images.numpy()})[0])

    return _export(network, target, write, tolerance, overwrite, progress)


def _checked(
    model: Any, path: str | Path, suffix: str, layers: int | None, overwrite: bool, without_readout: bool
) -> tuple[Model | Network, Path, Network]:
    """Return the model, the target, and the network to export: on the CPU and not in half precision."""
    given: Model | Network = model if isinstance(model, Network) else as_model(model)
    network, target = given.network if isinstance(given, Model) else given, Path(path)
    most = len(network.layers)
    wanted = network.used_layers if layers is None else layers
    readout = None if without_readout or wanted != network.used_layers else network.readout
    if not 1 <= wanted <= most:
        raise ConfigError(f"layers must be between 1 and {most}, got {wanted}.")
    check_new_file(target, overwrite, suffix)
    stack = network.to("cpu").stack
    return given, target, Network(replace(stack, layers=stack.layers[:wanted]), readout)


def _export(
    network: Network,
    target: Path,
    write: Callable[[torch.export.ExportedProgram, Path], Run],
    tolerance: float,
    overwrite: bool,
    progress: Callable[[str], None] | None,
) -> float:
    """Trace, write beside the target, compare, and only then move the file to its place."""
    with _quiet(), torch.no_grad(), TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        report = progress or (lambda step: None)
        report(f"tracing {count(len(network.layers), 'layer', 'layers')}")
        example = torch.zeros(2, *network.image_shape)
        program = torch.export.export(ExportedNetwork(network), (example,), dynamic_shapes=_free_batch())
        partial = Path(folder) / target.name
        report(f"converting to {target.suffix.lower()} and writing")
        run = write(program, partial)
        report("comparing its outputs with the model's")
        images, found = differences(network, run, tolerance)
        difference = float(found.max())
        if not is_explained(network, images, found, tolerance):
            raise ConfigError(
                f"the exported outputs differ from the network's by {difference:.2g}, more than {tolerance:.2g}, "
                f"so {target} was not written. Export fewer layers or use a larger tolerance."
            )
        check_new_file(target, overwrite)  # again: another process may have written there
        partial.replace(target)
    return difference


def _free_batch() -> tuple[dict[int, Any]]:
    return ({0: torch.export.Dim("n")},)


def images_wanted(network: Network) -> str:
    """Return the type, the shape and the range of images that the exported file takes."""
    low, high = network.stack.image_range.ends
    shape = ", ".join(str(side) for side in network.image_shape)
    return f"float32 (n, {shape}), values as in training: {low:g} to {high:g}"


def _metadata(model: Model | Network, network: Network) -> dict[str, str]:

    facts = {
        "rescnet_version": __version__,
        "layers": str(len(network.layers)),
        "images": images_wanted(network),
        "outputs": f"float32 (n, {network.classes}), one per class, the largest is predicted; not probabilities",
    }
    if network.readout is not None and network.readout.temperature is not None:
        facts["probabilities"] = f"softmax(outputs / {network.readout.temperature:.6g})"
    if isinstance(model, Model):
        facts["class_names"] = json.dumps(model.class_names)
        facts["preprocessing"] = json.dumps(model.about.get("preprocessing", {}))
    return facts


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings and log messages of torch and onnxscript about their internals."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for category in (FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
