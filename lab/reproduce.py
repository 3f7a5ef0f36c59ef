"""Run a table or figure of the paper, or another question, and write ours beside the paper's.

    python -m lab.reproduce table2 --only mnist               results/table2.json, .md and the figures
    python -m lab.reproduce records --dry-run                 our best networks: the plan, and the expected time
    python -m lab.reproduce table2 --limit 200 --layers 2     a trial, in its own file
    python -m lab.reproduce signs --seconds 500 --record      also append each run to the record

A question is a file of ``questions``. Test accuracy is shown at the depth chosen on validation images, at the last
layer, and at the best layer of the test curve, which is the paper's rule. The same command resumes: finished runs are
not repeated, and unfinished layers are kept. Questions with models are run by ``rescnet compare``, each model in its
own process: one that fails or hangs costs its own row only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rescnet import ComputeOptions, NetworkConfig
from rescnet.base.text import count, show_percent, show_seconds
from rescnet.data import Dataset, describe, load
from rescnet.network.device import choose_device
from rescnet.network.history import LayerRecord
from rescnet.training.stopwatch import free_memory

from .drawing import draw_layers
from .pages import markdown, network_rows
from .provenance import device_name, origin, shown_command
from .questions import HELD_OUT, Experiment, Question, load_question, question_names
from .records import append, differing
from .results import Results
from .runner import ExperimentRun, RunOptions, experiment_key

LAYERS_BETWEEN_LINES = 10
NOT_IN_A_LINE = ("history", "config", "changes", "paper", "key", "compute")
PUBLISHED = {  # test accuracy in percent in the model's own paper
    "pcanet": {"cifar10": 77.14, "cifar100": 51.62, "mnist": 99.34, "tiny-imagenet": 30.0},
    "ldanet": {"cifar10": 78.33, "mnist": 99.38},
    "dfsnet-3": {"cifar10": 81.06},
    "multilayer-pcanet": {"cifar10": 81.72, "cifar100": 57.86, "mnist": 99.40, "tiny-imagenet": 40.87},
    "rescnet": {"cifar10": 87.54, "cifar100": 64.9, "mnist": 99.52, "tiny-imagenet": 44.37},
}


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="python -m lab.reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("question", choices=question_names(), metavar="QUESTION", help=", ".join(question_names()))
    made.add_argument("--only", action="extend", nargs="+", default=[], help="names of experiments, or models")
    made.add_argument("--layers", type=int, help="maximum number of layers, instead of the question's")
    made.add_argument("--seeds", nargs="+", type=int, help="random seeds; default: the question's")
    made.add_argument("--seconds", type=float, help="start no layer after this time; the same command resumes")
    made.add_argument("--model-seconds", type=float, default=480, help="time limit of one model of rescnet compare")
    made.add_argument("--limit", type=int, help="trial with about n training and n test images; of models n per class")
    made.add_argument(
        "--held-out", type=int, help=f"training images that choose the depth; default: the question's, or {HELD_OUT}"
    )
    made.add_argument("--config", type=Path, help="TOML file of options that override the presets'")
    made.add_argument("--root", type=Path, help="folder of the public data sets")
    made.add_argument("--download", action="store_true", help="download missing data sets")
    made.add_argument("--out", type=Path, default=Path("results"), help="folder of NAME.json, NAME.md and the figures")
    made.add_argument(
        "--state", type=Path, default=Path("runs/reproduce"), help="folder of unfinished layers, to resume from"
    )
    made.add_argument("--no-save", action="store_true", help="keep no layers: an interrupted run starts again")
    made.add_argument("--again", action="store_true", help="run finished experiments again")
    made.add_argument("--dry-run", action="store_true", help="print the plan and the expected time only")
    made.add_argument("--record", action="store_true", help="append each run to the record")
    made.add_argument("--device", default="auto")
    made.add_argument("--precision", default="auto")
    made.add_argument("--max-memory", default="auto", help="memory limit, e.g. 40GB")
    return made


def main() -> int:
    """Run a question; return 1 if a network or model has failed."""
    made = parser()
    arguments = made.parse_args()
    try:
        question = load_question(arguments.question)
        if arguments.record and arguments.limit:
            raise ValueError("--record must be used without --limit: a trial is not recorded.")
        return run_models(question, arguments) if question.models else run_networks(question, arguments)
    except ValueError as error:
        made.error(str(error))
    except KeyboardInterrupt:
        return 130


def run_networks(question: Question, arguments: argparse.Namespace) -> int:
    """Run the networks of a question, every seed of each, until the time limit; return 1 if one has failed."""
    experiments = question.only(arguments.only)
    for option, folder in (("--out", arguments.out), ("--state", arguments.state)):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} must be a folder, got the file {folder}. Name another one.")
    compute = ComputeOptions(device=arguments.device, precision=arguments.precision, max_memory=arguments.max_memory)
    device = choose_device(compute.device)
    limit = arguments.limit or question.limit
    held_out = question.held_out if arguments.held_out is None else arguments.held_out
    deadline = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    state = None if arguments.no_save else arguments.state
    options = RunOptions(HELD_OUT if held_out is None else int(held_out), limit, state, deadline, compute)
    changes = {} if arguments.layers is None else {"layers": arguments.layers}
    seeds = arguments.seeds or question.seeds
    runs = [(e, e.config(arguments.config, **changes, seed=seed)) for e in experiments for seed in seeds]
    # A trial with few images has its own file.
    ending = "" if arguments.limit is None else f"-of-{limit}-images"
    results = Results(arguments.out / f"{question.name}{ending}.json")
    here = {row.name for row in describe(arguments.root) if row.present or arguments.download}
    if arguments.dry_run:
        print(f"{question.title}, on {device_name(device)}")
        for experiment, config in runs:
            print_plan(experiment, config, experiment.dataset in here, results, device_name(device))
        return 0
    if not {e.dataset for e in experiments} & here:
        raise ValueError(f"the data sets of {question.name} must be complete. Use --root or --download.")
    failed = 0
    for experiment, config in runs:
        name = f"{experiment.name}, seed {config.seed}" if len(seeds) > 1 else experiment.name
        if experiment.dataset not in here:
            print(f"{name}: {experiment.dataset} is not here, skipped (--download fetches it)")
            continue
        try:
            entry = run_one(name, experiment, config, results, options, arguments)
        except (ValueError, ArithmeticError, RuntimeError) as error:  # the others still run
            print(f"{name}: {str(error).splitlines()[0]}", flush=True)
            failed = 1
            continue
        finally:
            write_table(question, results)
        if entry and arguments.record:
            print(f"  {append(line_of(question.name, entry), layer_rows(entry))}", flush=True)
        free_memory()
    if entries := results.entries():
        print(markdown(network_rows(question, [line_of(question.name, entry) for entry in entries])))
    return failed


def run_one(
    name: str,
    experiment: Experiment,
    config: NetworkConfig,
    results: Results,
    options: RunOptions,
    arguments: argparse.Namespace,
) -> dict[str, Any] | None:
    """Run one network, unless it is finished; return its entry, or None if no layer was learned now."""
    done = results.finished(experiment_key(experiment, config, options), config.layers, experiment.name)
    if done and not arguments.again:
        layers = count(done["layers"], "layer", "layers")
        print(f"{name}: finished before, {layers} (--again repeats it)")
        return None
    if options.time_is_up:
        print(f"{name}: not started, the time limit was reached")
        return None

    def show(record: LayerRecord) -> None:
        if record.layer % LAYERS_BETWEEN_LINES in (0, 1) or record.layer == config.layers:
            splits = {"training": record.train_accuracy, "validation": record.validation_accuracy}
            shares = "  ".join(f"{split} {show_percent(share)}" for split, share in splits.items())
            took = f"{shares}  test {show_percent(record.test_accuracy)}  {record.total_seconds:.2f} s"
            print(f"  layer {record.layer:4d}  {took}", flush=True)

    dataset = images_of(experiment.dataset, arguments.root)
    run = ExperimentRun(experiment, config, dataset, results, options, show, arguments.again)
    images = ", ".join(f"{number:,} {split}" for split, number in run.images.items())
    depth = f"up to {count(config.layers, 'layer', 'layers')}"
    print(f"{name}: {experiment.label}, {depth}; images: {images}", flush=True)
    if run.layers:
        print(f"  resuming after layer {run.layers}; its maps are computed first", flush=True)
    try:
        entry = run.go()
    except KeyboardInterrupt:
        kept = "nothing is kept" if options.state is None else "the same command resumes"
        print(f"  interrupted after {count(run.layers, 'layer', 'layers')}: {kept}", flush=True)
        raise
    if entry is None:
        print("  no layer was learned: the time limit was reached")
    else:
        print(f"  {count(entry['layers'], 'layer', 'layers')} in {entry['seconds']:.0f} s; {entry['stopped']}")
    return entry


@lru_cache(maxsize=1)
def images_of(dataset: str, root: Path | None) -> Dataset:
    """Return a data set; it is kept until another one is asked for."""
    return load(dataset, root)


def print_plan(experiment: Experiment, config: NetworkConfig, here: bool, results: Results, device: str) -> None:
    """Print an experiment; the expected time follows from layers that have run on this device, or from our record."""
    own = [e for e in results.entries() if e["device"] == device and e["name"] == experiment.name]
    expected, recorded = "time unknown", experiment.recorded
    if own:
        expected = show_seconds(own[-1]["seconds"] / own[-1]["layers"] * config.layers)
    elif recorded is not None:
        expected = f"{show_seconds(recorded.seconds / recorded.layers * config.layers)} on {recorded.device}"
    data = experiment.dataset if here else f"{experiment.dataset} (not here)"
    published = ", ".join(f"{figure.accuracy:g}" for figure in experiment.paper)
    depth = count(config.layers, "layer", "layers")
    print(f"{experiment.name}: {data}, {depth}, {expected}{f'; published {published}' if published else ''}")
    if varied := [f"{key} {value}" for key, value in experiment.changes.items() if key != "layers"]:
        print(f"  {', '.join(varied)}")


def write_table(question: Question, results: Results) -> None:
    """Write the table, and with matplotlib the figures, beside the JSON file."""
    entries = results.entries()
    if not entries:
        return
    lines = {index: line_of(question.name, entry) for index, entry in enumerate(entries)}
    origins = [f"- `{e['name']}`: {e['device']}, commit {e['commit']}, `{e['command']}`." for e in entries]
    ran = {entry["name"] for entry in entries}
    missing = [f"Not run yet: {experiment.label}." for experiment in question.experiments if experiment.name not in ran]
    note = "Test accuracy in %, in brackets the layer. The best on the test curve is the paper's rule."
    parts = [f"# {question.title}", markdown(network_rows(question, list(lines.values()))), note]
    results.file.with_suffix(".md").write_text("\n\n".join([*parts, *missing, "\n".join(origins)]) + "\n")
    if not find_spec("matplotlib"):
        return
    for dataset in dict.fromkeys(entry["dataset"] for entry in entries):
        drawn = [
            (line, [(r["layer"], r["test_accuracy"], r["train_accuracy"]) for r in entries[index]["history"]])
            for index, line in lines.items()
            if line["dataset"] == dataset
        ]
        draw_layers(results.file.with_name(f"{results.file.stem}-{dataset}.svg"), question, dataset, drawn)


def line_of(question: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of the record for an entry of the runner."""
    line = {key: value for key, value in entry.items() if key not in NOT_IN_A_LINE}
    stages: dict[str, float] = {}
    for record in entry["history"]:
        for stage, seconds in record["seconds"].items():
            stages[stage] = round(stages.get(stage, 0.0) + seconds, 3)
    known = {"file": question, "question": question, "kind": "network"}
    return known | line | {"options": differing(entry["config"], "network"), "seconds_by_stage": stages}


