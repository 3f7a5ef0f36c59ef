"""Which experiments a table or figure of the paper is made of, and what the paper reports: read from ``paper.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...config.network import NetworkConfig
from ...config.presets import make_config


@dataclass(frozen=True)
class PaperFigure:
    """An accuracy in the paper: in percent, at a depth, and what it is (``best``: read off the test curve).

    Beyond the paper there are figures of others, without a depth.
    """

    layers: int
    accuracy: float
    what: str

    @property
    def shown(self) -> str:
        """The figure as a table has it."""
        return f"{self.accuracy:g} ({f'{self.layers}, ' if self.layers else ''}{self.what})"


@dataclass(frozen=True)
class Experiment:
    """One network of a table.

    Attributes
    ----------
    name, label : str
        For the command line, and for people.
    dataset : str
        A public set; its preset has the settings,
    preset : str
        unless another is named.
    changes : dict
        What the table varies.
    paper : tuple of PaperFigure
    another_reading : bool
        Of the same network as one before: run if it is named, not as a part of the table.
    """

    name: str
    label: str
    dataset: str
    changes: dict[str, Any] = field(default_factory=dict)
    preset: str = ""
    paper: tuple[PaperFigure, ...] = ()
    another_reading: bool = False

    def config(self, file: Path | None = None, **overrides: Any) -> NetworkConfig:
        """Return the preset's settings, then those of a file, then what the table varies, then what is asked for."""
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
        """Return the experiments of those names; with no names, all but other readings."""
        known = [experiment.name for experiment in self.experiments]
        for name in names:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}."
                raise ValueError(f"{self.name} has no experiment {name!r}: {hint}")
        return tuple(e for e in self.experiments if e.name in names or not (names or e.another_reading))


@cache
def _plans() -> dict[str, Any]:
    files = (resources.files(__package__).joinpath(name) for name in ("paper.toml", "beyond.toml"))
    return {name: plan for file in files for name, plan in tomllib.loads(file.read_text("utf-8")).items()}


def plan_names() -> list[str]:
    """Return the tables and figures that can be reproduced, and what goes beyond the paper."""
    return list(_plans())


def load_plan(name: str) -> Plan:
    """Return the plan of a table or figure; an unknown name is an error that tells the nearest one."""
    if name not in plan_names():
        near = get_close_matches(name, plan_names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(plan_names())}."
        raise ValueError(f"the paper has nothing called {name!r} to reproduce: {hint}")
    content = _plans()[name]
    experiments = tuple(
        Experiment(**(entry | {"paper": tuple(PaperFigure(**figure) for figure in entry["paper"])}))
        for entry in content["experiment"]
    )
    return Plan(name, content["title"], experiments, tuple(content.get("published", ())))
