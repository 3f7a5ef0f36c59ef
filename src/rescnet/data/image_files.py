"""Image files: reading of headers and decoding with Pillow.

Pillow is imported when the first image is read. Decoding uses all cores and keeps the order of the files. Many of them
are read by processes, because Pillow holds Python's lock for most of the time that a small image takes.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from ..base.files import open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
# Formats whose reader runs another program are left out, e.g. EPS, which runs Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_GREY_MODES = ("1", "L", "LA", "La")
_SIXTEEN_BIT_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # older versions of Pillow use "I" for 16-bit PNG
_CAMERA_FORMATS = ("JPEG", "MPO")  # in which cameras store the orientation of a photograph
_EXIF_ORIENTATION = 0x0112
_NO_OUTPUT = logging.NullHandler()  # Pillow logs what it raises too; without a handler that is printed
_MANY_FILES = 4000  # from here on processes are worth their start, about a second
_FILES_PER_THREAD, _FILES_PER_PROCESS = 16, 128  # at a time

Progress = Callable[[int, int], None]  # called with the files read and the total
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ImageHeader:
    """Properties of an image file that are known before it is decoded."""

    height: int
    width: int
    is_grey: bool


def read_headers(paths: Sequence[Path], progress: Progress | None = None) -> list[ImageHeader | DataError]:
    """Read the size and colour mode of every file, without decoding it; an unreadable one gives its error."""
    return list(_in_order(paths, _read_header, progress))


def _read_header(path: Path) -> ImageHeader:
    with _opened(path) as image:
        sides = image.height, image.width
        h, w = reversed(sides) if _orientation(image) in (5, 6, 7, 8) else sides
        return ImageHeader(h, w, image.mode in _GREY_MODES + _SIXTEEN_BIT_MODES)


def read_images(
    paths: Sequence[Path],
    channels: int,
    size: tuple[int, int],
    resize: bool = True,
    progress: Progress | None = None,
    errors: dict[Path, DataError] | None = None,
) -> npt.NDArray[np.uint8]:
    """Decode image files into one array, shape (readable files, channels, h, w).

    The error of a file that cannot be read is added to ``errors``. Without ``errors`` it is raised.

    Transparency is dropped, 16-bit grey is scaled to 8 bits, and photographs are rotated by their EXIF orientation.
    Three channels convert grey images to RGB. Images of another size than (h, w) are resized until they cover it
    (bicubic) and cropped around their centre; without ``resize`` they are errors.
    """
    images = np.empty((len(paths), channels, *size), np.uint8)
    failed: dict[Path, DataError] = {}
    decode = partial(_decode, channels=channels, size=size, resize=resize)
    for number, result in enumerate(_in_order(paths, decode, progress)):
        if isinstance(result, DataError):
            failed[paths[number]] = result
        else:
            images[number - len(failed)] = result
    if errors is not None:
        errors |= failed
    elif failed:
        raise next(iter(failed.values()))
    return images[: len(paths) - len(failed)]


def _decode(path: Path, channels: int, size: tuple[int, int], resize: bool) -> npt.NDArray[np.uint8]:
    from PIL import ImageOps

    with _opened(path, verify=True) as image:
        if image.format in _CAMERA_FORMATS:
            if resize:  # decode at an eighth, a quarter or half of the size, if that is twice the size needed
                image.draft(None, (2 * max(size), 2 * max(size)))
            if _orientation(image) != 1:
                ImageOps.exif_transpose(image, in_place=True)
        return _to_array(path, image, channels, size, resize)


def _to_array(path: Path, image: Image, channels: int, size: tuple[int, int], resize: bool) -> npt.NDArray[np.uint8]:
    """Convert an opened image to (channels, h, w)."""
    import PIL.Image
    from PIL import ImageOps

    h, w = size
    if image.mode == "F":
        raise DataError(f"{path} must have 8-bit or 16-bit pixels, got floating-point pixels of unknown range.")
    if image.mode in _SIXTEEN_BIT_MODES:
        image = PIL.Image.fromarray(_eight_bits(path, np.asarray(image)))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    mode = "L" if channels == 1 else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (w, h):
        if not resize:
            raise DataError(f"{path} must be {h}×{w} like the other images, got {image.height}×{image.width}.")
        image = ImageOps.fit(image, (w, h), PIL.Image.Resampling.BICUBIC)
    array = np.asarray(image, np.uint8)  # (h, w) or (h, w, 3)
    return array[np.newaxis] if channels == 1 else array.transpose(2, 0, 1)


def _orientation(image: Image) -> object:
    """Return the EXIF orientation of a photograph, 1 to 8 if valid; 1 is upright, 5 to 8 swap height and width."""
    if image.format not in _CAMERA_FORMATS or not image.info.keys() & {"exif", "xmp"}:
        return 1
    return image.getexif().get(_EXIF_ORIENTATION, 1)


def _eight_bits(path: Path, values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """Scale 0..65535 to 0..255, with rounding."""
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise DataError(f"{path} must have 8-bit or 16-bit pixels, got values from {wide.min()} to {wide.max()}.")
    return ((wide + 128) // 257).astype(np.uint8)


@contextmanager
def _opened(path: Path, verify: bool = False) -> Iterator[Image]:
    """Open an image; errors while it is opened or decoded name the file."""
    import PIL.Image

    try:
        formats = [name for name in _FORMATS if name in PIL.Image.OPEN]
        with open_regular(path) as file:
            image = PIL.Image.open(file, formats=formats)
            limit = PIL.Image.MAX_IMAGE_PIXELS
            if limit and image.height * image.width > limit:  # Pillow itself warns, and refuses twice the limit
                raise PIL.Image.DecompressionBombError
            if verify and image.format == "PNG":
                image.verify()  # compares the checksums, which decoding does not
                file.seek(0)
                image = PIL.Image.open(file, formats=formats)
            yield image
    except DataError:
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{path} must have at most {PIL.Image.MAX_IMAGE_PIXELS:,} pixels, Pillow's limit against decompression "
            "bombs. Remove it or make it smaller."
        ) from error
    except PIL.UnidentifiedImageError as error:
        raise DataError(f"{path} must be an image ({', '.join(_FORMATS)}), got another format. Remove it.") from error
    except Exception as error:  # damaged files make Pillow raise nearly anything
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as an image ({reason}). Replace or remove it.") from error


def _in_order(
    paths: Sequence[Path], read: Callable[[Path], _Result], progress: Progress | None
) -> Iterator[_Result | DataError]:
    """Apply `read` to every path on all cores; yield results, or errors, in the order of the paths."""
    _import_pillow()
    many, done = len(paths) >= _MANY_FILES, 0
    step = _FILES_PER_PROCESS if many else _FILES_PER_THREAD
    tasks = [paths[start : start + step] for start in range(0, len(paths), step)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if many:
            from joblib import Parallel, delayed  # its processes do not run the main script again

            parts = Parallel(n_jobs=-1, return_as="generator")(delayed(_read_task)(read, task) for task in tasks)
        else:
            parts = pool.map(partial(_read_task, read), tasks)
        for results in parts:
            yield from results
            done += len(results)
            if progress:
                progress(done, len(paths))


def _read_task(read: Callable[[Path], _Result], paths: Sequence[Path]) -> list[_Result | DataError]:
    _import_pillow()
    results: list[_Result | DataError] = []
    for path in paths:
        try:
            results.append(read(path))
        except DataError as error:
            results.append(error)
    return results


def _import_pillow() -> None:
    """Import Pillow, and ignore its warnings about metadata, which does not affect pixels, for good.

    Threads cannot ignore warnings for a while: :func:`warnings.catch_warnings` changes the filters of the process.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise DataError("Image files need Pillow. Use pip install pillow.") from error
    PIL.Image.init()  # register the formats before threads need them
    logging.getLogger("PIL").addHandler(_NO_OUTPUT)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
