"""Tables and figures of results beside the paper's; figures are drawn with matplotlib if it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from ..text import count, show_bytes, show_seconds
from .curve import Curves, crossings
from .plans import Plan
from .records import seeds_together

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .compare import Row

NO_PLOTS = "no figure was drawn: pip install matplotlib enables it"
TITLES = ("network", "published", "chosen on held-out images", "last layer", "best on the test curve", "images", "time")
WITH_READOUT = "with the kernel readout (layers)"


def titles(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the titles of the columns; there is one more if a network has a readout."""
    return [*TITLES[:2], *([WITH_READOUT] if _has_readout(entries) else []), *TITLES[2:]]


def table_rows(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of each experiment: what the paper reports, and ours, in percent on the test set."""
    groups, read_out = seeds_together(entries), _has_readout(entries)
    rows = []
    for experiment in plan.experiments:
        paper = "; ".join(figure.shown for figure in experiment.paper)
        found = [group for group in groups if group[0]["name"] == experiment.name]
        if not found:
            rows.append([experiment.label, paper, "not run yet", *[""] * (4 + read_out)])
        for group in found:
            entry, config = group[0], group[0]["config"]
            named = {"augment": "", "test_views": "mean of views: ", "kernel_copies": "copies in the readout: "}
            changes = [f"{words}{config[key]}" for key, words in named.items() if config.get(key)]
            layers = round(mean(seed["layers"] for seed in group))
            unfinished = "" if all(seed["finished"] for seed in group) else ", unfinished"
            rows.append(
                [
                    experiment.label,
                    paper,
                    *([_cell(group, "readout")] if read_out else []),
                    _cell(group, "chosen"),
                    _cell(group, "last", unfinished),
                    _cell(group, "paper_rule"),
                    "; ".join([f"{entry['images']['train']:,}", *changes]),
                    f"{show_seconds(mean(seed['seconds'] for seed in group))} for {count(layers, 'layer', 'layers')}"
                    f"{' and the readout' if 'readout' in entry['summary'] else ''}",
                ]
            )
    return rows


def markdown(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table as Markdown, and the provenance of its figures."""
    rows = [f"| {' | '.join(titles(entries))} |", "|" + "---|" * len(titles(entries))]
    rows += [f"| {' | '.join(row)} |" for row in table_rows(plan, entries)]
    rows += ["", "Test accuracy in %, in brackets the layer. The best on the test curve is the paper's rule.", ""]
    for entry in entries:
        rows.append(f"- `{entry['name']}`: {entry['device']}, commit {entry['commit']}, `{entry['command']}`.")
    return rows


def _has_readout(entries: Sequence[Mapping[str, Any]]) -> bool:
    return any("readout" in entry["summary"] for entry in entries)


def _cell(group: Sequence[Mapping[str, Any]], which: str, more: str = "") -> str:
    """Write the mean accuracy of networks that differ in the seed, and their standard deviation."""
    found = [entry["summary"][which] for entry in group if which in entry["summary"]]
    found = [at for at in found if at["test"] is not None]
    if not found:
        return "–"  # there are no such images
    percents = [100 * at["test"] for at in found]
    deviation = f" ± {stdev(percents):.2f}" if len(percents) > 1 else ""
    layers = ", ".join(dict.fromkeys(str(at["layer"]) for at in found))
    seeds = f"; {len(found)} seeds" if len(found) > 1 else ""
    return f"**{mean(percents):.2f}**{deviation} ({layers}{more}{seeds})"


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


@contextmanager
def figure(file: Path, width: float = 8.0, height: float = 4.6) -> Iterator[Axes]:
    """Yield axes to draw on; the figure is written to a file at the end, by default as SVG."""
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
        kind = file.suffix.removeprefix(".") or "svg"
        drawing.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)


