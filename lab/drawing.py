"""Drawings of results with matplotlib, which is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .questions import Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[int, float | None, float | None]
"""A layer, and its test and training accuracy."""
MOST = 6  # lines per figure


@contextmanager
def figure(file: Path, width: float = 8.0, height: float = 4.6) -> Iterator[Axes]:
    """Yield axes to draw on; the figure is written to a file at the end, as SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    plain: Any = {"svg.fonttype": "none", "svg.hashsalt": "rescnet", "font.size": 9, "axes.titlesize": 10}
    with matplotlib.rc_context(plain):
        drawing = Figure((width, height), layout="constrained")
        axes = drawing.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e5e5e5")
        axes.set_axisbelow(True)
        yield axes
        drawing.savefig(file, format="svg", metadata={"Date": None})


def thin(points: Sequence[Any], most: int = 80) -> list[Any]:
    """Return a line's points, thinned out if there are many; the last one stays."""
    step = -(-len(points) // most) or 1
    return [*points[::step], *(points[-1:] if (len(points) - 1) % step else [])]


def draw_layers(
    file: Path, question: Question, dataset: str, runs: Sequence[tuple[Mapping[str, Any], Sequence[Point]]]
) -> None:
    """Draw the test accuracy of a question's runs over layers, dashed the training accuracy.

    The paper's figures are diamonds, readouts stars. Of several runs of a network on the same images the deepest is
    drawn, all images first.
    """
    deepest: dict[tuple[str, int], tuple[Mapping[str, Any], Sequence[Point]]] = {}
    for run, points in sorted(runs, key=lambda r: (-r[0]["images"]["train"], -r[0]["layers"], r[0]["seed"])):
        deepest.setdefault((run["name"], run["images"]["train"]), (run, points))
    known = {e.name for e in question.experiments}
    drawn = sorted(deepest.values(), key=lambda r: (r[0]["name"] not in known, -r[0]["images"]["train"]))[:MOST]
    tests = []
    with figure(file) as axes:
        for number, (run, points) in enumerate(drawn):
            colour, label = f"C{number}", f"{run['label']}, {run['images']['train']:,} images"
            for place, style, width in ((1, "-", 1.2), (2, "--", 0.7)):
                line = [(point[0], 100 * share) for point in thin(points) if (share := point[place]) is not None]
                if line:
                    axes.plot(*zip(*line, strict=True), style, color=colour, label=label, linewidth=width)
                    label = "_"  # the legend has each network once
            tests += [100 * share for _, share, _ in points[-1:] if share is not None]
            if (readout := run["summary"].get("readout")) and readout["test"] is not None:
                axes.plot(run["layers"], 100 * readout["test"], "*", color=colour, markersize=11)
        figures = (f for e in question.experiments if e.dataset == dataset for f in e.paper if f.layers)
        marks = sorted({(figure.layers, figure.accuracy) for figure in figures})
        for mark in marks:
            axes.plot(*mark, "kD", markersize=5)
            axes.annotate(f"paper {mark[1]:g}", mark, (4, 4), textcoords="offset points", fontsize=8)
        if tests:
            left = max(1.0, 100 - max(tests))  # the remaining error sets the scale
            lowest = min(max(tests) - 1.5 * left, *(accuracy - 0.1 * left for _, accuracy in marks), 100.0)
            axes.set_ylim(max(0.0, lowest), 100 + 0.05 * left)
        axes.set(title=f"{question.title}: {dataset}", xlabel="layers", ylabel="accuracy, %: test, and dashed training")
        axes.legend(frameon=False, fontsize=7)
