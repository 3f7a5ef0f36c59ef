"""Train baselines one after the other, and append each to the record.

    python -m lab.baselines cifar10 --networks resnet18 --epochs 30
    python -m lab.baselines cifar10 --seconds 270

Each network has an equal share of the time. The number of epochs is decided before a run, from a few timed steps, so
that its schedule ends in time.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, replace
from typing import Any

import torch

from rescnet.data import load
from rescnet.network.device import choose_device

from ..provenance import origin, shown_command
from ..records import append_epochs
from ..runner import split_images
from . import LABELS, LEARNING_RATES, NETWORKS
from .training import DeviceImages, Recipe, epochs_within, train_baseline

SHARE_OF_TRAINING = 0.8  # of a network's time; the rest is evaluation and a margin


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("dataset")
    made.add_argument("--networks", nargs="+", choices=sorted(NETWORKS), default=sorted(NETWORKS))
    made.add_argument("--epochs", type=int, default=100, help="maximum number of epochs")
    made.add_argument("--batch", type=int, default=512)
    made.add_argument("--learning-rate", type=float, default=None, help="peak; default: the network's own")
    made.add_argument("--weight-decay", type=float, default=5e-4)
    made.add_argument("--flips", action="store_true", help="mirror images at random")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--held-out", type=int, default=5000, help="validation images")
    made.add_argument("--limit", type=int, default=None, help="training images, for a trial")
    made.add_argument("--seconds", type=float, default=270.0, help="of all networks together")
    made.add_argument("--device", default="auto")
    return made


def main() -> None:
    """Train all networks asked for."""
    arguments = parser().parse_args()
    deadline = time.monotonic() + arguments.seconds
    device = choose_device(arguments.device)
    splits = split_images(load(arguments.dataset), arguments.held_out, arguments.limit, seed=0)
    training = DeviceImages(splits["train"].images, splits["train"].labels, device)
    others = {
        name: DeviceImages(part.images, part.labels, device, like=training)
        for name, part in splits.items()
        if name != "train"
    }
    for number, name in enumerate(arguments.networks):
        ends = time.monotonic() + (deadline - time.monotonic()) / (len(arguments.networks) - number)
        train_one(name, arguments, training, others, ends, device)


def train_one(
    name: str,
    arguments: argparse.Namespace,
    training: DeviceImages,
    others: dict[str, DeviceImages],
    ends: float,
    device: torch.device,
) -> None:
    """Train one network until ``ends``, of ``time.monotonic()``, and append it to the record."""
    rate = arguments.learning_rate or LEARNING_RATES[name] * arguments.batch / 512
    given = {key: getattr(arguments, key) for key in ("epochs", "batch", "weight_decay", "flips", "seed")}
    recipe = Recipe(learning_rate=rate, **given)
    classes = int(training.labels.max()) + 1
    share = SHARE_OF_TRAINING * (ends - time.monotonic())
    recipe = replace(recipe, epochs=min(recipe.epochs, epochs_within(share, NETWORKS[name], training, classes, recipe)))
    print(f"{name}: {recipe.epochs} epochs", flush=True)
    _, records = train_baseline(NETWORKS[name], training, others, classes, recipe, ends, show)
    if not records:
        return
    run: dict[str, Any] = {
        "file": f"baselines-{arguments.dataset}",
        "question": "gradients",
        "kind": "other",
        "name": LABELS[name],
        "network": name,
        "dataset": arguments.dataset,
        **origin(device, shown_command("lab.baselines")),
        "seed": recipe.seed,
        "images": {"train": len(training), **{split: len(images) for split, images in others.items()}},
        "options": asdict(recipe) | {"learning_rate": records[-1]["learning_rate"]},
    }
    print(append_epochs(run, records), flush=True)


def show(record: dict[str, Any]) -> None:
    """Print one line per epoch."""
    others = " ".join(f"{k.split('_')[0]} {100 * v:.2f}" for k, v in record.items() if k.endswith("_accuracy"))
    print(f"epoch {record['epoch']:3d} {record['seconds']:7.1f} s  loss {record['loss']:.3f}  {others}", flush=True)


if __name__ == "__main__":
    main()
