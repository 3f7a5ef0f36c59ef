"""Kills at random moments of training, overwriting and resuming; finished runs must equal an uninterrupted one.

One process imports everything once and forks a child for each attempt, so that a thousand kills take minutes.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rescnet.cli import app, resume, train  # noqa: F401  (so that the children need not import them)
from rescnet.saving import ModelFileError, load_model, partial_of

from .outcomes import CLEAN, HANG, SAME, TRACEBACK, WRONG, Tally

ATTEMPT_SECONDS = 60.0
MOST_KILLS = 20  # of one run
INTERRUPTED = 130
SIZES = ["--filters", "4", "--layers", "8", "--block-sizes", "4", "--block-stride", "2", "--pyramid", "2,1"]
OPTIONS = [
    *SIZES,
    "--bank",
    "pca",
    "--no-stop-at-zero-error",
    "--quiet",
    "--device",
    "cpu",
    "--validation-fraction",
    "0",
]
VARIANTS = {"heads": [], "readout": ["--head", "ridge", "--readout", "kernel"]}
Answer = tuple[list[bytes], bytes]


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run: options, seconds it took, what it learned."""

    options: list[str]
    seconds: float
    layers: list[bytes]
    outputs: bytes


def attack_with_kills(tally: Tally, seed: int, folder: Path) -> None:
    """Start runs, kill and resume each a few times, and compare, until the tally is full."""
    torch.set_num_threads(1)
    rng, source = random.Random(seed), folder / "images.npz"
    numbers = np.random.default_rng(seed)
    np.savez(source, x=numbers.integers(0, 256, (60, 8, 8), np.uint8), y=np.arange(60) % 3)
    images = torch.from_numpy(numbers.integers(0, 256, (5, 1, 8, 8), np.uint8))
    references = [
        _refer(name, ["train", str(source), *OPTIONS, *more], folder, images) for name, more in VARIANTS.items()
    ]
    old = _refer("old", ["train", str(source), *OPTIONS, "--seed", "3", "--layers", "3"], folder, images)
    number = 0
    while tally.goes_on:
        number += 1
        reference, overwrites = rng.choice(references), rng.random() < 0.5
        place = folder / f"run{number}" / "m"
        place.parent.mkdir()
        if overwrites:
            shutil.copytree(folder / "old", place)
        _one_run(tally, rng, reference, place, old if overwrites else None, images)
        shutil.rmtree(place.parent)


def _one_run(
    tally: Tally, rng: random.Random, reference: Reference, place: Path, old: Reference | None, images: torch.Tensor
) -> None:
    """Kill a run a few times, then let it finish."""
    kind = "overwrite" if old else "train"
    kills = rng.randrange(1, MOST_KILLS + 1)
    said = place.parent / "said.txt"
    while True:
        partial = partial_of(place)
        target = next((path for path in (partial, place) if (path / "model.json").exists()), None)
        fresh = target is None or (target == place and old is not None and _layers(place) == old.layers)
        words = [*reference.options, "--out", str(place), *(["--overwrite"] if old else [])]
        words = words if fresh else ["train", "--resume", str(target), "--quiet"]
        wait = rng.uniform(0, reference.seconds) if kills and tally.goes_on else None
        written = partial if old else place
        least = 0
        if wait is not None and rng.random() < 0.7:  # around a certain layer, however long the others take
            least = min(_count(written) + rng.randrange(1, 4), len(reference.layers))
            wait = rng.uniform(0, 1.5 * reference.seconds / len(reference.layers))
        code = _attempt(words, said, wait, rng.random() < 0.2, lambda: _count(written) >= least)  # noqa: B023
        if code is None:
            kills -= 1
            tally.add(f"{kind}{'' if fresh else ', resume'}", *_state(reference, place, old, images))
        elif code == 0:
            found = next(path for path in (partial, place) if path.exists())
            if _answer(found, images) != (reference.layers, reference.outputs):
                tally.add(f"{kind}, finished", WRONG, str(words))
            return
        elif code < 0:
            return tally.add(f"{kind}, finished", HANG, str(words))
        elif code != INTERRUPTED:
            return tally.add(f"{kind}, finished", TRACEBACK, f"exit code {code} of {words}: {said.read_text()[-3000:]}")


def _attempt(
    words: list[str], said: Path, wait: float | None, politely: bool, ready: Callable[[], bool] = lambda: True
) -> int | None:
    """Run a command in a child; return its exit code, None if it was killed.

    It is killed some seconds after it is ``ready``. ``politely`` sends SIGINT first and kills while the child tidies
    up. A child that hangs returns -1.
    """
    child = os.fork()
    if not child:
        _be_the_command(words, said)
    latest = end = time.monotonic() + ATTEMPT_SECONDS
    while time.monotonic() < end:
        if end == latest and wait is not None and ready():
            end = time.monotonic() + wait
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(0.002, max(0.0, end - time.monotonic())))
    if politely and wait is not None:
        os.kill(child, signal.SIGINT)
        time.sleep(random.Random(wait).uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return -1 if wait is None else None if code == -signal.SIGKILL else code


def _import_all(words: list[str]) -> None:
    """Run a command in this process, so that its children need not import what it imports late."""
    with suppress(SystemExit):
        app(words)


def _be_the_command(words: list[str], said: Path) -> None:
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with said.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            app(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException as error:
        text = traceback.format_exc()
        print(text, flush=True)
        if isinstance(error, KeyboardInterrupt) and "rescnet/" not in text:
            code = INTERRUPTED  # before or after the command
    finally:
        sys.stdout.flush()
        os._exit(code)


def _state(reference: Reference, place: Path, old: Reference | None, images: torch.Tensor) -> tuple[str, str]:
    """Return the outcome of a kill: what is left must be old, or a part of the new run, bit for bit."""
    partial = partial_of(place)
    try:
        outcome = CLEAN
        for path in (place, partial):
            try:
                layers, outputs = _answer(path, images)
            except ModelFileError:
                continue  # nothing was finished there
            whole = (layers, outputs) == (reference.layers, reference.outputs)
            kept = old is not None and path == place and (layers, outputs) == (old.layers, old.outputs)
            if not whole and not kept and layers != reference.layers[: len(layers)]:
                return WRONG, f"{path} is neither old nor new"
            outcome = SAME
        if old is not None and outcome != SAME:
            return WRONG, f"{place} is lost: {sorted(path.name for path in place.parent.rglob('*'))}"
        if old is not None and not place.exists() and _answer(partial, images) != (reference.layers, reference.outputs):
            return WRONG, f"{place} is gone before the new run is complete"
    except Exception as error:
        return TRACEBACK, repr(error)
    return outcome, ""


def _count(place: Path) -> int:
    """Return the number of layers that a run has written."""
    return len(list((place / "layers").glob("*.safetensors")))


def _layers(place: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((place / "layers").glob("*.safetensors"))]


def _answer(place: Path, images: torch.Tensor) -> Answer:
    """Load a model; return the files of its layers and its outputs."""
    model = load_model(place)
    return _layers(place)[: len(model.network.layers)], model.network.outputs(images).numpy().tobytes()


def _refer(name: str, options: list[str], folder: Path, images: torch.Tensor) -> Reference:
    place, said = folder / name, folder / "said.txt"
    start = time.monotonic()
    code = _attempt([*options, "--out", str(place)], said, None, False)
    if code:
        raise RuntimeError(said.read_text())
    return Reference(options, time.monotonic() - start, *_answer(place, images))
