"""Image files: folders with one sub-folder per class, and decoding with Pillow.

::

    pets/                     pets/
      cat/1.png 2.png ...       train/cat/... train/dog/...
      dog/1.png 2.png ...       val/cat/...   val/dog/...      (or validation/)
                                test/cat/...  test/dog/...

Pillow is imported when the first image is read. Decoding uses a few threads and keeps the order of the files.
"""

from __future__ import annotations

import logging
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

from .image_set import DataError, Dataset, ImageSet, regular_file

if TYPE_CHECKING:
    from PIL.Image import Image

_SYSTEM_FILES = {"thumbs.db", "desktop.ini"}
_SPLIT_OF_FOLDER = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}
# Formats whose reader runs another program are left out, e.g. EPS, which runs Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_GREY_MODES = ("1", "L", "LA", "La")
_SIXTEEN_BIT_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # older versions of Pillow use "I" for 16-bit PNG
_CAMERA_FORMATS = ("JPEG", "MPO")  # in which cameras store the orientation of a photograph
_EXIF_ORIENTATION = 0x0112
_NO_OUTPUT = logging.NullHandler()  # Pillow logs what it raises too; without a handler that is printed
_MAX_THREADS = 8
_FILES_PER_TASK = 64

ClassFiles = dict[str, list[Path]]  # image files of each class; classes and files sorted by name
_Result = TypeVar("_Result")


def read_image_folder(folder: Path, image_size: tuple[int, int] | None = None) -> Dataset:
    """Read a folder of images.

    Classes are sorted by name. Images must be all grey (one channel) or all colour (three channels). All headers are
    checked before the first image is decoded, so that a wrong size or format is reported at once.

    The folder has one sub-folder per class; or ``train`` and optionally ``val`` (or ``validation``) and ``test``, each
    with the same classes. Hidden files and folders, Thumbs.db and desktop.ini are skipped. Images are resized to
    ``image_size`` (h, w); without it, all must have the same size.
    """
    splits = {split: _list_classes(part) for split, part in _find_splits(folder).items()}
    names = tuple(splits["train"])
    for split, classes in splits.items():
        if odd := sorted(set(names) ^ set(classes)):
            raise DataError(
                f"{folder}: all splits must have the same class folders, "
                f"got {odd[0]!r} in only one of train and {split}."
            )
    paths = [path for classes in splits.values() for files in classes.values() for path in files]
    headers = read_headers(paths)
    channels = _shared_channels(paths, headers)
    size = image_size or _shared_size(paths, headers)
    read = {}
    for split, classes in splits.items():
        files = [path for name in names for path in classes[name]]
        labels = np.repeat(np.arange(len(names), dtype=np.int64), [len(classes[name]) for name in names])
        read[split] = ImageSet(read_images(files, channels, size, resize=image_size is not None), labels, names)
    return Dataset(folder.resolve().name, read["train"], read.get("validation"), read.get("test"))


def _find_splits(folder: Path) -> dict[str, Path]:
    """Return the folder of each split; a folder of classes is all training images.

    A folder has splits if all its sub-folders have names of splits. Otherwise ``train`` is a class of vehicles.
    """
    found = _sub_folders(folder)
    if not found or any(path.name not in _SPLIT_OF_FOLDER for path in found):
        return {"train": folder}
    splits = {_SPLIT_OF_FOLDER[path.name]: path for path in found}
    if len(splits) < len(found):
        raise DataError(f"{folder} must have one of val and validation, got both. Remove one.")
    if "train" not in splits:
        raise DataError(f"{folder} must have a train folder, got only {', '.join(path.name for path in found)}.")
    return {split: splits[split] for split in ("train", "validation", "test") if split in splits}


def _list_classes(folder: Path) -> ClassFiles:
    classes: ClassFiles = {}
    for class_folder in _sub_folders(folder):
        files = _visible(class_folder)
        if not files:
            raise DataError(f"{class_folder} has no images. Add some, or remove the folder.")
        if nested := [path for path in files if path.is_dir()]:
            raise DataError(
                f"{nested[0]} must be an image, got a folder. Put images directly into the folder of their class."
            )
        classes[class_folder.name] = files
    if not classes:
        raise DataError(f"{folder} must have one sub-folder of images per class, got none.")
    return classes


def _shared_channels(paths: list[Path], headers: list[ImageHeader]) -> int:
    """Return the number of channels of all images, 1 or 3."""
    grey = [path for path, header in zip(paths, headers, strict=True) if header.is_grey]
    if grey and len(grey) < len(paths):
        colour = next(path for path, header in zip(paths, headers, strict=True) if not header.is_grey)
        more = f" and {len(grey) - 1} more" if len(grey) > 1 else ""
        raise DataError(f"images must be all grey or all colour, got {grey[0]}{more} in grey and {colour} in colour.")
    return 1 if grey else 3


