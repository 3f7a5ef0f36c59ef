"""In one run on one device: a neighbour trained by back-propagation, then our preset; test accuracy over seconds.

    python benchmarks/side_by_side.py --epochs 30 --seconds 540 --out results/side-by-side-cifar10.json
    python benchmarks/side_by_side.py --layers 200 --overrides '{"block_stride": 4}'

Both learn from the same images, without augmentation. Seconds are of training: the neighbour's evaluation is not
counted; ours lets held-out and test images through every layer, and that is counted. Both warm up before the clock.
The file is written after every epoch and every few layers; ``benchmarks/results_table.py`` draws the plot and table.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
from neighbours import LABELS, NETWORKS
from neighbours.train import add_options, recipe_of, run_neighbour, show, split_images

from rescnet import ComputeOptions, make_config
from rescnet.experiments.provenance import origin, shown_command
from rescnet.training.trainer import Trainer

WARM_UP_IMAGES = 2_000
LAYERS_BETWEEN_WRITES = 10


def run_ours(
    splits: dict[str, tuple[Any, Any]], config: Any, compute: ComputeOptions, deadline: float, heard: Any
) -> str:
    """Train our network and tell every layer to ``heard``; return why it stopped."""
    small = {name: (images[:WARM_UP_IMAGES], labels[:WARM_UP_IMAGES]) for name, (images, labels) in splits.items()}
    warm = Trainer(*small["train"], config, small.get("validation"), small.get("test"), compute)
    for _ in range(2):
        warm.add_layer()
    del warm
    _tidy()
    trainer = Trainer(*splits["train"], config, splits.get("validation"), splits.get("test"), compute)
    seconds = 0.0
    while not trainer.finished():
        if time.monotonic() > deadline:
            return "its time was over"
        start = _now(trainer.device)
        record = trainer.add_layer()
        seconds += _now(trainer.device) - start
        heard({"layer": record.layer, "seconds": seconds, **_accuracies(record), "stages": record.seconds})
    return trainer.history.stopped


def main() -> None:
    """Run both, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--network", choices=sorted(NETWORKS), default="resnet18")
    parser.add_argument("--preset", default=None, help="default: the data set's own")
    parser.add_argument("--layers", type=int, default=None)
    parser.add_argument("--overrides", type=json.loads, default={}, help="options of our network, as JSON")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--neighbour-seconds", type=float, default=None, help="default: half of --seconds")
    parser.add_argument("--out", type=Path, default=None, help="default: results/side-by-side-DATASET.json")
    add_options(parser)
    arguments = parser.parse_args()
    started = time.monotonic()
    deadline = started + arguments.seconds
    out = arguments.out or Path(__file__).resolve().parent.parent / "results" / f"side-by-side-{arguments.dataset}.json"
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(auto if arguments.device == "auto" else arguments.device)
    changes = dict(arguments.overrides) | ({"layers": arguments.layers} if arguments.layers else {})
    config = make_config(arguments.preset or arguments.dataset, **changes)
    recipe, compute = recipe_of(arguments), ComputeOptions(device=str(device), precision=arguments.precision)
    splits = split_images(arguments.dataset, arguments.held_out, arguments.limit)
    result: dict[str, Any] = {
        "name": f"side by side on {arguments.dataset}",
        "dataset": arguments.dataset,
        "images": {name: len(labels) for name, (_, labels) in splits.items()},
        "config": config.to_dict(),
        "changes": changes,
        **origin(device, shown_command("python", "benchmarks/side_by_side.py")),
        "seed": config.seed,
        "neighbour": {
            "name": f"{LABELS[arguments.network]}, SGD",
            "network": arguments.network,
            "recipe": asdict(recipe),
            "history": [],
        },
        "ours": {"name": f"ResCNet, preset {arguments.preset or arguments.dataset}", "history": []},
    }

    def write() -> None:
        beside = out.with_name(out.name + ".part")
        beside.write_text(json.dumps(result) + "\n")
        beside.replace(out)

    def epoch(record: dict[str, Any]) -> None:
        show(record)
        if record["epoch"] == 1:  # begun again: what was before is void
            result["neighbour"]["history"].clear()
        result["neighbour"]["history"].append(record)
        write()

    def layer(record: dict[str, Any]) -> None:
        history = result["ours"]["history"]
        history.append(record)
        if record["layer"] % LAYERS_BETWEEN_WRITES == 1:
            accuracies = " ".join(f"{k.split('_')[0]} {100 * v:.2f}" for k, v in record.items() if k.endswith("racy"))
            print(f"layer {record['layer']:4d} {record['seconds']:7.1f} s  {accuracies}", flush=True)
            write()

    share = arguments.neighbour_seconds or arguments.seconds / 2
    run_neighbour(arguments.network, splits, recipe, device, started + share, epoch)
    _tidy()
    try:
        result["ours"]["stopped"] = run_ours(splits, config, compute, deadline, layer)
    except (ArithmeticError, RuntimeError, ValueError) as error:
        result["ours"]["stopped"] = f"of an error: {error}"
        print(f"ours stopped because {result['ours']['stopped']}", flush=True)
    write()


def _accuracies(record: Any) -> dict[str, float]:
    names = ("train_accuracy", "validation_accuracy", "test_accuracy")
    return {name: getattr(record, name) for name in names if getattr(record, name) is not None}


def _tidy() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    main()
