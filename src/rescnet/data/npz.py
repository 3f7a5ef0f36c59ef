"""Your own arrays: images and labels in a ``.npz`` file, as ``numpy.savez`` writes it."""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from ..base.files import open_regular
from .image_set import CHANNELS, Dataset, Images, ImageSet, Labels

Arrays = dict[str, npt.NDArray[Any]]
_IMAGES_KEYS = ("images", "x", "x_train")
_LABELS_KEYS = ("labels", "y", "y_train")
_KNOWN_KEYS = (*_IMAGES_KEYS, *_LABELS_KEYS, "x_val", "y_val", "x_test", "y_test", "class_names")
_HIGHEST_COMPRESSION = 1032  # bytes that deflate can make of one
_LONGEST_HEADER = 100  # bytes of a member beside its name and its data; an array that is lost takes more
_LAST_CHARACTER = 0x10FFFF  # greatest code of Unicode: Python cannot hold text with a greater one, NumPy does not check


def read_npz(path: Path) -> Dataset:
    """Read a ``.npz`` file.

    It must have ``images`` (or ``x``, or ``x_train``) and ``labels`` (or ``y``, or ``y_train``). It may have ``x_val``
    and ``y_val``, ``x_test`` and ``y_test``, and ``class_names``. Names ignore case.

    Images have shape (n, h, w), (n, h, w, c) or (n, c, h, w), with c of 1 or 3. If both of the last two fit, channels
    come last. uint8 and float32 are kept, other floats become float32, other integers must be in 0..255.

    Labels are integers or strings. With ``class_names`` they are its indices or its members. Without, the classes are
    the sorted training labels.
    """
    arrays = load_arrays(path, _KNOWN_KEYS)
    images_key, labels_key = _only_one(path, arrays, _IMAGES_KEYS), _only_one(path, arrays, _LABELS_KEYS)
    keys = {"train": (images_key, labels_key), "validation": ("x_val", "y_val"), "test": ("x_test", "y_test")}
    labels = {split: _flat_labels(path, y, arrays[y]) for split, (_, y) in keys.items() if y in arrays}
    names, classes = _classes(path, labels["train"], arrays.get("class_names"))
    splits: dict[str, ImageSet] = {}
    for split, (x, y) in keys.items():
        if (x in arrays) != (y in arrays):
            raise DataError(f"{path} must have both or neither of {x} and {y}, got one.")
        if x not in arrays:
            continue
        if not len(arrays[x]):
            raise DataError(f"{path} must have at least one image in {x}, got none.")
        if len(arrays[x]) != len(labels[split]):
            raise DataError(
                f"{path} must have one label per image, got {len(arrays[x])} images in {x} and {len(labels[split])} "
                f"labels in {y}."
            )
        splits[split] = ImageSet(_to_images(path, x, arrays[x]), _to_indices(path, y, labels[split], classes), names)
    return Dataset(path.stem, splits["train"], splits.get("validation"), splits.get("test"))


