"""Train several readings of the paper one after the other and write their histories: one JSON file, a short table.

    python benchmarks/explore.py cifar10 variants.json --out results/explore-NAME.json --seconds 500

``variants.json`` is a list of objects: NetworkConfig options, with "name", and "start" if not the dataset's own preset.
5,000 training images are held out; the test set is followed too, and no choice may be made by it.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from rescnet import ComputeOptions, make_config
from rescnet.data import load
from rescnet.holdout import hold_out
from rescnet.training.trainer import Trainer


def commit() -> str:
    """Return the commit the code is at, with a + if files differ from it."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    """Run the variants within the time allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("variants", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--limit", type=int, default=None, help="training images used, for a trial")
    parser.add_argument("--held-out", type=int, default=5000)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--commit", default=None)
    arguments = parser.parse_args()
    started = time.time()
    data = load(arguments.dataset)
    images, labels = data.train.images[: arguments.limit], data.train.labels[: arguments.limit]
    kept, held = hold_out(labels, min(0.5, arguments.held_out / len(labels)), seed=0)
    test = (data.test.images[: arguments.limit], data.test.labels[: arguments.limit])
    runs, table = [], []
    for variant in json.loads(arguments.variants.read_text()):
        options = dict(variant)
        name, start = options.pop("name"), options.pop("start", arguments.dataset)
        config = make_config(start, **options)
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
        compute = ComputeOptions(precision=arguments.precision)
        try:
            trainer = Trainer(images[kept], labels[kept], config, (images[held], labels[held]), test, compute)
            while not trainer.finished() and time.time() - started < arguments.seconds:
                record = trainer.add_layer()
                if record.layer % 20 == 0 or record.layer == 1:
                    print(
                        f"{time.time() - started:6.1f}s {name:40s} layer {record.layer:4d} "
                        f"train {100 * record.train_accuracy:.2f} val {100 * record.validation_accuracy:.2f} "
                        f"test {100 * record.test_accuracy:.2f} positive {record.positive_share:.2f} "
                        f"{record.total_seconds:.3f} s ridge {record.ridge:g}",
                        flush=True,
                    )
        except (ArithmeticError, RuntimeError) as error:
            print(name, "FAILED", error, flush=True)
            if not trainer.history.records:
                continue
        history = trainer.history
        best = history[history.best_layer() - 1]
        table.append(
            f"{name:40s} {len(history):4d} layers  best val {100 * best.validation_accuracy:.2f} at {best.layer:4d} "
            f"test there {100 * best.test_accuracy:.2f}  last val {100 * history[-1].validation_accuracy:.2f} "
            f"test {100 * history[-1].test_accuracy:.2f} train {100 * history[-1].train_accuracy:.2f}  "
            f"{sum(r.total_seconds for r in history):.0f} s"
        )
        runs.append(
            {
                "name": name,
                "dataset": arguments.dataset,
                "config": config.to_dict(),
                "precision": trainer.precision,
                "commit": arguments.commit or commit(),
                "command": " ".join(sys.argv),
                "device": device,
                "versions": {"python": platform.python_version(), "torch": torch.__version__},
                "seed": config.seed,
                "stopped": history.stopped,
                "history": [asdict(record) for record in history],
            }
        )
        arguments.out.write_text(json.dumps(runs))
        del trainer
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if time.time() - started > arguments.seconds:
            break
    print("\n".join(table), flush=True)


if __name__ == "__main__":
    main()
