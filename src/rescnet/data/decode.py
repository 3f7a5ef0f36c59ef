"""Image files to arrays: Pillow, imported when first needed, in a few threads, always in the order given."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""What is opened. Left out on purpose: formats whose reader runs another program, as EPS runs Ghostscript."""
_GREY_MODES = ("1", "L", "LA", "La")
_SIXTEEN_BIT_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # 16-bit PNG is "I" to older versions of Pillow
_CAMERA_FORMATS = ("JPEG", "MPO")
"""Where cameras say which way up they were held."""
_EXIF_ORIENTATION = 0x0112
_MOST_THREADS = 8
_FILES_PER_TASK = 64

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ImageHeader:
    """What an image file says of itself before it is decoded."""

    height: int
    width: int
    is_grey: bool


def read_headers(paths: Sequence[Path]) -> list[ImageHeader]:
    """Open every file far enough to know its size and whether it is grey; nothing is decoded."""

    def header(path: Path) -> ImageHeader:
        with _opened(path) as image:
            h, w = (image.width, image.height) if _lies_on_its_side(image) else (image.height, image.width)
            return ImageHeader(h, w, image.mode in _GREY_MODES + _SIXTEEN_BIT_MODES)

    return list(_in_order(paths, header))


def read_images(paths: Sequence[Path], channels: int, size: tuple[int, int], resize: bool) -> npt.NDArray[np.uint8]:
    """Decode image files into one array.

    Parameters
    ----------
    paths : sequence of Path, length n
    channels : {1, 3}
        3 converts grey images to RGB. Transparency is dropped; 16-bit grey is scaled to 8 bits; photographs
        are turned upright as their EXIF data say.
    size : tuple of int
        (h, w) of every image.
    resize : bool
        Resize images of another size (bicubic); False refuses them.

    Returns
    -------
    ndarray of uint8, shape (n, channels, h, w)
    """
    images = np.empty((len(paths), channels, *size), np.uint8)

    def decode(path: Path) -> npt.NDArray[np.uint8]:
        from PIL import ImageOps

        with _opened(path) as image:
            if image.format in _CAMERA_FORMATS:
                ImageOps.exif_transpose(image, in_place=True)
            return _to_array(path, image, channels, size, resize)

    for number, array in enumerate(_in_order(paths, decode)):
        images[number] = array
    return images


def _to_array(path: Path, image: Image, channels: int, size: tuple[int, int], resize: bool) -> npt.NDArray[np.uint8]:
    """Convert one opened image to (channels, h, w)."""
    import PIL.Image

    h, w = size
    if image.mode == "F":
        raise DataError(f"{path} has floating-point pixels, whose range is unknown: save it with 8 or 16 bits.")
    if image.mode in _SIXTEEN_BIT_MODES:
        image = PIL.Image.fromarray(_eight_bits(path, np.asarray(image)))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (w, h):
        if not resize:
            raise DataError(f"{path} is {image.height}×{image.width}, not {h}×{w} like the rest of the set.")
        image = image.resize((w, h), PIL.Image.Resampling.BICUBIC)
    array = np.asarray(image, np.uint8)  # (h, w) or (h, w, 3)
    return array[np.newaxis] if channels == 1 else array.transpose(2, 0, 1)


def _lies_on_its_side(image: Image) -> bool:
    """Whether EXIF data say that height and width of this photograph change places."""
    return image.format in _CAMERA_FORMATS and image.getexif().get(_EXIF_ORIENTATION) in (5, 6, 7, 8)


def _eight_bits(path: Path, values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """Scale 0..65535 to 0..255, rounding."""
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise DataError(f"{path} has 32-bit pixels, from {wide.min()} to {wide.max()}: save it with 8 or 16 bits.")
    return ((wide + 128) // 257).astype(np.uint8)


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    """Open an image; whatever goes wrong, then or while it is decoded, names the file."""
    import PIL.Image

    try:
        with PIL.Image.open(path, formats=[name for name in _FORMATS if name in PIL.Image.OPEN]) as image:
            yield image
    except DataError:
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{path} is larger than Pillow's limit of {PIL.Image.MAX_IMAGE_PIXELS:,} pixels, as a file made to "
            "exhaust memory would be: remove it or make it smaller."
        ) from error
    except PIL.UnidentifiedImageError as error:
        raise DataError(
            f"{path} is not an image that can be read (formats: {', '.join(_FORMATS)}): remove it."
        ) from error
    except Exception as error:  # damaged files make Pillow raise nearly anything
        raise DataError(f"{path} cannot be read as an image ({error}): replace or remove it.") from error


def _in_order(paths: Sequence[Path], read: Callable[[Path], _Result]) -> Iterator[_Result]:
    """Apply `read` to every path in a few threads; results, and the first error, come in the order of paths."""
    try:
        import PIL.Image
    except ImportError as error:
        raise DataError("reading image files needs Pillow: pip install rescnet[images]") from error
    PIL.Image.init()  # register the formats here, before threads need them
    tasks = [paths[start : start + _FILES_PER_TASK] for start in range(0, len(paths), _FILES_PER_TASK)]
    with warnings.catch_warnings(), ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")  # oddities of metadata, which do not touch pixels
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        for results in pool.map(lambda task: [read(path) for path in task], tasks):
            yield from results
