"""The runner of questions: train every network of a question and append it to the record.

    python -m lab.run signs --seconds 500
    python -m lab.run table2 --only cifar10 --seeds 0 1 2 --held-out 0
    python -m lab.run family-mnist --member-seconds 480

A question is a file of ``lab/questions``, or a table of ``rescnet reproduce``. The same command resumes: runs
that are finished are not repeated, unfinished layers are kept under ``runs/lab``. Questions with ``models`` are
run by ``rescnet compare``, each model in its own process: one that fails or hangs costs its own row only.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from rescnet import ComputeOptions
from rescnet.data import Dataset, load
from rescnet.experiments.plans import Plan, load_plan, plan_names, read_plan
from rescnet.experiments.records import Results, shown_command
from rescnet.experiments.runner import ExperimentRun, RunOptions, experiment_key
from rescnet.network.history import LayerRecord

from .records import RECORDS, append, differing

QUESTIONS, STATE = Path(__file__).resolve().parent / "questions", Path("runs/lab")
NOT_IN_A_LINE = ("history", "config", "changes", "paper", "key", "compute")


def read_question(name: str) -> dict[str, Any]:
    """Return the content of a question's file; ``[base]`` is part of the changes of every experiment."""
    content = tomllib.loads((QUESTIONS / f"{name}.toml").read_text())
    for entry in content.get("experiment", []):
        entry.setdefault("label", entry["name"])
        entry.setdefault("dataset", content.get("dataset", "cifar10"))
        entry["changes"] = content.get("base", {}) | entry.get("changes", {})
    return content


def question_names() -> list[str]:
    """Return all questions that can be run."""
    own = [file.stem for file in sorted(QUESTIONS.glob("*.toml"))]
    return [*plan_names(), *(name for name in own if {"experiment", "models"} & set(read_question(name)))]


def plan_of(name: str) -> tuple[Plan, dict[str, Any]]:
    """Return the networks of a question, and how it is run."""
    if name in plan_names():
        return load_plan(name), {}
    content = read_question(name)
    return read_plan(name, content), content


@lru_cache(maxsize=1)
def images_of(dataset: str) -> Dataset:
    """Return a data set; it is kept until another one is asked for."""
    return load(dataset)


def show(record: LayerRecord) -> None:
    """Print a line for the first layer and every twentieth."""
    if record.layer % 20 in (0, 1):
        shares = (record.train_accuracy, record.validation_accuracy, record.test_accuracy)
        train, validation, test = ("–" if share is None else f"{100 * share:.2f}" for share in shares)
        print(f"  layer {record.layer:4d}  train {train}  validation {validation}  test {test}", flush=True)


def run_networks(arguments: argparse.Namespace) -> int:
    """Run the networks of a question, every seed of each, until the time limit; return how many have failed."""
    failed = 0
    plan, how = plan_of(arguments.question)
    deadline = time.monotonic() + arguments.seconds
    compute = ComputeOptions(precision=arguments.precision, memory=arguments.memory)
    held_out = arguments.held_out if arguments.held_out is not None else how.get("held_out", 5000)
    limit = arguments.limit or how.get("limit")
    command = shown_command("python", "-m", "lab.run")
    options = RunOptions(held_out, limit, None if arguments.no_save else STATE, deadline, compute, command)
    layers = {"layers": arguments.layers} if arguments.layers else {}
    results = Results(STATE / f"{arguments.question}.json")
    for experiment in plan.only(arguments.only):
        for seed in arguments.seeds or how.get("seeds", [0]):
            try:
                config = experiment.config(seed=seed, **layers)
                done = results.finished(experiment_key(experiment, config, options), config.layers, experiment.name)
                if done or options.time_is_up:
                    continue
                print(f"{experiment.name}, seed {seed}", flush=True)
                entry = ExperimentRun(experiment, config, images_of(experiment.dataset), results, options, show).go()
            except (ValueError, ArithmeticError, RuntimeError) as error:  # the others still run
                print(f"{experiment.name}, seed {seed}: {str(error).splitlines()[0]}", flush=True)
                failed += 1
                continue
            if entry and arguments.records:
                print(
                    f"  {append(line_of(arguments.question, entry), layer_rows(entry), arguments.records)}", flush=True
                )
            elif entry:
                print(f"  a trial, not recorded: {json.dumps(entry['summary'])}", flush=True)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    return failed


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


def run_models(arguments: argparse.Namespace, content: Mapping[str, Any]) -> int:
    """Compare the models of a question, one process each; return how many have failed."""
    failed, deadline = 0, time.monotonic() + arguments.seconds
    words = {"--held-out": content.get("held_out"), "--splits": content.get("splits"), "--limit": arguments.limit}
    words = {word: str(value) for word, value in words.items() if value is not None}
    if arguments.memory != "auto":
        words["--memory"] = arguments.memory
    for model in content["models"]:
        if (arguments.only and model not in arguments.only) or time.monotonic() > deadline:
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "rows.json"
            command = [sys.executable, "-m", "rescnet", "compare", content["dataset"], "--models", model]
            command += [*(part for pair in words.items() for part in pair), "--out", str(out)]
            try:
                subprocess.run(command, check=False, timeout=arguments.member_seconds, stdout=subprocess.DEVNULL)
                (row,) = json.loads(out.read_text())
            except (subprocess.TimeoutExpired, OSError, ValueError) as error:
                print(f"{model}: {type(error).__name__}", flush=True)
                failed += 1
                continue
        kind = "network" if model.startswith("rescnet") else "family"
        line = {"file": arguments.question, "question": arguments.question, "kind": kind}
        line |= {key: value for key, value in row.items() if key != "config"}
        line["options"] = differing(row["config"], kind)
        recorded = append(line, [], arguments.records) if arguments.records else "a trial, not recorded"
        print(f"{model}: {recorded}, accuracy {row['accuracy']}", flush=True)
    return failed


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("question", choices=question_names())
    made.add_argument("--only", nargs="+", default=[], help="names of experiments, or models")
    made.add_argument("--seeds", nargs="+", type=int, default=None, help="default: the question's")
    made.add_argument("--seconds", type=float, default=500, help="start nothing after this time")
    made.add_argument("--member-seconds", type=float, default=480, help="time limit of one model")
    made.add_argument(
        "--held-out",
        type=int,
        default=None,
        help="validation images, of a trial the same share; default: the question's, or 5000",
    )
    made.add_argument("--limit", type=int, default=None, help="training images, for a trial, which is not recorded")
    made.add_argument("--layers", type=int, default=None, help="layers of every network, for a trial")
    made.add_argument("--precision", default="auto")
    made.add_argument("--memory", default="auto", help="memory limit, e.g. 40GB")
    made.add_argument("--no-save", action="store_true", help="keep no layers to resume from")
    made.add_argument("--records", type=Path, default=None, help="folder of the record, also for a trial")
    return made


def main() -> None:
    """Run a question; exit with 1 if a network has failed."""
    arguments = parser().parse_args()
    if arguments.records is None and arguments.limit is None:
        arguments.records = RECORDS
    if arguments.question not in plan_names() and "models" in (content := read_question(arguments.question)):
        failed = run_models(arguments, content)
    else:
        failed = run_networks(arguments)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
