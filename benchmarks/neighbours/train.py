"""Train one of the neighbours on a public set: test accuracy over seconds, as JSON.

python benchmarks/neighbours/train.py resnet18 cifar10 --epochs 30 --out results/neighbour-resnet18-cifar10.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

BENCHMARKS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))
sys.path.insert(0, str(BENCHMARKS.parent / "src"))
from neighbours import LEARNING_RATES, NETWORKS  # noqa: E402
from neighbours.training import DeviceImages, Recipe, train_neighbour  # noqa: E402
from rescnet.data import load  # noqa: E402
from rescnet.data.splits import hold_out_count  # noqa: E402
from rescnet.experiments.provenance import origin, shown_command  # noqa: E402


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a recipe."""
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=None, help="the greatest; default: the network's own")
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--schedule", choices=["one-cycle", "cosine"], default="one-cycle")
    parser.add_argument("--flips", action="store_true", help="mirror images at random; default: no augmentation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=5000, help="training images held out")
    parser.add_argument("--limit", type=int, default=None, help="training images used, for a trial")
    parser.add_argument("--seconds", type=float, default=3600, help="begin no epoch after so many")
    parser.add_argument("--device", default="auto")


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """Return the recipe asked for."""
    names = ("epochs", "batch", "weight_decay", "schedule", "flips", "seed")
    rate = arguments.learning_rate or LEARNING_RATES[arguments.network] * arguments.batch / 512
    return Recipe(learning_rate=rate, **{name: getattr(arguments, name) for name in names})


def split_images(dataset: str, held_out: int, limit: int | None) -> dict[str, tuple[Any, Any]]:
    """Return the images and labels of the splits: train, validation (held-out training images) and test."""
    data = load(dataset)
    images, labels = data.train.images[:limit], data.train.labels[:limit]
    splits = {"test": (data.test.images[:limit], data.test.labels[:limit])} if data.test else {}
    if not held_out:
        return {"train": (images, labels), **splits}
    kept, held = hold_out_count(labels, held_out, seed=0)
    return {"train": (images[kept], labels[kept]), "validation": (images[held], labels[held]), **splits}


def run_neighbour(
    name: str,
    splits: dict[str, tuple[Any, Any]],
    recipe: Recipe,
    device: torch.device,
    deadline: float,
    heard: Any = None,
) -> list[dict[str, Any]]:
    """Train a neighbour on the splits; records as :func:`neighbours.training.train_neighbour` returns them."""
    training = DeviceImages(*splits["train"], device)
    others = {n: DeviceImages(*s, device, like=training) for n, s in splits.items() if n != "train"}
    classes = int(training.labels.max()) + 1
    return train_neighbour(NETWORKS[name], training, others, classes, recipe, deadline, heard)


def show(record: dict[str, Any]) -> None:
    """Print an epoch's line."""
    others = " ".join(f"{k.split('_')[0]} {100 * v:.2f}" for k, v in record.items() if k.endswith("_accuracy"))
    print(f"epoch {record['epoch']:3d} {record['seconds']:7.1f} s  loss {record['loss']:.3f}  {others}", flush=True)


def main() -> None:
    """Train and write the JSON file, after each epoch anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("dataset")
    parser.add_argument("--out", type=Path, required=True)
    add_options(parser)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(auto if arguments.device == "auto" else arguments.device)
    recipe = recipe_of(arguments)
    splits = split_images(arguments.dataset, arguments.held_out, arguments.limit)
    result: dict[str, Any] = {
        "name": arguments.network,
        "dataset": arguments.dataset,
        "config": asdict(recipe),
        **origin(device, shown_command("python", "benchmarks/neighbours/train.py")),
        "seed": recipe.seed,
        "images": {name: len(labels) for name, (_, labels) in splits.items()},
        "history": [],
    }

    def heard(record: dict[str, Any]) -> None:
        show(record)
        if record["epoch"] == 1:  # begun again: what was before is void
            result["history"].clear()
        result["history"].append(record)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")

    run_neighbour(arguments.network, splits, recipe, device, deadline, heard)


if __name__ == "__main__":
    main()
