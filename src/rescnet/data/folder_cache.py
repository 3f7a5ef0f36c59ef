"""Decoded images of a folder in one ``.npz`` file beside it, so that the next run need not decode them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..files import atomic_write
from .image_set import Dataset, ImageSet
from .npz import load_arrays

_VERSION = 2  # of the file; another one is read again from the images
_SPLITS = ("train", "validation", "test")
_FACTS = ("key", "name", "class_names", "notes")
_KNOWN = (*_FACTS, *(f"{split}_{part}" for split in _SPLITS for part in ("images", "labels", "files")))


def cache_of(folder: Path) -> Path:
    """Return the file for the decoded images of a folder: ``photos.cache.npz`` for ``photos``."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}.cache.npz")


def cached(folder: Path, options: object, read: Callable[[], Dataset]) -> Dataset:
    """Return the images of a folder from its cache, or read them and write the cache.

    The cache is used if its options, and the names, sizes and times of all files of the folder, are the same. A note of
    the data set says what was done. A cache that cannot be written is no error.
    """
    file, key = cache_of(folder), _key(folder, options)
    try:
        found = _load(file, key)
    except Exception:  # none, or a damaged one, which makes NumPy raise nearly anything
        found = None
    if found is not None:
        return replace(found, notes=(*found.notes, f"images decoded before, from {file.name}"))
    dataset = read()
    try:
        _save(file, key, dataset)
        note = f"decoded images are kept in {file.name}"
    except OSError as error:
        note = f"decoded images are not kept: {error.strerror or error}"
    return replace(dataset, notes=(*dataset.notes, note))


def _key(folder: Path, options: object) -> str:
    """Return the SHA-256 of the options and of the name, size and time of every file."""
    digest = hashlib.sha256(repr((_VERSION, options)).encode())
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            state = Path(place, name).stat()
            fact = os.path.relpath(place, folder), name, state.st_size, state.st_mtime_ns
            digest.update(json.dumps(fact).encode())
    return digest.hexdigest()


def _save(file: Path, key: str, dataset: Dataset) -> None:
    facts = {"key": [key], "name": [dataset.name], "class_names": dataset.class_names, "notes": dataset.notes}
    arrays: dict[str, Any] = {name: np.array(value, str) for name, value in facts.items()}
    for split in _SPLITS:
        if (part := getattr(dataset, split)) is not None:
            arrays |= {f"{split}_images": part.images, f"{split}_labels": part.labels}
            arrays[f"{split}_files"] = np.array(part.files, str)
    with atomic_write(file) as path, path.open("wb") as stream:
        np.savez(stream, **arrays)


def _load(file: Path, key: str) -> Dataset | None:
    """Return the data set of a cache; None if it is of other files or options."""
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        if str(stored["key"][0]) != key:
            return None
    arrays = load_arrays(file, _KNOWN)
    names = tuple(arrays["class_names"].tolist())
    splits = {
        split: ImageSet(
            arrays[f"{split}_images"], arrays[f"{split}_labels"], names, tuple(arrays[f"{split}_files"].tolist())
        )
        for split in _SPLITS
        if f"{split}_images" in arrays
    }
    return Dataset(str(arrays["name"][0]), **splits, notes=tuple(arrays["notes"].tolist()))
