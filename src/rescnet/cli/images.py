"""Images of a command: data sets by the name of their source, image files, and a network's outputs in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from torch import Tensor

from ..data import Dataset, load
from ..data.archives import PUBLIC_SETS
from ..data.image_files import read_headers, read_images
from ..data.splits import fingerprint, hold_out_images
from ..model_files import ModelFolder
from ..network.network import Network
from ..network.readout import ExactReadout
from ..progress import Bar
from .shared import say

BATCH = 500  # images per step of the progress bar
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}


def load_source(source: str, root: Path | None, image_size: tuple[int, int] | None = None) -> Dataset:
    """Load a public data set, an image folder or an ``.npz`` file; a download shows its progress on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Bar(Console(stderr=True), *columns)
    task = bar.add_task(f"downloading {source}", total=None)

    def show(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        return load(source, root, progress=show, image_size=image_size)
    finally:
        bar.stop()


def full_name(source: str) -> str:
    """Return the name of a public data set, or the absolute path of any other source."""
    return source if source in PUBLIC_SETS else str(Path(source).expanduser().resolve())


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read a size given as H,W or HxW.

    Examples
    --------
    >>> parse_size("32,48"), parse_size("8x8"), parse_size(None)
    ((32, 48), (8, 8), None)
    """
    if text is None:
        return None
    sides = text.lower().replace("×", ",").replace("x", ",").split(",")
    if len(sides) != 2 or not all(side.strip().isdecimal() and int(side) > 0 for side in sides):
        raise ValueError(f"image size must be height and width in pixels, e.g. 32,32, got {text!r}.")
    return int(sides[0]), int(sides[1])


def check_classes(dataset: Dataset) -> None:
    """Raise ValueError if there are fewer than two classes, or a class has only one training image."""
    if len(dataset.class_names) < 2:
        raise ValueError(
            f"{dataset.name} must have at least two classes, got only {dataset.class_names[0]!r}. An image folder has "
            "one sub-folder per class."
        )
    counts = np.bincount(dataset.train.labels, minlength=len(dataset.class_names))
    if single := np.flatnonzero(counts == 1).tolist():
        others = f" and for {len(single) - 1} more" if len(single) > 1 else ""
        raise ValueError(
            f"each class of {dataset.name} must have at least two training images, got one for "
            f"{dataset.class_names[single[0]]!r}{others}. Add images, or leave the class out."
        )


def check_limit(dataset: Dataset, limit: int | None) -> None:
    """Raise ValueError if a limit leaves fewer than two training images per class."""
    classes = len(np.unique(dataset.train.labels))
    if limit is not None and limit < min(2 * classes, len(dataset.train)):
        raise ValueError(f"limit must be at least {2 * classes} with {classes} classes, got {limit}.")


def dataset_of(
    model: ModelFolder, source: str | None = None, root: Path | None = None, resize: bool = False
) -> tuple[Dataset, bool]:
    """Load images for a model: by default those it was trained on, with the same validation images.

    ``resize`` resizes the images of a folder to the size that the model expects. The second result is True if the
    model was trained on this source.
    """
    trained_on = model.about.get("source")
    if source is None and not trained_on:
        raise ValueError(
            f"images must be named: {model.path} does not record what it was trained on. Name a data set, a folder or "
            "an .npz file."
        )
    chosen = str(source or trained_on)
    own = full_name(chosen) == trained_on
    if own and root is None and model.about.get("root"):
        root = Path(model.about["root"])
    size = model.image_shape[1:] if resize else parse_size(model.about.get("image_size")) if own else None
    if source is None and Path(chosen).is_absolute() and not Path(chosen).exists():
        raise ValueError(f"the training images of {model.path} must exist, got {chosen}. Name their new place.")
    dataset = load_source(chosen, root, size)
    _check_shape(dataset, model, Path(full_name(chosen)).is_dir())
    held_out = model.about.get("held_out") if own else None
    if held_out:
        dataset = hold_out_images(dataset, held_out["fraction"], held_out["limit"], held_out["seed"])
    return dataset, own


def check_held_out(dataset: Dataset, about: dict[str, Any]) -> None:
    """Raise ValueError if the validation images are not those of the training; it may have used some of them."""
    expected = (about.get("held_out") or {}).get("sha256")
    if expected and fingerprint(dataset.validation) != expected:
        raise ValueError(
            f"{dataset.name} must not have changed since training: its validation images are not known any more. "
            "Evaluate on other images."
        )


def _check_shape(dataset: Dataset, model: ModelFolder, folder: bool) -> None:
    if dataset.shape != model.image_shape:
        theirs, ours = (
            f"{height}×{width} {'grey' if channels == 1 else 'colour'}"
            for channels, height, width in (dataset.shape, model.image_shape)
        )
        hint = " Use --resize." if folder and dataset.shape[0] == model.image_shape[0] else ""
        raise ValueError(f"{dataset.name} must have {ours} images for this model, got {theirs} ones.{hint}")


def batch_of(network: Network) -> int:
    """Return the images per batch; more with an exact readout, which compares each with its training images."""
    return network.batch if isinstance(network.readout, ExactReadout) else BATCH


def stream_outputs(network: Network, images: NDArray[Any], console: Console) -> Tensor:
    """Return Ỹ of images (n, channels, height, width) on the CPU, shape (n, classes)."""
    batch = batch_of(network)
    parts = (images[start : start + batch] for start in range(0, len(images), batch))
    return torch.cat(list(outputs_of(network, parts, len(images), console)))


def outputs_of(network: Network, parts: Iterable[NDArray[Any]], total: int, console: Console) -> Iterator[Tensor]:
    """Yield Ỹ of each batch of images on the CPU, shape (batch, classes), and show the progress."""
    if isinstance(network.readout, ExactReadout):
        say(console, f"comparing with {len(network.readout):,} training images", style="dim")
    columns = (TextColumn("  images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(console, *columns) as bar:
        task = bar.add_task("images", total=total)
        for part in parts:
            yield network.outputs(part).cpu()
            bar.advance(task, len(part))


def find_image_files(paths: Sequence[Path]) -> list[Path]:
    """Return the named files and the image files in the named folders, sub-folders included, sorted per folder."""
    found: dict[Path, None] = {}  # each once, in order
    for path in paths:
        if path.is_dir():
            inside = sorted(
                file
                for file in path.rglob("*")
                if file.suffix.lower() in SUFFIXES
                and file.is_file()
                and not any(part.startswith(".") for part in file.relative_to(path).parts)
            )
            if not inside:
                raise ValueError(f"{path} must contain an image file ({', '.join(sorted(SUFFIXES))}), got none.")
            found |= dict.fromkeys(inside)
        elif path.exists():
            found[path] = None
        else:
            raise ValueError(f"image files must exist, got {path}. Check the path.")
    return list(found)


def check_image_files(files: Sequence[Path], image_shape: tuple[int, int, int], resize: bool) -> None:
    """Raise ValueError for a file that cannot be read or has not the size that the model expects."""
    channels, height, width = image_shape
    if channels not in (1, 3):
        raise ValueError(f"image files have 1 or 3 channels, but the model expects {channels}. Use Python.")
    for file, header in zip(files, read_headers(files), strict=True):
        if (header.height, header.width) != (height, width) and not resize:
            remedy = "Rotate it" if (header.width, header.height) == (height, width) else "Use --resize"
            raise ValueError(
                f"{file} must be {height}×{width} (height×width) for this model, got {header.height}×{header.width}. "
                f"{remedy}, or resize it yourself."
            )


def read_image_files(
    files: Sequence[Path], image_shape: tuple[int, int, int], resize: bool, preprocessing: dict[str, Any], batch: int
) -> Iterator[NDArray[Any]]:
    """Yield batches (batch, channels, height, width), grey or colour like the training images of the model.

    Pixels are 0 to 255. They are divided by 255 for a model trained on floating-point images between 0 and 1.
    """
    low, high = preprocessing.get("low", 0), preprocessing.get("high", 255)
    floating = str(preprocessing.get("pixels", "uint8")).startswith("float")
    if low < 0 or high > 255:
        raise ValueError(
            f"the model must be trained on pixels from 0 to 255 to predict image files, got {low:g} to {high:g}. Use "
            "Python, and prepare images like the training images."
        )
    for start in range(0, len(files), batch):
        pixels = read_images(files[start : start + batch], image_shape[0], image_shape[1:], resize)
        yield (pixels / 255).astype(np.float32) if floating and high <= 1 else pixels