def _shared_size(paths: list[Path], headers: list[ImageHeader]) -> tuple[int, int]:
    """Return the (h, w) of all images."""
    first = headers[0]
    for path, header in zip(paths, headers, strict=True):
        if (header.height, header.width) != (first.height, first.width):
            raise DataError(
                f"images must have one size (height×width), got {first.height}×{first.width} for {paths[0]} and "
                f"{header.height}×{header.width} for {path}. Resize them with image_size (--image-size)."
            )
    return first.height, first.width


def _sub_folders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.is_dir()]


def _visible(folder: Path) -> list[Path]:
    """List a folder, sorted by name, without hidden files and files of file managers."""
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and path.name.lower() not in _SYSTEM_FILES
    )


@dataclass(frozen=True)
class ImageHeader:
    """Properties of an image file that are known before it is decoded."""

    height: int
    width: int
    is_grey: bool


def read_headers(paths: Sequence[Path]) -> list[ImageHeader]:
    """Read the size and colour mode of every file, without decoding it."""

    def header(path: Path) -> ImageHeader:
        with _opened(path) as image:
            h, w = (image.width, image.height) if _is_rotated(image) else (image.height, image.width)
            return ImageHeader(h, w, image.mode in _GREY_MODES + _SIXTEEN_BIT_MODES)

    return list(_in_order(paths, header))


def read_images(paths: Sequence[Path], channels: int, size: tuple[int, int], resize: bool) -> npt.NDArray[np.uint8]:
    """Decode image files into one array.

    Transparency is dropped, 16-bit grey is scaled to 8 bits, and photographs are rotated by their EXIF orientation.
    Three channels convert grey images to RGB. Images of another size than (h, w) are resized (bicubic) or refused.

    Returns
    -------
    ndarray of uint8, shape (n, channels, h, w)
    """
    images = np.empty((len(paths), channels, *size), np.uint8)

    def decode(path: Path) -> npt.NDArray[np.uint8]:
        from PIL import ImageOps

        with _opened(path, verify=True) as image:
            if image.format in _CAMERA_FORMATS:
                ImageOps.exif_transpose(image, in_place=True)
            return _to_array(path, image, channels, size, resize)

    for number, array in enumerate(_in_order(paths, decode)):
        images[number] = array
    return images


def _to_array(path: Path, image: Image, channels: int, size: tuple[int, int], resize: bool) -> npt.NDArray[np.uint8]:
    """Convert an opened image to (channels, h, w)."""
    import PIL.Image

    h, w = size
    if image.mode == "F":
        raise DataError(f"{path} must have 8-bit or 16-bit pixels, got floating-point pixels of unknown range.")
    if image.mode in _SIXTEEN_BIT_MODES:
        image = PIL.Image.fromarray(_eight_bits(path, np.asarray(image)))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (w, h):
        if not resize:
            raise DataError(f"{path} must be {h}×{w} like the other images, got {image.height}×{image.width}.")
        image = image.resize((w, h), PIL.Image.Resampling.BICUBIC)
    array = np.asarray(image, np.uint8)  # (h, w) or (h, w, 3)
    return array[np.newaxis] if channels == 1 else array.transpose(2, 0, 1)


def _is_rotated(image: Image) -> bool:
    """Return whether the EXIF orientation swaps height and width."""
    return image.format in _CAMERA_FORMATS and image.getexif().get(_EXIF_ORIENTATION) in (5, 6, 7, 8)


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
        if verify:
            with PIL.Image.open(regular_file(path), formats=formats) as image:
                if image.format == "PNG":
                    image.verify()  # compares the checksums, which decoding does not
        with PIL.Image.open(regular_file(path), formats=formats) as image:
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


def _in_order(paths: Sequence[Path], read: Callable[[Path], _Result]) -> Iterator[_Result]:
    """Apply `read` to every path in a few threads; results and the first error keep the order of the paths."""
    try:
        import PIL.Image
    except ImportError as error:
        raise DataError("Image files need Pillow. Install it with: pip install rescnet[images]") from error
    PIL.Image.init()  # register the formats before threads need them
    logging.getLogger("PIL").addHandler(_NO_OUTPUT)
    tasks = [paths[start : start + _FILES_PER_TASK] for start in range(0, len(paths), _FILES_PER_TASK)]
    with warnings.catch_warnings(), ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")  # about metadata, which does not affect pixels
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        for results in pool.map(lambda task: [read(path) for path in task], tasks):
            yield from results