def thin(points: Sequence[Any], most: int = 300) -> list[Any]:
    """Return a line's points, thinned out if there are many; the last one stays."""
    step = -(-len(points) // most) or 1
    return [*points[::step], *(points[-1:] if (len(points) - 1) % step else [])]


def draw_curves(file: Path, plan: Plan, entries: Sequence[Mapping[str, Any]], dataset: str) -> None:
    """Draw the test accuracy of a plan's experiments over layers, dashed the training accuracy.

    The paper's figures are diamonds, readouts stars. Of several runs of an experiment the deepest is drawn.
    """
    found = {entry["name"]: entry for entry in sorted(entries, key=lambda entry: (entry["layers"], -entry["seed"]))}
    drawn = [(e, found[e.name]) for e in plan.experiments if e.name in found and e.dataset == dataset]
    seen: list[float] = []
    with figure(file) as axes:
        for number, (experiment, entry) in enumerate(drawn):
            colour, label = f"C{number % 10}", f"{experiment.label}, {entry['images']['train']:,} images"
            for split, style in (("test", "-"), ("train", "--")):
                points = [(r["layer"], 100 * r[f"{split}_accuracy"]) for r in entry["history"]
                          if r[f"{split}_accuracy"] is not None]  # fmt: skip
                if points:
                    axes.plot(*zip(*thin(points), strict=True), style, color=colour, label=label, linewidth=1.2)
                    label = "_"  # the legend has each network once
                    seen += [share for _, share in points] if split == "test" else []
            if (readout := entry["summary"].get("readout")) and readout["test"] is not None:
                share = 100 * readout["test"]
                axes.plot(entry["layers"], share, "*", color=colour, markersize=11, label=f"readout {share:.2f}")
                seen.append(share)
            for published in (figure for figure in experiment.paper if figure.layers):
                place = published.layers, published.accuracy
                axes.plot(*place, "D", color=colour, markeredgecolor="white")
                axes.annotate(f"paper {published.accuracy:g}", place, (4, 4), textcoords="offset points", fontsize=8)
                seen.append(published.accuracy)
        if seen:
            left = 100 - max(seen)  # the remaining error sets the scale
            lowest = max(0.0, min(sorted(seen)[len(seen) // 10], max(seen) - left))
            axes.set_ylim(lowest - 0.1 * left, 100 + 0.05 * left)
            axes.legend(frameon=False, fontsize=8)
        axes.set(title=f"{plan.title}: {dataset}", xlabel="layers", ylabel="accuracy, %: test, and dashed training")


def datasets(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the data sets of a plan that something was run on."""
    run = {entry["name"] for entry in entries}
    return list(dict.fromkeys(e.dataset for e in plan.experiments if e.name in run))


def draw_league(file: Path, rows: Sequence[Row], title: str) -> None:
    """Draw one line per model, best first: filled dots are measured, hollow ones published."""
    done = sorted((row for row in rows if row.accuracy is not None), key=lambda row: row.accuracy or 0)
    if not done:
        raise ValueError("no model was measured, so there is nothing to draw: see the errors in the table.")
    with figure(file, 9, 0.9 + 0.28 * len(done)) as axes:
        shares = [100 * (row.accuracy or 0) for row in done]
        axes.plot(shares, range(len(done)), "o", color="C0", label="measured")
        published = [(100 * row.published, place) for place, row in enumerate(done) if row.published is not None]
        if published:
            axes.plot(*zip(*published, strict=True), "o", color="C1", markerfacecolor="none", label="published")
            axes.legend(frameon=False)
        axes.set_yticks(range(len(done)), [_short(row.model) for row in done])
        right = axes.secondary_yaxis("right")
        facts = [f"{share:.2f} % · {show_seconds(row.seconds)} · {show_bytes(row.peak_memory)}"
                 for share, row in zip(shares, done, strict=True)]  # fmt: skip
        right.set_yticks(range(len(done)), facts)
        axes.set(title=title, xlabel="accuracy, %")


def draw_learning_curve(file: Path, curves: Curves, title: str) -> None:
    """Draw accuracy over images per class, one line per model; a dashed line marks where the first two cross."""
    with figure(file, 7, 4.2) as axes:
        for number, (model, curve) in enumerate(curves.items()):
            shares = [100 * share for share in curve.values()]
            axes.plot(list(curve), shares, "o-", color=f"C{number}", label=_short(model))
        first, *others = curves.values()
        for place in crossings(first, others[0]) if others else []:
            axes.axvline(place, color="#888888", linestyle="--", linewidth=1)
        ticks = sorted({images for curve in curves.values() for images in curve})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{images:,}" for images in ticks])
        axes.minorticks_off()
        axes.legend(frameon=False, loc="lower right")
        axes.set(title=title, xlabel="training images per class", ylabel="test accuracy, %")


def _short(model: str, letters: int = 46) -> str:
    """Return a model's name and options, cut to fit beside a line."""
    words = model.replace(":", ", ")
    return words if len(words) <= letters else f"{words[: letters - 1]}…"
