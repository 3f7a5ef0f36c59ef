"""Train several neighbours one after the other, each as many epochs as its share of the time allows; one JSON file.

    python benchmarks/neighbours/train_all.py cifar10 --seconds 270 --out results/neighbours-cifar10.json

The number of epochs is decided before a run, from a few timed steps, so that the schedule ends where it should.
One that fails leaves the others their turn. The file is written after every epoch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

BENCHMARKS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))
sys.path.insert(0, str(BENCHMARKS.parent / "src"))
from neighbours import NETWORKS  # noqa: E402
from neighbours.train import add_options, recipe_of, show, split_images  # noqa: E402
from neighbours.training import DeviceImages, epochs_within, train_neighbour  # noqa: E402
from rescnet.experiments.provenance import origin, shown_command  # noqa: E402

ALL = "network-in-network,maxout,stochastic-pooling"
SHARE_OF_TRAINING = 0.8  # of a network's time; the rest is evaluation, start and a margin
MOST_EPOCHS = 100


def main() -> None:
    """Train them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--networks", default=ALL, help=f"parted by commas, of {', '.join(sorted(NETWORKS))}")
    parser.add_argument("--out", type=Path, required=True)
    add_options(parser)
    parser.set_defaults(seconds=270.0, epochs=MOST_EPOCHS)
    arguments = parser.parse_args()
    names = arguments.networks.split(",")
    if unknown := set(names) - set(NETWORKS):
        parser.error(f"there is no network {', '.join(sorted(unknown))}: choose from {', '.join(sorted(NETWORKS))}.")
    deadline = time.monotonic() + arguments.seconds
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(auto if arguments.device == "auto" else arguments.device)
    splits = split_images(arguments.dataset, arguments.held_out, arguments.limit)
    training = DeviceImages(*splits["train"], device)
    others = {name: DeviceImages(*part, device, like=training) for name, part in splits.items() if name != "train"}
    facts = origin(device, shown_command("python", "benchmarks/neighbours/train_all.py"))
    images = {name: len(labels) for name, (_, labels) in splits.items()}
    results: list[dict[str, Any]] = []

    def write() -> None:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")

    for number, name in enumerate(names):
        ends = time.monotonic() + (deadline - time.monotonic()) / (len(names) - number)
        result = {"name": name, "dataset": arguments.dataset, **facts, "images": images, "history": [], "error": ""}
        results.append(result)
        try:
            train_one(name, result, arguments, training, others, ends, write)
        except (RuntimeError, ValueError) as error:
            result["error"] = str(error).splitlines()[0]
            print(f"{name}: {result['error']}", flush=True)
        write()


def train_one(
    name: str,
    result: dict[str, Any],
    arguments: argparse.Namespace,
    training: DeviceImages,
    others: dict[str, DeviceImages],
    ends: float,
    write: Callable[[], None],
) -> None:
    """Train one network until ``ends``, of ``time.monotonic()``; its result grows and is written."""
    classes = int(training.labels.max()) + 1
    recipe = recipe_of(argparse.Namespace(**vars(arguments) | {"network": name}))
    share = SHARE_OF_TRAINING * (ends - time.monotonic())
    fitting = epochs_within(share, NETWORKS[name], training, classes, recipe)
    recipe = replace(recipe, epochs=min(recipe.epochs, fitting))
    result |= {"config": asdict(recipe), "seed": recipe.seed}
    print(f"{name}: {recipe.epochs} epochs", flush=True)

    def heard(record: dict[str, Any]) -> None:
        show(record)
        if record["epoch"] == 1:  # begun again: what was before is void
            result["history"].clear()
        result["history"].append(record)
        result["config"]["learning_rate"] = record["learning_rate"]
        write()

    train_neighbour(NETWORKS[name], training, others, classes, recipe, ends, heard)


if __name__ == "__main__":
    main()
