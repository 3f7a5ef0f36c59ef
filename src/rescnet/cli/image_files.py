"""Picture files as a model takes them: found, checked before the first is decoded, and in the model's own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.image_files import read_headers, read_images
from .batches import batches

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}


def find_pictures(paths: Sequence[Path]) -> list[Path]:
    """Return the files named, and the pictures in the folders named and in their sub-folders, sorted."""
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
                raise ValueError(f"{path} holds no picture (looked for {', '.join(sorted(SUFFIXES))}): check the path.")
            found |= dict.fromkeys(inside)
        elif path.exists():
            found[path] = None
        else:
            raise ValueError(f"there is no file or folder {path}: check the path.")
    return list(found)


def check_pictures(files: Sequence[Path], image_shape: tuple[int, int, int], resize: bool) -> None:
    """Refuse, in one sentence that names it, a file that cannot be read or is not of the model's size."""
    channels, height, width = image_shape
    if channels not in (1, 3):
        raise ValueError(f"the model takes images of {channels} channels, and picture files have 1 or 3: use Python.")
    for file, header in zip(files, read_headers(files), strict=True):
        if (header.height, header.width) != (height, width) and not resize:
            turned = "turn it" if (header.width, header.height) == (height, width) else "say --resize"
            raise ValueError(
                f"{file} is {header.height}×{header.width} but the model takes {height}×{width} (height×width): "
                f"{turned}, or resize it yourself."
            )


def read_pictures(
    files: Sequence[Path], image_shape: tuple[int, int, int], resize: bool, preprocessing: dict[str, Any], batch: int
) -> Iterator[NDArray[Any]]:
    """Yield batches of pictures, (batch, channels, height, width), grey or colour as the model's training images were.

    Pictures come as 0..255. A model trained on floating numbers between 0 and 1 gets them divided by 255.
    """
    low, high = preprocessing.get("low", 0), preprocessing.get("high", 255)
    floating = str(preprocessing.get("pixels", "uint8")).startswith("float")
    if low < 0 or high > 255:
        raise ValueError(
            f"the model was trained on numbers from {low:g} to {high:g}, which are no pixels of pictures: use Python, "
            "and prepare images as its training images were."
        )
    for part in batches(len(files), batch):
        pixels = read_images(files[part], image_shape[0], image_shape[1:], resize)
        yield (pixels / 255).astype(np.float32) if floating and high <= 1 else pixels
