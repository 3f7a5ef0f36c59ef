"""The tidy record of all runs: read it as lines or tables, append to it.

``records/runs.jsonl`` has one line per run, ``layers.csv.gz`` one row per layer, ``epochs.csv`` one row per epoch of a
network trained by gradients, ``bench.jsonl`` whole measurements of time and memory. ``options`` of a run leaves out
what equals ``defaults.json``, the defaults of commit ad30d1c, the last before options were removed.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

RECORDS = Path(__file__).resolve().parent / "records"
LAYER = ("run", "layer", "train", "validation", "test", "positive_share", "rate", "ridge", "seconds", "peak_memory")
EPOCH = ("run", "epoch", "train", "validation", "test", "loss", "learning_rate", "learns", "seconds")
EPOCH += ("evaluation_seconds",)
Run = dict[str, Any]


def read_lines(name: str = "runs", folder: Path = RECORDS) -> list[Run]:
    """Return the lines of ``runs.jsonl`` or ``bench.jsonl``."""
    file = folder / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def file_of(run: Run) -> str:
    """Return the group of runs a run belongs to: its id without the number; empty if it is not of the record."""
    return str(run.get("id", "")).rsplit(".", 1)[0]


@cache
def _runs() -> tuple[Run, ...]:
    return tuple(run | {"options": run.get("options", {})} for run in read_lines())


def runs_of(question: str = "", file: str = "") -> list[Run]:
    """Return the runs of a question, or of one group: the part of the id before the dot."""
    return [run for run in _runs() if question in ("", run["question"]) and file in ("", file_of(run))]


@cache
def _layers_by_run() -> dict[str, pd.DataFrame]:
    import pandas as pd

    table = pd.read_csv(RECORDS / "layers.csv.gz")
    return {str(name): layers for name, layers in table.groupby("run", sort=False)}


def layers_of(run: Run) -> pd.DataFrame:
    """Return the layers of a run, one row each."""
    import pandas as pd

    return _layers_by_run().get(run["id"], pd.DataFrame(columns=list(LAYER)))


@cache
def read_epochs() -> pd.DataFrame:
    """Return all epochs of networks trained by gradients, one row each."""
    import pandas as pd

    return pd.read_csv(RECORDS / "epochs.csv")


def differing(config: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the options that differ from ``defaults.json``; kind is network or family."""
    defaults = json.loads((RECORDS / "defaults.json").read_text())[kind]
    plain = json.loads(json.dumps(config))
    return {key: value for key, value in plain.items() if key not in defaults or defaults[key] != value}


def append(run: Run, layers: Iterable[Run], folder: Path = RECORDS) -> str:
    """Add a run and its layers to the record, and return its id: its group and the next free number.

    Parameters
    ----------
    run : dict
        Has ``file``, the first part of the id, and ``question``.
    layers : iterable of dict
        Keys of :data:`LAYER` but ``run``.
    """
    name = _append_line("runs", run, folder)
    packed = folder / "layers.csv.gz"
    before = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else ",".join(LAYER) + "\n"
    packed.write_bytes(gzip.compress((before + _rows(name, layers, LAYER)).encode(), 9, mtime=0))
    return name


def append_epochs(run: Run, epochs: Iterable[Run], folder: Path = RECORDS) -> str:
    """Add a run of a network trained by gradients and its epochs to the record, and return its id."""
    name = _append_line("runs", run, folder)
    file = folder / "epochs.csv"
    before = file.read_text() if file.exists() else ",".join(EPOCH) + "\n"
    named = ({key.removesuffix("_accuracy"): value for key, value in epoch.items()} for epoch in epochs)
    file.write_text(before + _rows(name, named, EPOCH))
    return name


def append_bench(result: Run, folder: Path = RECORDS) -> str:
    """Add a measurement of time or memory to the record, and return its id."""
    return _append_line("bench", result, folder)


def keep_bench(result: Run, file: str) -> None:
    """Write a measurement to a file, if one is named, or add it to the record and print its id."""
    if file:
        Path(file).write_text(json.dumps(result))
    else:
        print(append_bench(result))


def _append_line(kind: str, run: Run, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    group = run["file"]
    taken = [int(old["id"].rsplit(".", 1)[1]) for old in read_lines(kind, folder) if file_of(old) == group]
    name = f"{group}.{max(taken, default=0) + 1}"
    kept = {key: value for key, value in run.items() if key != "file" and value not in (None, "", {}, [])}
    with (folder / f"{kind}.jsonl").open("a") as file:
        file.write(json.dumps({"id": name} | kept, ensure_ascii=False, separators=(",", ":")) + "\n")
    return name


def _rows(name: str, rows: Iterable[Run], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([name, *(_short(row.get(key)) for key in columns[1:])])
    return text.getvalue()


def _short(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"
