"""Altered model folders: bytes changed, files swapped between runs, and contents forged and signed again."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from rescnet import NetworkConfig, train
from rescnet.cli.info import info
from rescnet.model import Model, describe_images
from rescnet.saving import ModelFileError, layout, load_model, read_run, save_model

from .alterations import alter_bytes, alter_json, as_text
from .outcomes import FAILURES, Tally, judge, limited_memory

Files = dict[str, bytes]
MODEL, HISTORY, READOUT = "model.json", "history.jsonl", "readout.safetensors"
TINY = {"filters": 4, "layers": 2, "block_sizes": [4], "block_stride": 2, "pyramid": (2, 1), "bank": "pca"}
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"head": "ridge", "readout": "kernel", "loo_correction": True},
    {"test_views": "flip", "stack_depth": 1},
)
CLEAN = (ModelFileError, FloatingPointError)
LARGEST_IMAGE = 10**5  # numbers; larger forged images are not predicted
NUMBERS = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0, 1.0, -1.0, 1e6)
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool)


def attack_models(tally: Tally, seed: int, folder: Path) -> None:
    """Alter a model's folder, load it and predict with it, until the tally is full."""
    rng = random.Random(seed)
    pairs = [(_make(options, 0, folder / "made"), _make(options, 5, folder / "made")) for options in VARIANTS]
    place = folder / "model"
    answers: list[object] = []
    for files, _ in pairs:
        with _written(place, files, {}):
            answers.append(answer(place))
    with limited_memory():
        while tally.goes_on:
            number = rng.randrange(len(pairs))
            files, other = pairs[number]
            kind, changes, signed = _alter(rng, files, other)
            with _written(place, files, changes):
                found = judge(lambda: answer(place), answers[number], signed, CLEAN)
                others = (_resume, _info) if rng.random() < 0.1 else ()
                for read in others:
                    also = judge(lambda read=read: read(place), None, True, CLEAN)  # type: ignore[misc]
                    found = also if also[0] in FAILURES else found
                tally.add(kind, *found)


def answer(place: Path) -> object:
    """Load a model and return all that it answers."""
    model = load_model(place)
    shape = model.network.image_shape
    outputs = model.network.outputs(_noise(shape)).numpy() if prod(shape) <= LARGEST_IMAGE else np.zeros(1)
    if not np.isfinite(outputs).all():
        raise AssertionError("outputs are not finite")
    return outputs.tobytes(), model.class_names, repr(model.history), json.dumps(model.about)


def _resume(place: Path) -> None:
    run = read_run(place)
    if run.lock:
        run.lock.release()


def _info(place: Path) -> None:
    with Path("/dev/null").open("w", errors="backslashreplace") as nowhere, _stdout_to(nowhere):  # like the command
        info(place, as_json=False)


@contextmanager
def _stdout_to(stream: Any) -> Iterator[None]:
    import sys

    before, sys.stdout = sys.stdout, stream
    try:
        yield
    finally:
        sys.stdout = before


