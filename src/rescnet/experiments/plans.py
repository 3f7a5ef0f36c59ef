"""Plans: the networks a table or figure of the paper is made of, and what the paper reports."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ..config.network import NetworkConfig
from ..config.presets import make_config
from ..text import check_known

RECORDS = "records"  # plan that is part of another one, so that it has no file


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
    """One network of a plan: a preset, by default that of its public data set, and the options that differ from it.

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
        base = make_config(self.preset or self.dataset, file).to_dict()
        return NetworkConfig(**(base | self.changes | overrides))


@dataclass(frozen=True)
class Plan:
    """A table or figure: its experiments, and for Table 2 the other networks as published there."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    published: tuple[dict[str, Any], ...] = ()

    def only(self, names: list[str]) -> tuple[Experiment, ...]:
        """Return the experiments of these names; all if there are no names."""
        for name in names:
            check_known("experiment", name, [experiment.name for experiment in self.experiments])
        return tuple(e for e in self.experiments if not names or e.name in names)


@cache
def _plans() -> dict[str, Any]:
    files = (resources.files(__package__).joinpath(name) for name in ("paper.toml", "beyond.toml"))
    return {name: plan for file in files for name, plan in tomllib.loads(file.read_text("utf-8")).items()}


@cache
def _times() -> dict[str, dict[str, Any]]:
    """Return the times of each plan's experiments, which ``lab.tables`` writes from the record."""
    times: dict[str, dict[str, Any]] = json.loads(resources.files(__package__).joinpath("times.json").read_text())
    return times


def plan_names() -> list[str]:
    """Return the names of all plans."""
    return [*_plans(), RECORDS]


def load_plan(name: str) -> Plan:
    """Return a plan by its name; ``records`` has the experiments of ``beyond`` with our best presets."""
    check_known("name", name, plan_names())
    if name == RECORDS:
        best = (e for e in load_plan("beyond").experiments if e.preset.endswith("-best"))
        return Plan(name, "Records: our best networks", tuple(best))
    plan, times = read_plan(name, _plans()[name]), _times().get(name, {})
    timed = (replace(e, recorded=RecordedTime(*times[e.name])) if e.name in times else e for e in plan.experiments)
    return replace(plan, experiments=tuple(timed))


def read_plan(name: str, content: Mapping[str, Any]) -> Plan:
    """Return a plan from the content of its TOML table."""
    experiments = tuple(
        Experiment(**(entry | {"paper": tuple(PaperFigure(**figure) for figure in entry.get("paper", ()))}))
        for entry in content["experiment"]
    )
    return Plan(name, content["title"], experiments, tuple(content.get("published", ())))
