"""Batches of images for a network: from an array or from image files, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from torch import Tensor

from ..data.image_files import read_headers, read_images
from ..network.network import Network
from ..progress import Bar

BATCH = 500  # images per step of the progress bar
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}


def batch_of(network: Network) -> int:
    """Return the images per batch; more with a readout, which compares each image with its reference images."""
    return BATCH if network.readout is None else network.batch


def stream_outputs(network: Network, images: NDArray[Any], console: Console) -> Tensor:
    """Return Ỹ of images (n, channels, height, width) on the CPU, shape (n, classes)."""
    parts = (images[part] for part in _slices(len(images), batch_of(network)))
    return torch.cat(list(outputs_of(network, parts, len(images), console)))


def outputs_of(network: Network, parts: Iterable[NDArray[Any]], total: int, console: Console) -> Iterator[Tensor]:
    """Yield Ỹ of each batch of images on the CPU, shape (batch, classes), and show the progress."""
    if network.readout is not None:
        reference = f"{len(network.readout.images):,} reference images"
        console.print(f"preparing the kernel readout: {reference}", style="dim", highlight=False, soft_wrap=True)
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
    for part in _slices(len(files), batch):
        pixels = read_images(files[part], image_shape[0], image_shape[1:], resize)
        yield (pixels / 255).astype(np.float32) if floating and high <= 1 else pixels


def _slices(total: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of ``size`` of a sequence of length ``total``."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))