def layer_rows(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the layers of an entry as rows of the record."""
    return [
        {
            "layer": record["layer"],
            **{split: record[f"{split}_accuracy"] for split in ("train", "validation", "test")},
            **{key: record[key] for key in ("positive_share", "rate", "ridge", "peak_memory")},
            "seconds": round(sum(record["seconds"].values()), 4),
        }
        for record in entry["history"]
    ]


def run_models(question: Question, arguments: argparse.Namespace) -> int:
    """Compare the models of a question, one process each; return 1 if one has failed."""
    failed, deadline = 0, time.monotonic() + (arguments.seconds or float("inf"))
    source = question.dataset if arguments.limit is None else f"{question.dataset}:{arguments.limit}"
    words = {"--held-out": question.held_out, "--splits": question.splits, "--max-memory": arguments.max_memory}
    given = [str(part) for pair in words.items() if pair[1] is not None for part in pair]
    for model in question.models:
        if (arguments.only and model not in arguments.only) or time.monotonic() > deadline:
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "rows.json"
            command = [sys.executable, "-m", "rescnet", "compare", source, "--models", model, *given, "--out", str(out)]
            try:
                subprocess.run(command, check=False, timeout=arguments.model_seconds, stdout=subprocess.DEVNULL)
                (row,) = json.loads(out.read_text())
            except (subprocess.TimeoutExpired, OSError, ValueError) as error:
                print(f"{model}: {type(error).__name__}", flush=True)
                failed = 1
                continue
        kind, member = "network" if model.startswith("rescnet") else "family", model.split(":")[0]
        published = PUBLISHED.get(member, {}).get(question.dataset) if question.held_out is None else None
        line: dict[str, Any] = {"file": question.name, "question": question.name, "kind": kind, "name": model}
        line |= {key: value for key, value in row.items() if key != "config"}
        line |= origin(choose_device("auto"), shown_command("lab.reproduce")) | {
            "published": published and published / 100
        }
        line["options"] = differing(row["config"] or {}, kind)
        print(f"{model}: accuracy {row['accuracy']} {append(line, []) if arguments.record else ''}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
