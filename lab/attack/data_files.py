"""Altered data files of every format that is read; those with a checksum must never give another answer."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rescnet import DataError
from rescnet.data import Dataset, load
from rescnet.data.archives import PUBLIC_SETS
from rescnet.data.readers import read_public_set
from rescnet.data.tiny_imagenet import read_tiny_imagenet

from .alterations import alter_bytes
from .outcomes import Tally, judge, limited_memory

Files = dict[str, bytes]
CLEAN = (DataError, FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
TRAIN, TEST = 4, 2  # images of each public set


@dataclass(frozen=True)
class Source:
    """A data set in one format."""

    files: Files
    read: Callable[[Path], object]
    """Returns the content of the data set in a folder."""
    checked: tuple[str, ...] = ()
    """Endings of the files whose checksum is compared."""


def attack_data(tally: Tally, seed: int, folder: Path) -> None:
    """Alter one file of a data set and read it, until the tally is full."""
    rng = random.Random(seed)
    sources = make_sources(np.random.default_rng(seed))
    places = {name: folder / name for name in sources}
    wanted: dict[str, object] = {}
    for name, source in sources.items():
        shutil.rmtree(places[name], ignore_errors=True)
        for file, data in source.files.items():
            (places[name] / file).parent.mkdir(parents=True, exist_ok=True)
            (places[name] / file).write_bytes(data)
        wanted[name] = source.read(places[name])
    with limited_memory():
        while tally.goes_on:
            name = rng.choice(sorted(sources))
            source, place = sources[name], places[name]
            file = rng.choice(sorted(source.files))
            if file.endswith(".npz") and rng.random() < 0.3:
                data, may_differ = _forge_npz(rng, source.files[file]), True
            else:
                data = alter_bytes(rng, source.files[file])[1]
                may_differ = not file.endswith(source.checked) if source.checked else True
            (place / file).write_bytes(data)
            read = source.read
            tally.add(name, *judge(lambda read=read, place=place: read(place), wanted[name], may_differ, CLEAN))  # type: ignore[misc]
            (place / file).write_bytes(source.files[file])


def make_sources(rng: np.random.Generator) -> dict[str, Source]:
    """Return a small data set in every format."""
    images, labels = rng.integers(0, 256, (6, 5, 5), np.uint8), np.arange(6, dtype=np.uint8) % 2
    one = {"x": images, "y": labels, "x_test": images[:2], "y_test": labels[:2], "class_names": np.array(["a", "b"])}
    found = {
        "npz": Source({"own.npz": _saved(np.savez, one)}, lambda place: _content(load(place / "own.npz")), (".npz",)),
        "npz-compressed": Source(
            {"own.npz": _saved(np.savez_compressed, one)}, lambda place: _content(load(place / "own.npz")), (".npz",)
        ),
    }
    for ending in ("", ".gz"):
        found[f"idx{ending}"] = _public("mnist", 0, _idx_files(rng, ending), (".gz",) if ending else ())
    for name in ("cifar10", "cifar100"):
        for version in (0, 1):
            found[f"{name}-{'python' if version else 'binary'}"] = _public(
                name, version, _cifar_files(rng, name, version)
            )
    found["tiny-imagenet"] = _tiny_imagenet(rng)
    for kind in ("png", "jpeg", "bmp", "gif", "tiff", "webp", "ppm"):
        files = {f"{name}/{n}.{kind}": _picture(rng, kind) for name in "ab" for n in range(2)}
        checked = (".png",) if kind == "png" else ()
        found[kind] = Source(files, lambda place: _content(load(place, strict=True)), checked)
    return found


def _content(dataset: Dataset) -> object:
    parts = [part for part in (dataset.train, dataset.validation, dataset.test) if part is not None]
    return [(part.images.tobytes(), part.images.shape, part.labels.tobytes(), part.class_names) for part in parts]


def _saved(save: Any, arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    save(stream, **arrays)
    return stream.getvalue()


def _public(name: str, version: int, files: Files, checked: tuple[str, ...] = ()) -> Source:
    few = replace(PUBLIC_SETS[name], n_train=5 if name == "cifar10" else TRAIN, n_test=TEST)
    layout = replace(few.layouts[version], folder="")
    return Source(files, lambda place: _content(read_public_set(few, layout, place)), checked)


def _idx_files(rng: np.random.Generator, ending: str) -> Files:
    files = {}
    for prefix, n in (("train", TRAIN), ("t10k", TEST)):
        images = struct.pack(">4I", 0x803, n, 28, 28) + rng.bytes(n * 784)
        labels = struct.pack(">2I", 0x801, n) + bytes(range(n))
        for name, data in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
            files[name + ending] = gzip.compress(data) if ending else data
    return files


def _cifar_files(rng: np.random.Generator, name: str, version: int) -> Files:
    public_set = PUBLIC_SETS[name]
    layout, files = public_set.layouts[version], {}
    for names, n in ((layout.train, 1 if name == "cifar10" else TRAIN), (layout.test, TEST)):
        for file in names:
            pixels, labels = rng.integers(0, 256, (n, 3072), np.uint8), list(range(n))
            records = [
                bytes([*([0] if layout.coarse_labels else []), labels[i]]) + pixels[i].tobytes() for i in range(n)
            ]
            key = "fine_labels" if layout.coarse_labels else "labels"
            # Many names, so that the pickle needs long memo indices, like the official ones.
            pickled = {"data": pixels, key: labels, "filenames": [f"{file}-{i}.png" for i in range(300)]}
            files[file] = b"".join(records) if version == 0 else pickle.dumps(pickled, protocol=2)
    classes = [f"class {number}" for number in range(public_set.classes)]
    key = "fine_label_names" if layout.coarse_labels else "label_names"
    files[layout.names[0]] = "\n".join(classes).encode() if version == 0 else pickle.dumps({key: classes}, protocol=2)
    return files


def _picture(rng: np.random.Generator, kind: str, side: int = 8) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(stream, format=kind)
    return stream.getvalue()


def _tiny_imagenet(rng: np.random.Generator) -> Source:
    few = replace(PUBLIC_SETS["tiny-imagenet"], classes=2, n_train=2, n_test=1)
    layout = replace(few.layouts[0], folder="")
    files = {f"train/n{c}/images/n{c}_0.JPEG": _picture(rng, "jpeg", 64) for c in range(2)}
    files |= {"val/images/val_0.JPEG": _picture(rng, "jpeg", 64), "wnids.txt": b"n0\nn1\n"}
    files |= {"val/val_annotations.txt": b"val_0.JPEG\tn1\t0\t0\t9\t9\n", "words.txt": b"n0\tcat\nn1\tdog, hound\n"}
    return Source(files, lambda place: _content(read_tiny_imagenet(few, layout, place)))


def _forge_npz(rng: random.Random, data: bytes) -> bytes:
    """Return an archive whose arrays are altered, with valid checksums."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        victim = rng.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            if name == victim and rng.random() < 0.7:  # most bytes that matter are in the header
                content = alter_bytes(rng, content[:128])[1] + content[128:]
            elif name == victim:
                content = alter_bytes(rng, content)[1]
            new.writestr(rng.choice((name, name, name, "x_val.npy", "Y.npy")) if name == victim else name, content)
    return stream.getvalue()
