"""The default network on few and on all images of public sets, with its calibration: one line of ``bench.jsonl`` each.

    python -m lab.default_network cifar10:50:balanced cifar100:50:best cifar10:all:best --seeds 0 1 2

A case is a source and a quality: ``cifar10:50`` has the first 50 training images of each class, ``cifar10:all`` all.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from rescnet import ComputeOptions, Config
from rescnet.base.intervals import left_out_interval
from rescnet.config.defaults import check_quality
from rescnet.data import load
from rescnet.network.device import choose_device
from rescnet.training.choice import Choice
from rescnet.training.listener import Listener
from rescnet.training.train import train

from .provenance import origin, shown_command

BINS = 15


def calibration_error(chances: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the expected calibration error of probabilities (n, classes): bins of equal width."""
    confidence, guess = chances.max(1)
    right, place = (guess == labels).double(), (confidence * BINS).ceil().long().clamp(1, BINS)
    return sum(
        float(inside.double().mean()) * abs(float(confidence[inside].mean()) - float(right[inside].mean()))
        for inside in (place == number for number in range(1, BINS + 1))
        if bool(inside.any())
    )


class Notes(Listener):
    """Lines about the choice of the network."""

    def chosen(self, choice: Choice) -> None:
        """Keep the lines."""
        self.lines = choice.notes


def measure(source: str, quality: str, seed: int, limit: int | None) -> dict[str, Any]:
    """Train the default network with one seed, and return what it reaches on the test images."""
    data, compute = load(source), ComputeOptions()
    assert data.test is not None
    images, labels = data.train.images, data.train.labels
    pictures, truth = torch.as_tensor(data.test.images[:limit]), torch.as_tensor(data.test.labels[:limit])
    start = time.perf_counter()
    notes = Notes()
    model = train(images, labels, Config(seed=seed), quality=check_quality(quality), compute=compute, listener=notes)
    network, history = model.network, model.history
    seconds = time.perf_counter() - start
    outputs = network.outputs(pictures).cpu()
    accuracy, record = float((outputs.argmax(1) == truth).double().mean()), history.readout
    assert record is not None and record.loo_accuracy is not None
    low, high = left_out_interval(record.loo_accuracy, len(images))
    return {
        "seed": seed,
        "test_accuracy": accuracy,
        "loo_accuracy": record.loo_accuracy,
        "interval_holds": low <= accuracy <= high,
        "calibration_error": calibration_error(network.probabilities(outputs), truth),
        "seconds": seconds,
        "notes": notes.lines,
        "layers": len(network.layers),
        "augment": network.config.augment,
        "kernel_copies": network.config.kernel_copies,
    }


def main() -> None:
    """Measure each case with each seed, and append it to the record, or write all to a file."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("cases", nargs="+", help="source:quality, e.g. cifar10:50:balanced")
    made.add_argument("--seeds", nargs="+", type=int, default=[0])
    made.add_argument("--test", type=int, default=None, help="test images, by default all")
    made.add_argument("--out", default="", help="file for the entries, instead of the record")
    made.add_argument("--limit", type=float, default=1e9, help="seconds after which no case is started")
    arguments, began, entries = made.parse_args(), time.perf_counter(), []
    for case in arguments.cases:
        source, _, quality = case.rpartition(":")
        source = source.removesuffix(":all")
        runs = []
        for seed in arguments.seeds:
            if time.perf_counter() - began < arguments.limit:
                runs.append(measure(source, quality, seed, arguments.test))
                shown = {key: round(value, 4) for key, value in runs[-1].items() if isinstance(value, float)}
                print(case, seed, shown, runs[-1]["augment"], runs[-1]["layers"], flush=True)
        facts = origin(choose_device("auto"), shown_command("lab.default_network"))
        entries.append(
            {
                "file": "default",
                "name": case,
                **facts,
                "question": "default",
                "dataset": source.partition(":")[0],
                "runs": runs,
            }
        )
        if arguments.out:  # where pandas, which the record needs, is not installed
            Path(arguments.out).write_text(json.dumps(entries))
    if not arguments.out:
        from .records import append_bench

        for entry in entries:
            print(append_bench(entry))


if __name__ == "__main__":
    main()
