"""Digests of what every preset learns on small synthetic images: a refactoring must not change them.

    python -m lab.digests              compare with records/digests.json; about five minutes on one core
    python -m lab.digests 'mnist*'     only these cases
    python -m lab.digests --write      write down a new reference

A digest covers the tensors of each layer, the readout, the outputs and all accuracies, bit for bit. It holds for one
kind of machine and one version of PyTorch, which the file names: on another machine, write a reference before a change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import numpy as np
import torch

from rescnet import ComputeOptions, Config, preset_names, train

from .provenance import origin
from .records import RECORDS

SHAPES = {"digits": (1, 8, 8), "cifar": (3, 32, 32), "mnist": (1, 28, 28), "fashion": (1, 28, 28), "tiny": (3, 64, 64)}
EXACT = ComputeOptions(device="cpu", precision="exact")
Case = tuple[str, str, int, ComputeOptions, dict[str, Any]]  # name, preset, training images, machine, options


def cases() -> Iterator[Case]:
    """Yield each preset as it is with few images, with few filters and more images, and in variants."""
    for preset in preset_names():
        yield preset, preset, 60, EXACT, {"layers": 3}
        if preset != "digits":
            count = 120 if preset.startswith("tiny") else 240
            yield f"{preset}/small", preset, count, EXACT, {"layers": 4, "filters": 6}
    for preset in ("digits", "cifar10", "cifar100", "mnist", "cifar10-best"):
        small = {"layers": 3, "filters": 6}
        grey = 0 if preset in ("digits", "mnist") else 2
        half = ComputeOptions(device="cpu", precision="balanced")
        yield f"{preset}/flip", preset, 80, EXACT, small | {"augment": "flip", "test_views": "flip"}
        yield f"{preset}/half", preset, 80, half, small
        yield f"{preset}/random", preset, 60, EXACT, small | {"augment": "flip + shift 2 + rotate 10", "copies": 2}
        yield f"{preset}/kernel", preset, 60, EXACT, small | {"readout": "kernel"}
        yield f"{preset}/stacks", preset, 60, EXACT, small | {"stack_depth": 2, "grey_stack_every": grey}
        yield f"{preset}/float64", preset, 60, ComputeOptions(device="cpu", dtype="float64"), small
        yield f"{preset}/file", preset, 60, ComputeOptions(device="cpu", maps="file"), small


def gratings(shape: tuple[int, int, int], count: int, seed: int, classes: int = 4) -> tuple[Any, Any]:
    """Return noisy gratings, uint8 (count, channels, height, width), and their orientation as the label."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    y, x = np.mgrid[0 : shape[1], 0 : shape[2]]
    images = []
    for angle in labels * np.pi / classes:
        phase = (x * np.cos(angle) + y * np.sin(angle)) * (0.6 + 0.1 * generator.random()) + generator.random() * 6
        image = np.sin(phase)[None] * generator.random((shape[0], 1, 1)) + 0.8 * generator.standard_normal(shape)
        images.append(np.clip(128 + 50 * image, 0, 255))
    return np.stack(images).astype(np.uint8), labels


def digest(case: Case) -> str:
    """Train the network of a case and return the SHA-256 of what it learned and predicts, 16 characters."""
    _, preset, count, compute, options = case
    shape = next(shape for name, shape in SHAPES.items() if preset.startswith(name))
    validation, test = gratings(shape, 24, 1), gratings(shape, 16, 2)
    config = Config(preset, stop_at_zero_error=False, **options).complete()
    model = train(*gratings(shape, count, 0), config, validation=validation, test=test, compute=compute)
    network, history = model.network, model.history
    found: list[Any] = [] if network.readout is None else network.readout.learned()
    for layer in network.layers:
        found += [layer.input_range.low, layer.input_range.high, layer.weights, layer.bias]
        found += [layer.head.weights, layer.head.bias, torch.tensor([layer.rate, layer.positive_share]).double()]
    found += [network.outputs(test[0]), network.outputs(test[0], layers=1)]
    found += [torch.tensor([r.train_accuracy, r.validation_accuracy, r.test_accuracy]).double() for r in history]
    total = hashlib.sha256()
    for tensor in found:
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def main() -> None:
    """Compare digests with the reference, or write it."""
    parser = argparse.ArgumentParser(description="Compare what presets learn with a reference, bit for bit.")
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    file = RECORDS / "digests.json"
    known = json.loads(file.read_text()) if file.exists() else {"digests": {}}
    found = {}
    for case in cases():
        if fnmatch(case[0], asked.pattern):
            found[case[0]] = digest(case)
            before = known["digests"].get(case[0])
            verdict = "new" if before is None else "same" if before == found[case[0]] else "DIFFERENT"
            print(f"{case[0]:28} {found[case[0]]}  {verdict}", flush=True)
    if asked.write:
        facts = origin("cpu", "python -m lab.digests --write")
        file.write_text(json.dumps(facts | {"digests": known["digests"] | found}, indent=1) + "\n")
    elif any(known["digests"].get(name) != value for name, value in found.items()):
        raise SystemExit("some networks differ from the reference.")


if __name__ == "__main__":
    main()
