"""Train several readings of the paper one after the other and write their histories: one JSON file, a short table.

    python benchmarks/explore.py cifar10 variants.json --out results/explore-NAME.json --seconds 500

``variants.json`` is a list of rounds, each a list of objects: NetworkConfig options, with "name", and "start" if not
the dataset's own preset. From the second round on variants change the best one so far: that of the highest held-out
accuracy, averaged over its last five layers. A round may be an object of options instead, with "greedy": true: then the
variants before it that did better than the first one are put together, the best first, each kept if it still helps.
With "ladder": a list of variants, these are added to the best one so far one after the other, each kept if it helps.
5,000 training images are held out; the test set is followed too, and decides nothing. Runs that the file already has,
by name, options and images, are not run again if they came to their end.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from rescnet import ComputeOptions, NetworkConfig, make_config
from rescnet.data import load
from rescnet.data.splits import hold_out_count
from rescnet.experiments.provenance import origin, shown_command
from rescnet.experiments.reproduce.records import compact
from rescnet.training.fit_readout import add_readout
from rescnet.training.trainer import Trainer

TIME_WAS_UP = "time was up"
DEPTHS = 1, 5, 10, 20, 40, 60, 100, 150, 200, 300


def settled(run: dict[str, Any]) -> float:
    """Return the held-out accuracy a run came to: that of its readout, or the mean of its last five layers."""
    last = [run["readout"]] if run.get("readout") else run["history"][-5:]
    return fmean(record["validation_accuracy"] or 0.0 for record in last)


class Explorer:
    """Trains variants on the same images and writes down how each went."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.started = time.time()
        data = load(arguments.dataset)
        images, labels = data.train.images[: arguments.limit], data.train.labels[: arguments.limit]
        kept, held = hold_out_count(labels, arguments.held_out, seed=arguments.split)
        self.training = images[kept], labels[kept]
        self.held_out = images[held], labels[held]
        self.test = data.test.images[: arguments.limit], data.test.labels[: arguments.limit]
        self.runs: list[dict[str, Any]] = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
        self.table: list[str] = []

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.time() - self.started

    def in_time(self) -> bool:
        """Return whether there is time left."""
        return self.seconds() < self.arguments.seconds

    def run(self, name: str, start: str, options: dict[str, Any]) -> float:
        """Train one variant and return the accuracy it came to."""
        compute = ComputeOptions(precision=self.arguments.precision, memory=self.arguments.memory)
        try:
            config = make_config(start, **options)
            if (known := self.known(name, config)) is not None:
                return known
            trainer = Trainer(*self.training, config, self.held_out, self.test, compute)
        except (ValueError, RuntimeError) as error:
            print(name, "REFUSED", error, flush=True)
            return 0.0
        try:
            while not trainer.finished() and self.in_time():
                record = trainer.add_layer()
                if record.layer % 20 == 0 or record.layer == 1:
                    print(
                        f"{self.seconds():6.1f}s {name:40s} layer {record.layer:4d} "
                        f"train {100 * record.train_accuracy:.2f} held out {100 * record.validation_accuracy:.2f} "
                        f"positive {record.positive_share:.2f} {record.total_seconds:.3f} s ridge {record.ridge:g}",
                        flush=True,
                    )
            if config.readout == "kernel" and trainer.finished():
                trainer.let_go()
                others = {"validation": self.held_out, "test": self.test}
                trainer.history.readout = add_readout(trainer.network, *self.training, others)
        except (ArithmeticError, RuntimeError, ValueError) as error:
            print(name, "FAILED", error, flush=True)
        history = trainer.history
        if not len(history):
            return 0.0
        run = {
            "name": name,
            "dataset": self.arguments.dataset,
            "config": config.to_dict(),
            "precision": trainer.precision,
            **origin(trainer.device, shown_command("python", "benchmarks/explore.py")),
            "seed": config.seed,
            "training_images": len(self.training[0]),
            "split": self.arguments.split,
            "stopped": history.stopped or TIME_WAS_UP,
            "readout": asdict(history.readout) if history.readout else None,
            "history": [compact(record) for record in history],
        }
        self.runs.append(run)
        reached = settled(run)
        at = " ".join(f"{n}:{100 * history[n - 1].validation_accuracy:.2f}" for n in DEPTHS if n <= len(history))
        self.table.append(
            f"{name:40s} {len(history):4d} layers, held out {100 * reached:.2f} at the end ({at}), "
            f"train {100 * history[-1].train_accuracy:.2f}, {sum(r.total_seconds for r in history):.0f} s"
        )
        self.arguments.out.write_text(json.dumps(self.runs))
        return reached

    def known(self, name: str, config: NetworkConfig) -> float | None:
        """Return the accuracy a run of the file came to, if there is one like this that came to its end.

        One of this name that did not is taken out.
        """
        ours = [name, self.arguments.dataset, len(self.training[0]), self.arguments.split, config.to_dict()]
        for run in self.runs:
            theirs = NetworkConfig().to_dict() | run["config"]
            if [run["name"], run["dataset"], run["training_images"], run.get("split", 0), theirs] != ours:
                continue
            if run["stopped"] == TIME_WAS_UP or (config.readout == "kernel" and not run.get("readout")):
                self.runs.remove(run)
                return None
            return settled(run)
        return None

    def variant(self, options: dict[str, Any]) -> float:
        """Train a variant as it stands in the file, and give its memory back."""
        options = options | ({"layers": self.arguments.layers} if self.arguments.layers else {})
        reached = self.run(options.pop("name"), options.pop("start", self.arguments.dataset), options)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return reached

    def ladder(self, start: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Add changes one after the other; return the options kept. Runs say whether their change was."""
        kept = start
        best = self.variant(kept)
        for step in steps:
            if not self.in_time():
                break
            found = self.variant(kept | step)
            if not found:
                continue  # refused, or failed in its first layer
            next(run for run in reversed(self.runs) if run["name"] == step["name"])["kept"] = found > best
            if found > best:
                best, kept = found, kept | step
        self.arguments.out.write_text(json.dumps(self.runs))
        self.table.append(f"the ladder's end: {kept}")
        return {key: value for key, value in kept.items() if key != "name"}

    def greedy(self, tried: list[tuple[float, dict[str, Any]]], options: dict[str, Any]) -> dict[str, Any]:
        """Put together what helped, the best first; return the options kept."""
        (alone, base), *others = tried
        kept = base | options
        best = self.variant(kept | {"name": "together"}) if options else alone
        for reached, variant in sorted(others, key=lambda entry: -entry[0]):
            if reached <= alone or not self.in_time():
                break
            more = {key: value for key, value in variant.items() if base.get(key) != value and key != "name"}
            found = self.variant(kept | more | {"name": f"together, {variant['name']}"})
            if found > best:
                best, kept = found, kept | more
        self.table.append(f"together: {kept}")
        return {key: value for key, value in kept.items() if key != "name"}


def main() -> None:
    """Run the variants within the time allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("variants", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--limit", type=int, default=None, help="training images used, for a trial")
    parser.add_argument("--layers", type=int, default=None, help="layers of every variant, for a trial")
    parser.add_argument("--chosen", type=Path, default=None, help="TOML file for the best variant's options")
    parser.add_argument("--held-out", type=int, default=5000)
    parser.add_argument("--split", type=int, default=0, help="which images are held out: the seed of their draw")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--memory", default="auto", help="bytes a run may use, as 40GB")
    arguments = parser.parse_args()
    explorer = Explorer(arguments)
    chosen: dict[str, Any] = {}
    tried: list[tuple[float, dict[str, Any]]] = []
    for variants in json.loads(arguments.variants.read_text()):
        if "ladder" in variants:
            chosen = explorer.ladder(chosen | variants["start"], variants["ladder"])
            continue
        if isinstance(variants, dict):
            chosen = explorer.greedy(tried, {key: value for key, value in variants.items() if key != "greedy"})
            continue
        best, winner = 0.0, chosen
        for variant in variants:
            if not explorer.in_time():
                break
            reached = explorer.variant(chosen | variant)
            tried.append((reached, variant))
            if reached > best:
                best, winner = reached, {key: value for key, value in (chosen | variant).items() if key != "name"}
        chosen = winner
        explorer.table.append(f"chosen: {chosen}")
        if arguments.chosen:
            apart = ("name", "start", "layers", "stop_at_zero_error")
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in chosen.items() if key not in apart]
            arguments.chosen.write_text("".join(lines))
    print("\n".join(explorer.table), flush=True)


if __name__ == "__main__":
    main()
