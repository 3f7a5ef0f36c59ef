# ruff: noqa: E501, T201
"""One-time conversion of ``results/*.json`` into tidy records, checked figure by figure.

python experiments/convert_results.py

Writes ``experiments/records``: ``runs.jsonl`` (one line per run), ``layers.csv.gz`` (one row per layer),
``epochs.csv`` (one row per epoch of a network trained by gradients), ``bench.jsonl`` (measurements of time and
memory, whole) and ``defaults.json`` (the options that ``options`` of a run leaves out). Ordinary runs keep the sum of
their seconds per layer and per stage, and the peak per stage; seconds and memory by stage and layer are dropped.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from caveats import CAVEATS, QUESTIONS

from rescnet import NetworkConfig
from rescnet.family import FamilyConfig

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "experiments" / "records"
LAYER = ("run", "layer", "train", "validation", "test", "positive_share", "rate", "ridge", "seconds", "peak_memory")
EPOCH = (
    "run",
    "epoch",
    "train",
    "validation",
    "test",
    "loss",
    "learning_rate",
    "learns",
    "seconds",
    "evaluation_seconds",
)
BENCH = ("bench-*", "layer-times-*", "capped-memory-*", "memory-growth", "workers", "few-images-cpu")
NETWORK, FAMILY = NetworkConfig().to_dict(), FamilyConfig().to_dict()
Row = dict[str, Any]


def jsonable(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    return json.loads(json.dumps(value))


DEFAULTS = {"network": jsonable(NETWORK), "family": jsonable(FAMILY)}


def kind_of(config: Row) -> str:
    """Return whose options these are."""
    if "classifier" in config:
        return "family"
    return "network" if len(config) > 30 else "other"


def differing(config: Row) -> Row:
    """Return the options that are not at their default at commit ad30d1c."""
    known = DEFAULTS.get(kind_of(config), {})
    return {key: value for key, value in config.items() if key not in known or known[key] != value}


def question_of(stem: str) -> str:
    """Return the question a file belongs to."""
    return next(question for pattern, question in QUESTIONS if fnmatch(stem, pattern))


def caveat_of(stem: str, run: Row) -> str:
    """Return all that must be known about a run."""
    return " ".join(text for pattern, test, text in CAVEATS if fnmatch(stem, pattern) and test(run))


def entries(stem: str, content: Any) -> Iterator[Row]:
    """Yield the runs of a file: lists as they are, others taken apart."""
    if isinstance(content, list):
        yield from content
        return
    shared = {key: value for key, value in content.items() if key not in ("tried", "splits", "neighbour", "ours")}
    if "tried" in content:  # options of family members, compared on held-out images
        for tried in content["tried"]:
            row = shared | {"name": tried["member"], "config": tried["options"], "protocol_options": content["config"]}
            yield row | {"accuracy": tried["accuracy"], "seconds": tried["seconds"]}
    elif "splits" in content:
        for split in content["splits"]:
            yield shared | {"split": split["split_seed"], "seconds": split["seconds"], "history": split["history"]}
    elif "ours" in content:
        ours, other = content["ours"], content["neighbour"]
        history, before = [], 0.0
        for record in ours["history"]:  # seconds are cumulative there
            step = {"seconds": record["stages"], "wall": record["seconds"] - before, "positive_share": None}
            history.append(record | step | {"rate": None, "ridge": None, "peak_memory": None})
            before = record["seconds"]
        yield shared | {"name": ours["name"], "stopped": ours["stopped"], "history": history}
        gone = {key: value for key, value in shared.items() if key not in ("config", "changes")}
        facts = {"name": other["name"], "network": other["network"], "config": other["recipe"]}
        yield gone | facts | {"history": other["history"]}
    else:
        yield content


def number(value: float | None, digits: int) -> str:
    """Write a number with a fixed number of digits after the point, without trailing zeros."""
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def layer_row(run: str, record: Row) -> list[str]:
    """Return a layer's row."""
    shares = (record.get(f"{split}_accuracy") for split in ("train", "validation", "test"))
    seconds = record["wall"] if "wall" in record else sum(record["seconds"].values())
    rest = ("" if record[key] is None else f"{record[key]:.6g}" for key in ("rate", "ridge"))
    peak = record["peak_memory"]
    share = number(record["positive_share"], 6)
    return [run, str(record["layer"]), *(number(s, 6) for s in shares), share, *rest, number(seconds, 4),
            "" if peak is None else str(peak)]  # fmt: skip