@cache
def _noise(shape: tuple[int, int, int]) -> torch.Tensor:
    return torch.randint(0, 256, (3, *shape), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def _make(options: dict[str, Any], seed: int, folder: Path) -> Files:
    """Train a tiny model, and return the files of its folder."""
    torch.set_num_threads(1)
    images = np.random.default_rng(seed).integers(0, 256, (30, 1, 8, 8)).astype(np.uint8)
    labels = np.arange(30) % 3
    config = NetworkConfig(**TINY | {"stop_at_zero_error": False, "seed": seed} | options)
    model = train(images, labels, config, validation=(images[:9], labels[:9]))
    about = {"dataset": "noise", "preprocessing": describe_images(images), "images": {"train": 30}}
    shutil.rmtree(folder, ignore_errors=True)
    save_model(Model(model.network, model.history, np.array(["ant", "bee", "Käfer"]), about), folder)
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@contextmanager
def _written(place: Path, files: Files, changes: dict[str, bytes | None]) -> Iterator[None]:
    """Write the files with their changes; afterwards only those that were changed are written again."""
    if not place.exists():
        (place / "layers").mkdir(parents=True)
        for name, data in files.items():
            (place / name).write_bytes(data)
    for name in (READOUT, *files):
        data = changes.get(name, files.get(name))
        if data is None:
            (place / name).unlink(missing_ok=True)
        else:
            (place / name).write_bytes(data)
    yield


def _alter(rng: random.Random, files: Files, other: Files) -> tuple[str, dict[str, bytes | None], bool]:
    """Return the kind of an alteration, the changed files, and whether their checksums are valid again."""
    name = rng.choice(sorted(files))
    layer = rng.choice([name for name in sorted(files) if name.endswith(".safetensors")])
    draw = rng.random()
    if draw < 0.35:
        kind, data = alter_bytes(rng, files[name])
        return f"bytes: {kind}", {name: data}, data == files[name]
    if draw < 0.40:
        return "delete a file", {name: None}, False
    if draw < 0.50:
        chosen = rng.sample(sorted(files), rng.randrange(1, len(files)))
        return "mix two runs", {name: other[name] for name in chosen}, False
    if draw < 0.55:
        return "swap files of one run", {name: files[layer], layer: files[name]}, name == layer
    if draw < 0.60:
        return "unsigned JSON", {MODEL: as_text(alter_json(rng, json.loads(files[MODEL])))}, False
    if draw < 0.75:
        content = alter_json(rng, {k: v for k, v in json.loads(files[MODEL]).items() if k != layout.CHECKSUM})
        return "signed model.json", {MODEL: _signed(content)}, True
    if draw < 0.85:
        lines = [json.loads(line) for line in files[HISTORY].splitlines()]
        return "signed history", _sealed(files, alter_json(rng, lines), {}), True
    if draw < 0.95:
        return "signed tensors", _with_file(files, layer, _alter_tensors(rng, files[layer])), True
    return "signed header", _with_file(files, layer, _alter_header(rng, files[layer])), True


def _signed(content: Any) -> bytes:
    return as_text(_sign(content))


def _sign(content: Any, previous: str = "") -> Any:
    """Sign what can be signed: no list, and nothing that is nested too deeply for it."""
    try:
        return layout.sign(content, previous) if isinstance(content, dict) else content
    except RecursionError:
        return {}


def _with_file(files: Files, name: str, data: bytes) -> dict[str, bytes | None]:
    """Return the changes that put another layer or readout into a model, with valid checksums."""
    facts = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    lines = [json.loads(line) for line in files[HISTORY].splitlines()]
    about = json.loads(files[MODEL])["about"]
    if name == READOUT:
        about["readout"] |= facts
    for line in lines:
        if layout.layer_name(line["layer"]) == name:
            line |= facts
    return _sealed(files, lines, {"about": about}) | {name: data}


def _sealed(files: Files, lines: list[Any], changes: dict[str, Any]) -> dict[str, bytes | None]:
    """Sign the lines of a history, and seal the model with the last one."""
    checksums, text = [""], b""
    for line in lines:
        signed = _sign(line, checksums[-1])
        text += as_text(signed) + b"\n"
        checksums.append(signed.get(layout.CHECKSUM, "") if isinstance(signed, dict) else "")
    seal = {"layers": len(lines), layout.CHECKSUM: checksums[-1], "previous": checksums[-2] if lines else ""}
    return {HISTORY: text, MODEL: _signed(json.loads(files[MODEL]) | changes | {"sealed": seal})}


def _alter_tensors(rng: random.Random, data: bytes) -> bytes:
    """Return a safetensors file with other numbers, types, shapes or names."""
    tensors = load(data)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(tensors))
        tensor, what = tensors[name], rng.random()
        if what < 0.5 and tensor.is_floating_point() and tensor.numel():
            where = rng.choice((slice(None), rng.randrange(tensor.numel())))
            tensor.view(-1)[where] = rng.choice(NUMBERS)
        elif what < 0.7:
            tensors[name] = tensor.to(rng.choice(TYPES))
        elif what < 0.85:
            shapes = [tensor.reshape(-1), tensor[None], tensor.reshape(-1)[:0], torch.cat([tensor.reshape(-1)] * 2)]
            tensors[name] = rng.choice(shapes)
        elif what < 0.92 and len(tensors) > 1:
            del tensors[name]
        else:
            tensors[rng.choice(("extra", "loo_correction.centres"))] = tensor.clone()
    return bytes(save({name: tensor.contiguous().clone() for name, tensor in tensors.items()}))


def _alter_header(rng: random.Random, data: bytes) -> bytes:
    """Return a safetensors file with another header: offsets, shapes, types, length."""
    size = int.from_bytes(data[:8], "little")
    header = as_text(alter_json(rng, json.loads(data[8 : 8 + size])))
    claimed = rng.choice((len(header), len(header), len(header), size, 2**40, 2**63, 0, len(header) - 1))
    return claimed.to_bytes(8, "little") + header + data[8 + size :]
