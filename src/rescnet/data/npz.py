"""Your own arrays: images and labels in a ``.npz`` file, as ``numpy.savez`` writes it."""

from __future__ import annotations

import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .image_set import DataError, Dataset, Images, ImageSet, Labels

Arrays = dict[str, npt.NDArray[Any]]
_IMAGES_KEYS = ("images", "x", "x_train")
_LABELS_KEYS = ("labels", "y", "y_train")
_KNOWN_KEYS = (*_IMAGES_KEYS, *_LABELS_KEYS, "x_val", "y_val", "x_test", "y_test", "class_names")


def read_npz(path: Path) -> Dataset:
    """Read a ``.npz`` file.

    Parameters
    ----------
    path : Path
        Must have ``images`` (or ``x``, or ``x_train``) and ``labels`` (or ``y``, or ``y_train``). May have ``x_val``
        and ``y_val``, ``x_test`` and ``y_test``, and ``class_names``. Names ignore case.

        Images have shape (n, h, w), (n, h, w, c) or (n, c, h, w), with c of 1 or 3. If both of the last two fit,
        channels come last. uint8 and float32 are kept, other floats become float32, other integers must be in 0..255.

        Labels are integers or strings. With ``class_names`` they are its indices or its members. Without, the classes
        are the sorted training labels.

    Raises
    ------
    DataError
        If an array is missing, unknown, pickled, or has another shape or type.
    """
    arrays = _load_arrays(path)
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


def _load_arrays(path: Path) -> Arrays:
    try:
        with path.open("rb") as file:  # closed here, because numpy leaves it open if it refuses the content
            if not file.read(6).startswith((b"PK", np.lib.format.MAGIC_PREFIX)):  # numpy would read it as a pickle
                raise DataError(f"{path} must be a .npz file, got another format. Write it with numpy.savez.")
            file.seek(0)
            stored = np.load(file, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise DataError(f"{path} must have images and labels, got a single array. Write them with numpy.savez.")
            if unknown := sorted(key for key in stored.files if key.lower() not in _KNOWN_KEYS):
                raise DataError(f"{path}: array names must be of {', '.join(_KNOWN_KEYS)}, got {unknown[0]!r}.")
            if len({key.lower() for key in stored.files}) < len(set(stored.files)):
                raise DataError(f"{path}: array names must differ in more than case, got {', '.join(stored.files)}.")
            _refuse_false_headers(path, stored)
            return {key.lower(): np.atleast_1d(stored[key]) for key in stored.files}
    except DataError:
        raise
    except MemoryError as error:
        raise MemoryError(f"{path} does not fit into memory ({error}). Store fewer images in it.") from None
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a .npz file ({error}). Write it with numpy.savez.") from error


def _refuse_false_headers(path: Path, stored: Any) -> None:
    """Refuse an array whose header claims another size than is stored, before memory is allocated for it."""
    for member in stored.zip.infolist():
        name = member.filename.removesuffix(".npy")
        with stored.zip.open(member) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            if dtype.hasobject:
                raise DataError(f"{path}: {name} must be numbers or text, got Python objects. Use {name}.astype(str).")
            claimed, stored_bytes = prod(shape) * dtype.itemsize, member.file_size - file.tell()
        if claimed != stored_bytes:
            raise DataError(
                f"{path}: {name} of shape {shape} must have {claimed:,} bytes, got {stored_bytes:,}. "
                "Write it again with numpy.savez."
            )


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
    elif array.ndim == 4 and array.shape[3] in (1, 3):
        images = array.transpose(0, 3, 1, 2)
    elif array.ndim == 4 and array.shape[1] in (1, 3):
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