def epoch_row(run: str, record: Row) -> list[str]:
    """Return an epoch's row."""
    shares = (record.get(f"{split}_accuracy") for split in ("train", "validation", "test"))
    rest = [record.get("loss"), record.get("learning_rate")]
    seconds = [number(record["seconds"], 4), number(record["evaluation_seconds"], 4)]
    learns = record.get("learns")
    return [run, str(record["epoch"]), *(number(s, 6) for s in shares), *("" if r is None else f"{r:.8g}" for r in rest),
            "" if learns is None else str(learns), *seconds]  # fmt: skip


def stage_sums(history: list[Row]) -> Row:
    """Return the seconds of each stage over all layers."""
    sums: Row = {}
    for record in history:
        for stage, seconds in record["seconds"].items():
            sums[stage] = sums.get(stage, 0.0) + seconds
    return {stage: round(seconds, 3) for stage, seconds in sums.items()}


def stage_peaks(history: list[Row]) -> Row:
    """Return the greatest memory of each stage over all layers, where it was recorded."""
    peaks: Row = {}
    for record in history:
        for stage, peak in (record.get("memory") or {}).items():
            peaks[stage] = max(peaks.get(stage, 0), peak)
    return peaks


def run_line(name: str, stem: str, entry: Row) -> Row:
    """Return a run's line: everything but its history."""
    config = entry["config"]
    line: Row = {"id": name, "question": question_of(stem), "kind": kind_of(config)}
    line |= {key: value for key, value in entry.items() if key not in ("config", "history", "changes", "paper", "key")}
    line["options"] = differing(config)
    if line.get("compute"):
        line["compute"] = {k: v for k, v in line["compute"].items() if v not in ("auto", "", "float32")}
    history = entry.get("history", [])
    if history and "layer" in history[0]:
        line |= {"layers": len(history), "seconds_by_stage": stage_sums(history)}
        line["memory_by_stage"] = stage_peaks(history)
        if "summary" not in line:
            line["summary"] = summary(history)
    if text := caveat_of(stem, entry):
        line["caveat"] = text
    return {key: value for key, value in line.items() if value not in (None, "", {}, [])}


def summary(history: list[Row]) -> Row:
    """Return the accuracies at the last layer and at the layer that is best on held-out images."""

    def at(record: Row) -> Row:
        shares = {"train": "train_accuracy", "held_out": "validation_accuracy", "test": "test_accuracy"}
        return {"layer": record["layer"], **{key: record.get(name) for key, name in shares.items()}}

    found = {"last": at(history[-1])}
    if history[-1].get("validation_accuracy") is not None:
        found["chosen"] = at(max(history, key=lambda r: (r["validation_accuracy"] or 0, -r["layer"])))
    return found


def convert() -> tuple[list[Row], list[Row], list[list[str]], list[list[str]], dict[str, Row]]:
    """Return runs, measurements, layers, epochs, and the old entry of each run."""
    runs, bench, layers, epochs, old = [], [], [], [], {}
    for file in sorted((ROOT / "results").glob("*.json")):
        stem, content = file.stem, json.loads(file.read_text())
        is_bench = any(fnmatch(stem, pattern) for pattern in BENCH)
        for place, entry in enumerate(entries(stem, content), 1):
            name = f"{stem}.{place}"
            old[name] = entry
            if is_bench:
                line = {"id": name, "question": question_of(stem)} | entry
                line["options"] = differing(line.pop("config"))
                if text := caveat_of(stem, entry):
                    line["caveat"] = text
                bench.append(line)
                continue
            runs.append(run_line(name, stem, entry))
            for record in entry.get("history", []):
                if "epoch" in record:
                    epochs.append(epoch_row(name, record))
                else:
                    layers.append(layer_row(name, record))
    return runs, bench, layers, epochs, old