def load_arrays(path: Path, known: tuple[str, ...]) -> Arrays:
    """Read the arrays of a ``.npz`` file by their names in lower case, which must be `known`."""
    try:
        with open_regular(path) as file:
            start = file.read(6)
            if start == np.lib.format.MAGIC_PREFIX:
                raise DataError(f"{path} must have images and labels, got a single array. Write them with numpy.savez.")
            if not start.startswith(b"PK"):
                raise DataError(f"{path} must be a .npz file, got another format. Write it with numpy.savez.")
            with zipfile.ZipFile(file) as packed:
                members = {member.filename.removesuffix(".npy"): member for member in packed.infolist()}
                _check_names(path, known, list(members), len(packed.infolist()))
                _check_complete(path, packed)
                return {key.lower(): _read_array(path, key, packed, member) for key, member in members.items()}
    except (DataError, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        raise MemoryError(f"{path} does not fit into memory ({error}). Store fewer images in it.") from None
    except Exception as error:  # damaged archives make zipfile, zlib and NumPy raise nearly anything
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as a .npz file ({reason}). Write it with numpy.savez.") from error


def _check_names(path: Path, known: tuple[str, ...], names: list[str], count: int) -> None:
    if unknown := sorted(name for name in names if name.lower() not in known):
        raise DataError(f"{path}: array names must be of {', '.join(known)}, got {unknown[0]!r}.")
    if len({name.lower() for name in names}) < count:
        raise DataError(f"{path}: array names must differ in more than case, got {', '.join(names)}.")


def _check_complete(path: Path, packed: zipfile.ZipFile) -> None:
    """Refuse an archive with bytes that belong to no array: the directory, which lists them, has no checksum."""
    members = sorted(packed.infolist(), key=lambda member: member.header_offset)
    starts = [member.header_offset for member in members] + [packed.start_dir]
    ends = [0] + [m.header_offset + _LONGEST_HEADER + len(m.filename) + m.compress_size for m in members]
    if any(start > end for start, end in zip(starts, ends, strict=True)):
        raise DataError(f"{path} has bytes that belong to no array, so one may be lost. Write it with numpy.savez.")


def _read_array(path: Path, name: str, packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Read one array. A size that the file cannot hold is refused before memory is allocated for it."""
    with packed.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject:
            remedy = "Give all images one size" if name.startswith(("x", "images")) else f"Use {name}.astype(str)"
            raise DataError(f"{path}: {name} must be numbers or text, got Python objects. {remedy}.")
        claimed, stored = prod(shape) * dtype.itemsize, member.file_size - file.tell()
    highest = _HIGHEST_COMPRESSION * min(member.compress_size, path.stat().st_size)
    if claimed != stored or member.file_size > highest:
        raise DataError(
            f"{path}: {name} of shape {shape} must have {claimed:,} bytes, got {min(stored, highest):,}. "
            "Write it again with numpy.savez."
        )
    with packed.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # zipfile compares the checksum at the end of the member only
    return np.atleast_1d(array)


def _only_one(path: Path, arrays: Arrays, keys: tuple[str, ...]) -> str:
    present = [key for key in keys if key in arrays]
    if len(present) != 1:
        found = " and ".join(present) if present else ", ".join(arrays) or "nothing"
        raise DataError(f"{path} must have exactly one of {', '.join(keys)}, got {found}.")
    return present[0]


def _to_images(path: Path, key: str, array: npt.NDArray[Any]) -> Images:
    """Convert an array to (n, c, h, w), uint8 or float32."""
    if array.ndim == 3:
        images = array[:, np.newaxis]
    elif array.ndim == 4 and array.shape[3] in CHANNELS:
        images = array.transpose(0, 3, 1, 2)
    elif array.ndim == 4 and array.shape[1] in CHANNELS:
        images = array
    else:
        hint = f", read as channels last with {array.shape[3]} channels" if array.ndim == 4 else ""
        if array.ndim == 4 and array.shape[3] == 4:
            hint += ". Drop transparency with x[..., :3]"
        raise DataError(
            f"{path}: {key} must have shape (n, h, w), (n, h, w, c) or (n, c, h, w) with c of 1 or 3, "
            f"got {array.shape}{hint}."
        )
    return np.ascontiguousarray(_to_pixels(path, key, images))


def _to_pixels(path: Path, key: str, images: npt.NDArray[Any]) -> Images:
    if images.dtype.kind == "b":
        return images.astype(np.uint8) * np.uint8(255)
    if images.dtype.kind == "f":
        with np.errstate(over="ignore"):
            narrow = images.astype(np.float32)
        if not np.isfinite(narrow).all():
            raise DataError(f"{path}: {key} must be finite in float32, got NaN or infinity.")
        return narrow
    if images.dtype.kind not in "iu":
        raise DataError(f"{path}: {key} must be uint8 or float32, got {images.dtype}.")
    if images.dtype != np.uint8 and images.size and (images.min() < 0 or images.max() > 255):
        raise DataError(
            f"{path}: {key} must be in 0..255, got {images.dtype} from {images.min()} to {images.max()}. "
            "Scale it, or store it as float32."
        )
    return images.astype(np.uint8)


def _flat_labels(path: Path, key: str, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Check that labels are integers or strings, (n,) or (n, 1), and flatten them. Bytes become text."""
    if labels.dtype.kind not in "biuUS":
        raise DataError(f"{path}: {key} must be integers or strings, got {labels.dtype}.")
    if labels.ndim != 1 and labels.shape[1:] != (1,):
        raise DataError(f"{path}: {key} must have shape (n,), got {labels.shape}. Take the argmax of one-hot labels.")
    flat = labels.reshape(-1)
    if flat.dtype.kind == "U" and flat.size:
        codes = np.frombuffer(flat.tobytes(), np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
        if codes.size and (codes.max() > _LAST_CHARACTER or ((codes >= 0xD800) & (codes < 0xE000)).any()):
            raise DataError(f"{path}: {key} must be valid text, got a code that is no character. Write it again.")
    return np.char.decode(flat, "utf-8", "replace") if flat.dtype.kind == "S" else flat


def _classes(
    path: Path, train_labels: npt.NDArray[Any], class_names: npt.NDArray[Any] | None
) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
    """Return the names of the classes and their values in the labels, in the same order."""
    if class_names is None:
        classes = np.unique(train_labels)
        return tuple(str(value) for value in classes), classes
    names = _flat_labels(path, "class_names", class_names).astype(str)
    if len(set(names.tolist())) != len(names):
        raise DataError(f"{path}: class_names must be different, got the same name twice.")
    return tuple(names.tolist()), names if train_labels.dtype.kind == "U" else np.arange(len(names))


def _to_indices(path: Path, key: str, labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> Labels:
    """Replace each label by its index in `classes`."""
    index_of = {value: index for index, value in enumerate(classes.tolist())}
    values, inverse = np.unique(labels, return_inverse=True)
    if unknown := [value for value in values.tolist() if value not in index_of]:
        raise DataError(
            f"{path}: {key} must have labels of the {len(classes)} classes "
            f"{', '.join(str(value) for value in classes[:10].tolist())}{', …' if len(classes) > 10 else ''}, "
            f"got {unknown[0]!r}."
        )
    return np.array([index_of[value] for value in values.tolist()], np.int64)[inverse]
