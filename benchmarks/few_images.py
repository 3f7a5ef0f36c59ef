"""In one run: layers of the CIFAR-10 network on few images, their heads solved by rows and by the Gram matrix.

    python benchmarks/few_images.py --images 250 1000 4000 --out results/few-images-cpu.json

Images are the first ones of CIFAR-10, blocks four pixels apart. Both ways are trained layer by layer in turns, so that
a machine that others use slows both; the first layer is not timed. The plan does not count the Gram matrices.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from rescnet import ComputeOptions, NetworkConfig, make_config
from rescnet.data import load
from rescnet.experiments.provenance import origin, shown_command
from rescnet.training import trainer as training
from rescnet.training.trainer import Trainer


def config_of(layers: int) -> NetworkConfig:
    """Return the network that is timed."""
    return make_config("cifar10-sigmoids", layers=layers, block_stride=4, stop_at_zero_error=False)


def trainer_of(images: Any, labels: Any, layers: int, memory: str, by_rows: bool) -> Trainer:
    """Return a trainer that solves heads the way that is asked for."""
    planned = training.plan_memory
    with patch.object(training, "plan_memory", lambda *given: replace(planned(*given), by_rows=by_rows)):
        return Trainer(images, labels, config_of(layers), None, None, ComputeOptions(device="cpu", memory=memory))


def measure(count: int, layers: int, memory: str) -> dict[str, Any]:
    """Return what layers of so many images take in both ways, and how far outputs differ in the end."""
    data = load("cifar10").train
    both = {by: trainer_of(data.images[:count], data.labels[:count], layers, memory, by) for by in (True, False)}
    for _ in range(layers):
        for trainer in both.values():
            trainer.add_layer()
    rows, gram = (both[by] for by in (True, False))
    images = data.images[count : count + 200]
    apart = (rows.network.outputs(images) - gram.network.outputs(images)).abs().max()
    found = {"images": count, "features": rows.plan.features, "output_difference": float(apart)}
    for name, trainer in (("rows", rows), ("gram", gram)):
        timed = trainer.history.records[1:]
        found[name] = {
            "seconds": median(record.total_seconds for record in timed),
            "heads": median(record.seconds["heads"] + record.seconds["moments"] for record in timed),
        }
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[250, 1000, 4000])
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    sizes: list[dict[str, Any]] = []
    for count in arguments.images:
        sizes.append(measure(count, arguments.layers, arguments.memory))
        print(json.dumps(sizes[-1]), flush=True)
    config = config_of(arguments.layers)
    facts = {"name": "few-images", "dataset": "cifar10", "config": config.to_dict(), "seed": config.seed}
    command = shown_command("python", "benchmarks/few_images.py")
    result = facts | origin("cpu", command) | {"layers": arguments.layers, "sizes": sizes}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