def write_csv(file: Path, titles: tuple[str, ...], rows: list[list[str]]) -> None:
    """Write rows, compressed where the name ends in gz; the same rows give the same bytes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([titles, *rows])
    data = text.getvalue().encode()
    file.write_bytes(gzip.compress(data, 9, mtime=0) if file.suffix == ".gz" else data)


def write_lines(file: Path, lines: list[Row]) -> None:
    """Write one JSON object per line."""
    file.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines))


def near(a: float | None, b: str, tolerance: float) -> bool:
    """Return whether a written number is the old one."""
    return (a is None) == (b == "") and (a is None or math.isclose(a, float(b), rel_tol=1e-5, abs_tol=tolerance))


def check(old: dict[str, Row]) -> dict[str, int]:
    """Read the records back and compare every figure with the old files; return how many were compared."""
    lines = [
        json.loads(line) for name in ("runs", "bench") for line in (OUT / f"{name}.jsonl").read_text().splitlines()
    ]
    new = {line["id"]: line for line in lines}
    defaults = json.loads((OUT / "defaults.json").read_text())
    assert set(new) == set(old)
    count = {"runs": len(new), "facts": 0, "options": 0, "layers": 0, "epochs": 0, "figures": 0}
    layers: dict[str, list[Row]] = {}
    with gzip.open(OUT / "layers.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            layers.setdefault(row["run"], []).append(row)
    epochs: dict[str, list[Row]] = {}
    with (OUT / "epochs.csv").open() as file:
        for row in csv.DictReader(file):
            epochs.setdefault(row["run"], []).append(row)
    for name, entry in old.items():
        line, config = new[name], entry["config"]
        whole = defaults.get(kind_of(config), {}) | line.get("options", {})
        assert {key: whole[key] for key in config} == config, name
        count["options"] += len(config)
        for key, value in entry.items():
            if key in ("config", "changes", "paper", "key", "compute") or (
                key == "history" and name in layers | epochs
            ):
                continue  # changes and paper stand in the questions; keys are hashes of the rest
            kept = line.get(key)
            assert kept == value or (kept is None and value in (None, "", {}, [])), (name, key)
            count["facts"] += 1
        if "history" not in entry or name not in layers | epochs:
            continue
        rows = layers.get(name) or epochs[name]
        assert len(rows) == len(entry["history"]), name
        for row, record in zip(rows, entry["history"], strict=True):
            pairs = [(record.get(f"{s}_accuracy"), row[s], 5.1e-7) for s in ("train", "validation", "test")]
            if name in layers:
                count["layers"] += 1
                assert int(row["layer"]) == record["layer"]
                pairs += [(record[key], row[key], 5.1e-7) for key in ("positive_share", "rate", "ridge", "peak_memory")]
                seconds = record["wall"] if "wall" in record else sum(record["seconds"].values())
                pairs.append((seconds, row["seconds"], 5.1e-5))
            else:
                count["epochs"] += 1
                pairs += [(record.get(key), row[key], 1e-7) for key in ("loss", "learning_rate")]
                pairs += [(record[key], row[key], 5.1e-5) for key in ("seconds", "evaluation_seconds")]
                assert str(record.get("learns", "")) == row["learns"] or record.get("learns") is None
            for a, b, tolerance in pairs:
                assert near(a, b, tolerance), (name, row, record)
                count["figures"] += 1
    return count


def main() -> None:
    """Convert, write, and check what was written."""
    OUT.mkdir(parents=True, exist_ok=True)
    runs, bench, layers, epochs, old = convert()
    write_lines(OUT / "runs.jsonl", runs)
    write_lines(OUT / "bench.jsonl", bench)
    write_csv(OUT / "layers.csv.gz", LAYER, layers)
    write_csv(OUT / "epochs.csv", EPOCH, epochs)
    (OUT / "defaults.json").write_text(json.dumps(DEFAULTS, indent=1) + "\n")
    print(check(old))
    for file in sorted(OUT.iterdir()):
        print(f"{file.name:16} {file.stat().st_size:>9,} bytes")


if __name__ == "__main__":
    main()
