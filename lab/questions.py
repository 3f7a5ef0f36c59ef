"""Questions: the networks or models that a table, a figure or an idea is about, and what the paper reports.

Each is a file of ``questions``; ``[base]`` there is part of the changes of every experiment.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rescnet import Config, NetworkConfig
from rescnet.base.text import check_known

LAB = Path(__file__).resolve().parent
QUESTIONS, TIMES = LAB / "questions", LAB / "records" / "times.json"
TABLES = ("table2", "figure2", "table3", "table4", "beyond")
BEST = "records"  # the experiments of ``beyond`` with our best presets, on all training images
HELD_OUT = 5000  # training images that choose the depth


@dataclass(frozen=True)
class PaperFigure:
    """A published accuracy in percent, its depth and kind (``best``: read off the test curve).

    Figures of other papers have depth 0.
    """

    layers: int
    accuracy: float
    what: str

    @property
    def shown(self) -> str:
        """The figure as text for a table."""
        return f"{self.accuracy:g} ({f'{self.layers}, ' if self.layers else ''}{self.what})"


class RecordedTime(NamedTuple):
    """Mean time of our newest runs of an experiment."""

    seconds: float
    layers: int
    device: str


@dataclass(frozen=True)
class Experiment:
    """One network of a question: a preset, by default that of its public data set, and the options that differ.

    The name is for the command line, the label for tables.
    """

    name: str
    label: str
    dataset: str
    changes: dict[str, Any] = field(default_factory=dict)
    preset: str = ""
    paper: tuple[PaperFigure, ...] = ()
    recorded: RecordedTime | None = None

    def config(self, file: Path | None = None, **overrides: Any) -> NetworkConfig:
        """Return the settings: preset, then file, then changes, then overrides."""
        preset = self.preset or self.dataset
        base = (Config.read(file, preset) if file else Config(preset)).complete().to_dict()
        return NetworkConfig(**(base | self.changes | overrides))


@dataclass(frozen=True)
class Question:
    """A question: its experiments, or the models that ``rescnet compare`` trains.

    ``published`` are the other networks of Table 2, as published there.
    """

    name: str
    title: str
    experiments: tuple[Experiment, ...] = ()
    models: tuple[str, ...] = ()
    dataset: str = "cifar10"
    held_out: float | None = None  # number of images, of models their share
    splits: int = 1
    seeds: tuple[int, ...] = (0,)
    limit: int | None = None
    published: tuple[dict[str, Any], ...] = ()

    def only(self, names: Sequence[str]) -> tuple[Experiment, ...]:
        """Return the experiments of these names; all if there are no names."""
        for name in names:
            check_known("experiment", name, [experiment.name for experiment in self.experiments])
        return tuple(e for e in self.experiments if not names or e.name in names)


@cache
def question_names() -> list[str]:
    """Return all questions that can be run, the paper's tables first."""
    contents = {file.stem: tomllib.loads(file.read_text()) for file in sorted(QUESTIONS.glob("*.toml"))}
    own = [name for name, content in contents.items() if {"experiment", "models"} & content.keys()]
    return [*TABLES, BEST, *(name for name in own if name not in TABLES)]


@cache
def _times() -> dict[str, dict[str, Any]]:
    """Return the times of each table's experiments, which ``lab.tables`` writes from the record."""
    times: dict[str, dict[str, Any]] = json.loads(TIMES.read_text())
    return times


def load_question(name: str) -> Question:
    """Return a question by its name."""
    check_known("question", name, question_names())
    if name == BEST:
        best = tuple(e for e in load_question("beyond").experiments if e.preset.endswith("-best"))
        return Question(name, "Records: our best networks", best, held_out=0)
    return read_question(QUESTIONS / f"{name}.toml")


def read_question(file: Path) -> Question:
    """Return the question in a TOML file."""
    content = tomllib.loads(file.read_text())
    base, entries = content.pop("base", {}), content.pop("experiment", [])
    times, dataset = _times().get(file.stem, {}), content.get("dataset", "cifar10")
    experiments = []
    for entry in entries:
        given = {"label": entry["name"], "dataset": dataset} | entry
        given["changes"] = base | entry.get("changes", {})
        given["paper"] = tuple(PaperFigure(**figure) for figure in entry.get("paper", ()))
        experiments.append(Experiment(**given))
    timed = (replace(e, recorded=RecordedTime(*times[e.name])) if e.name in times else e for e in experiments)
    content |= {key: tuple(content[key]) for key in ("models", "seeds", "published") if key in content}
    return Question(file.stem, experiments=tuple(timed), **content)
