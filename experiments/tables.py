"""Write the pages of the record: one Markdown page per question, and the short tables of ``docs/results.md``.

python -m experiments.tables          write them
python -m experiments.tables --check  exit 1 if one of them is stale
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, mean, median, stdev
from typing import Any

import pandas as pd

from rescnet.experiments.plans import load_plan

from .records import RECORDS, Run, file_of, layers_of, read_epochs, read_lines, runs_of

ROOT = Path(__file__).resolve().parent.parent
PAGES, RESULTS_PAGE = RECORDS / "pages", ROOT / "docs" / "results.md"
APART = ("seed", "layers")  # options that make no other reading
BEST = ("cifar10", "cifar10-augmented", "cifar100", "cifar100-augmented", "mnist", "mnist-augmented", "fashion-mnist")
BEST += ("fashion-mnist-augmented",)
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST", "tiny-imagenet": "TinyImageNet"}
Row = dict[str, str]


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    table = pd.DataFrame(rows).fillna("").to_markdown(index=False, tablefmt="pipe", disable_numparse=True)
    return re.sub(r":?-{3,}:?", "---", re.sub(r" {2,}", " ", table))  # padding would be a third of the pages


def spread(shares: Sequence[float | None], digits: int = 2) -> str:
    """Write the mean of shares in percent, with the standard deviation where there are several."""
    percents = [100 * share for share in shares if share is not None and share == share]
    if not percents:
        return "–"
    return f"{mean(percents):.{digits}f}" + (f" ± {stdev(percents):.{digits}f}" if len(percents) > 1 else "")


def ids(runs: Sequence[Run]) -> str:
    """Write the ids of runs of one file: the file once, then the numbers."""
    files: dict[str, list[str]] = {}
    for run in runs:
        files.setdefault(file_of(run), []).append(run["id"].rsplit(".", 1)[1])
    return "; ".join(f"{name}.{', '.join(numbers)}" for name, numbers in files.items())


def caveats(runs: Sequence[Run]) -> str:
    """List the caveats of runs, each once, with the runs it is about."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.get("caveat"):
            found.setdefault(run["caveat"], []).append(run)
    return "\n".join(f"- {ids(about)}: {text}" for text, about in found.items())


def page(title: str, *parts: str) -> str:
    """Return a page from its parts."""
    return (
        "\n\n".join([f"# {title}", "Written by `python -m experiments.tables`; do not edit.", *filter(None, parts)])
        + "\n"
    )


# The paper's tables, and what goes beyond them


def seeds(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs of one name, number of images and options together, whatever their seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        options = {key: value for key, value in run["options"].items() if key != "seed"}
        groups.setdefault(json.dumps([run["name"], run["images"], options, file_of(run)]), []).append(run)
    return list(groups.values())


def at(group: Sequence[Run], which: str) -> str:
    """Write the test accuracy of runs at the depth ``which`` names, and these depths."""
    found = [run["summary"][which] for run in group if which in run["summary"]]
    found = [point for point in found if point["test"] is not None]
    if not found:
        return "–"
    layers = ", ".join(dict.fromkeys(str(point["layer"]) for point in found))
    return f"{spread([point['test'] for point in found])} ({layers})"


def paper_page(name: str) -> str:
    """Return a table of the paper beside all runs of it."""
    plan = load_plan(name)
    runs = runs_of(name)
    published = {e.name: "; ".join(figure.shown for figure in e.paper) for e in plan.experiments}
    rows = []
    for group in sorted(seeds(runs), key=lambda g: (g[0]["dataset"], g[0]["name"], g[0]["images"]["train"])):
        run = group[0]
        known = max((n for n in published if run["name"] == n or run["name"].startswith(f"{n}-")), key=len, default="")
        augmented = run["options"].get("augment") or run["options"].get("kernel_copies", "")
        rows.append(
            {
                "network": run["label"],
                "published": published.get(known, "–"),
                "readout": at(group, "readout"),
                "chosen on validation images": at(group, "chosen"),
                "last layer": at(group, "last") + ("" if all(r["finished"] for r in group) else ", unfinished"),
                "best on the test curve": at(group, "paper_rule"),
                "images": f"{run['images']['train']:,}{f', {augmented}' if augmented else ''}",
                "minutes": f"{mean(r['seconds'] for r in group) / 60:.1f}",
                "seeds": str(len(group)),
                "runs": ids(group),
            }
        )
    if not any(row["readout"] != "–" for row in rows):
        rows = [{key: value for key, value in row.items() if key != "readout"} for row in rows]
    note = "Test accuracy in %, in brackets the layer. The best on the test curve is the paper's rule, no honest one."
    return page(plan.title, note, markdown(rows), "## Caveats", caveats(runs))


# Readings side by side


def comparison_page(question: str, title: str) -> str:
    """Return one table per file of a question: every reading at one depth, compared with the file's first run."""
    runs = runs_of(question)
    parts = []
    for name in dict.fromkeys(file_of(run) for run in runs):
        parts += [f"## {name}", comparison([run for run in runs if file_of(run) == name])]
    return page(title, *parts)


def comparison(runs: Sequence[Run]) -> str:
    """Return a table of runs at the depth all reached, the best on validation images first."""
    runs = [run for run in runs if run.get("layers")]
    base = runs[0]["options"]
    usual = median(run["layers"] for run in runs)
    depth = min(run["layers"] for run in runs if run["layers"] >= usual / 2)
    groups: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps({k: v for k, v in run["options"].items() if k not in APART}, sort_keys=True)
        groups.setdefault(key, []).append(run)
    rows = []
    for everyone in groups.values():
        group = [run for run in everyone if run["layers"] >= depth] or everyone
        reached = [layers_of(run).iloc[min(depth, run["layers"]) - 1] for run in group]
        readouts = [run["readout"] for run in group if run.get("readout")]
        order = [r["validation_accuracy"] for r in readouts] or [r["validation"] for r in reached]
        changed = {k: v for k, v in group[0]["options"].items() if base.get(k) != v and k not in APART}
        changed |= {k: "default" for k in base if k not in group[0]["options"] and k not in APART}
        row = {
            "reading": group[0]["name"],
            "options": ", ".join(f"{key} {value}" for key, value in changed.items()) or "the base",
            "layers": str(max(run["layers"] for run in group)),
            f"validation % at {depth}": spread([r["validation"] for r in reached]),
            f"training % at {depth}": spread([r["train"] for r in reached]),
            f"test % at {depth}": spread([r["test"] for r in reached]),
            "test % at the depth chosen": at(group, "chosen"),
        }
        if any(run.get("readout") for run in runs):
            row["readout, validation %"] = spread([r["validation_accuracy"] for r in readouts])
            row["readout, test %"] = spread([r["test_accuracy"] for r in readouts])
        rows.append((-fmean(v or 0 for v in order), row | {"seeds": str(len(group)), "runs": ids(group)}))
    images = runs[0].get("training_images")
    facts = [runs[0]["dataset"], f"{images:,} training images" if images else "", runs[0]["device"]]
    intro = f"{', '.join(filter(None, facts))}, commit {runs[0]['commit']}."
    notes = caveats(runs)
    return "\n\n".join(filter(None, [intro, markdown([row for _, row in sorted(rows, key=lambda r: r[0])]), notes]))


def equal_training() -> dict[str, dict[str, Any]]:
    """Return which runs are compared at equal training accuracy, by data set."""
    return tomllib.loads((ROOT / "experiments" / "questions" / "equal-training.toml").read_text())


def validation_at(points: pd.DataFrame, training: float, near: float = 0.25) -> float | None:
    """Return the mean validation accuracy of the layers near a training accuracy, all in percent."""
    width = min(near, (100 - training) / 2)
    found = points[(points["train"] * 100 - training).abs() <= width + 1e-9]["validation"].dropna()
    return None if found.empty else float(100 * found.mean())


def equal_training_page() -> str:
    """Return validation accuracies at equal training accuracy: what a reading is worth once its speed is taken out."""
    parts = [
        "Validation accuracy in %, mean of layers whose training accuracy is within 0.25 of the column's, or within "
        "half of what it lacks to 100. 45,000 images, one seed, stride 4 unless a row says otherwise."
    ]
    known = {run["id"]: run for run in runs_of()}
    for about in equal_training().values():
        rows = []
        for reading in about["runs"]:
            points = layers_of(known[reading["run"]])
            cells = {f"{t:g}": validation_at(points, t) for t in about["trainings"]}
            shown = {f"train {t} %": "–" if v is None else f"{v:.2f}" for t, v in cells.items()}
            rows.append({"reading": reading["name"], **shown, "run": reading["run"]})
        parts += [f"## {about['label']}", markdown(rows)]
    return page("Readings at equal training accuracy", *parts)


def ladder_page() -> str:
    """Return the steps from the paper's network to ours."""
    parts = []
    for name in ("ladder-cifar10-best", "ladder-cifar10"):
        runs = [run for run in runs_of(file=name) if run.get("kept", True)]
        rows = [
            {"change, kept by all below": n, "validation %": spread([v]), "test %": spread([t]), "run": i}
            for n, v, t, i in rungs(runs)
        ]
        parts += [f"## {name}", markdown(rows), caveats(runs)]
    note = "Mean of the last five layers at the depth of the shallowest step, or with the readout where there is one."
    return page("From the paper's network to ours", note, *parts)


def rungs(runs: Sequence[Run]) -> list[tuple[str, float, float, str]]:
    """Return name, validation and test accuracy and id of each step."""
    depth = min(run["layers"] for run in runs)
    found = []
    for run in runs:
        last = layers_of(run).iloc[max(0, depth - 5) : depth]
        shares = {split: float(last[split].mean()) for split in ("validation", "test")}
        if readout := run.get("readout"):
            shares = {split: readout[f"{split}_accuracy"] for split in shares}
        found.append((run["name"], shares["validation"], shares["test"], run["id"]))
    return found


# Family, gradients


def family_rows(file: str) -> list[Row]:
    """Return the rows of a league, the best first."""
    rows = []
    for run in sorted(runs_of(file=file), key=lambda r: -(r.get("accuracy") or 0)):
        if not run.get("accuracy"):
            rows.append({"model": run["model"], "accuracy %": run.get("error", "failed"), "run": run["id"]})
            continue
        deviation = f" ± {100 * run['deviation']:.2f}" if run.get("deviation") is not None else ""
        rows.append(
            {
                "model": run["model"],
                "accuracy %": f"{100 * run['accuracy']:.2f}{deviation}",
                "published %": f"{100 * run['published']:.2f}" if run.get("published") else "–",
                "seconds": f"{run['seconds']:.1f}",
                "CPU seconds": f"{run['cpu_seconds']:.1f}",
                "peak": f"{run['peak_memory'] / 1e9:.2f} GB",
                "size": f"{run['model_bytes'] / 1e6:.2f} MB",
                "device": run["device"],
                "run": run["id"],
            }
        )
    return rows


def family_page() -> str:
    """Return every league."""
    parts = []
    for name in dict.fromkeys(file_of(run) for run in runs_of("family")):
        runs = runs_of(file=name)
        protocol = " or ".join(sorted({run["protocol"] for run in runs}))
        images = " or ".join(sorted({f"{run['train_images']:,}" for run in runs}))
        parts += [f"## {name}", f"Measured on {protocol}, {images} training images.", markdown(family_rows(name))]
        parts += [caveats(runs[:1])]
    return page("PCANet and its relatives", *parts)


def choices_page() -> str:
    """Return what was tried for members of the family on validation images."""
    parts = []
    for name in dict.fromkeys(file_of(run) for run in runs_of("family-choices")):
        runs = runs_of(file=name)
        rows = []
        for run in sorted(runs, key=lambda r: -(r.get("accuracy") or 0)):
            label = run.get("model") or ":".join([run["name"], *(f"{k}={v}" for k, v in run["options"].items())])
            rows.append({"model": label, "validation %": spread([run.get("accuracy")]), "run": run["id"]})
        chosen = runs[0].get("chosen")
        parts += [f"## {name}", markdown(rows), f"Chosen: {chosen}." if chosen else "", caveats(runs[:1])]
    return page("Options of the family, chosen on validation images", *parts)


def gradient_runs() -> list[tuple[Run, pd.DataFrame]]:
    """Return the networks trained by gradients, and their epochs."""
    epochs = {str(name): rows for name, rows in read_epochs().groupby("run", sort=False)}
    return [(run, epochs[run["id"]]) for run in runs_of("gradients") if run["id"] in epochs]


def gradients_page() -> str:
    """Return networks trained by gradients, and accuracy over seconds beside ours."""
    rows = []
    for run, epochs in gradient_runs():
        chosen = epochs.iloc[epochs["validation"].to_numpy()[::-1].argmax() * -1 - 1]
        last = epochs.iloc[-1]
        recipe = run["options"]
        rows.append(
            {
                "network": run["name"],
                "test % (epoch chosen)": f"{100 * chosen['test']:.2f} ({chosen['epoch']:.0f})",
                "test %, last epoch": f"{100 * last['test']:.2f} ({last['epoch']:.0f})",
                "seconds": f"{last['seconds']:.0f}",
                "recipe": ", ".join(f"{key} {recipe[key]:g}" for key in ("batch", "learning_rate", "weight_decay")),
                "run": run["id"],
            }
        )
    both = []
    for run in runs_of(file="side-by-side-cifar10"):
        if run["id"] in dict.fromkeys(r["id"] for r, _ in gradient_runs()):
            table = next(e for r, e in gradient_runs() if r["id"] == run["id"])
            curve = table.set_index("seconds")["test"]
        else:
            layers = layers_of(run)
            curve = pd.Series(layers["test"].to_numpy(), index=layers["seconds"].cumsum())
        cells = {f"after {s} s": _last_before(curve, s) for s in (5, 15, 60, 240)}
        both.append(
            {"network": run["name"], **cells, "at the end": f"{100 * curve.iloc[-1]:.2f} ({curve.index[-1]:.0f} s)"}
        )
    side = ["## Side by side on one GPU, 45,000 images, test %", markdown(both)]
    note = "As published in the paper's Table 2; in bold as measured here, at the epoch chosen on validation images."
    other = ["## The other networks of Table 2", note, others()]
    return page("Networks trained by gradients", markdown(rows), *side, *other, caveats(runs_of("gradients")))


def _last_before(curve: pd.Series, seconds: float) -> str:
    found = curve[curve.index <= seconds]
    return "–" if found.empty or curve.index[-1] < seconds else f"{100 * found.iloc[-1]:.2f}"


# Time and memory


def speed_page() -> str:
    """Return what a layer costs, by device."""
    lines = read_lines("bench")
    parts = []
    for name in dict.fromkeys(file_of(run) for run in lines if run["question"] == "speed"):
        runs = [run for run in lines if file_of(run) == name]
        if "heads" in runs[0]:
            rows = [
                {
                    "head": head["name"],
                    "seconds": f"{head['seconds']:.2f}",
                    "ratio": f"{head['ratio']:.2f} × {head['compared_with']}",
                    "CPU ratio": f"{head['cpu_ratio']:.2f}",
                    "accuracy %": f"{100 * head['accuracy']:.2f}",
                }
                for head in runs[0]["heads"]
            ]
        else:
            rows = [
                {
                    "preset, precision": " ".join(run["name"].split()),
                    "features": f"{run['features']:,}",
                    "seconds per layer": f"{run['seconds']:.3f}",
                    **{stage: f"{seconds:.3f}" for stage, seconds in run["seconds_by_stage"].items()},
                    "peak": f"{run['peak_memory'] / 1e9:.1f} GB",
                }
                for run in runs
            ]
        where = f"{runs[0]['device']}, torch {runs[0]['versions']['torch']}, commit {runs[0]['commit']}."
        parts += [f"## {name}", where, markdown(rows), caveats(runs[:1])]
    return page("Seconds per layer", *parts, "## precision", precision_table(), caveats(runs_of("precision")[:1]))


def precision_table() -> str:
    """Return the same network trained in each precision."""
    rows = []
    for run in runs_of("precision"):
        layers = layers_of(run)
        last = layers.iloc[-10:]
        rows.append(
            {
                "precision": run["precision"],
                "test %, last layer": spread([layers.iloc[-1]["test"]]),
                "test %, last ten": spread([last["test"].mean()]),
                "validation %, last ten": spread([last["validation"].mean()]),
                "seconds per layer": f"{layers['seconds'].iloc[2:].median():.2f}",
                "run": run["id"],
            }
        )
    return markdown(rows)


def memory_page() -> str:
    """Return memory against images, a capped GPU, workers, and heads of few images."""
    lines = {file_of(run): run for run in read_lines("bench")}
    growth, capped, workers, few = (
        lines[name] for name in ("memory-growth", "capped-memory-h200", "workers", "few-images-cpu")
    )
    grown = [
        {
            "images": f"{run['images']:,}",
            "maps, in a file": f"{run['plan']['maps_bytes'] / 1e6:,.0f} MB",
            "peak of the process": f"{run['peak_memory'] / 1e6:.0f} MB",
        }
        for run in growth["runs"]
    ]
    cap = [
        {
            "memory": name,
            "maps": capped[key]["plan"]["maps_place"],
            "peak": f"{capped[key]['peak_memory'] / 1e9:.1f} GB",
            "seconds per layer": f"{capped[key]['seconds_per_layer']:.3f}",
        }
        for key, name in (("free", "all"), ("capped", f"{capped['cap'] / 1e9:.0f} GB"))
    ]
    two = [
        {
            "workers": str(run["workers"]),
            "seconds per layer": f"{run['seconds']:.2f}",
            "exchanged per layer": f"{run['exchanged'] / 1e6:.0f} MB",
        }
        for run in workers["runs"]
    ]
    reckoned = [
        {
            "GPUs": str(run["workers"]),
            "images each": f"{run['images']:,}",
            "maps": f"{run['maps_bytes'] / 1e9:.1f} GB",
            "exchanged": f"{run['exchanged'] / 1e6:.0f} MB",
            "seconds over images": f"{run['seconds_growing']:.2f}",
            "seconds, heads": f"{run['seconds_heads']:.2f}",
            "seconds, exchange": f"{run['seconds_exchange']:.3f}",
        }
        for run in workers["imagenet"]
    ]
    rows = [
        {
            "images": f"{size['images']:,}",
            "layer, heads from rows": f"{size['rows']['seconds']:.2f} s",
            "layer, heads from the Gram matrix": f"{size['gram']['seconds']:.2f} s",
            "ratio": f"{size['gram']['seconds'] / size['rows']['seconds']:.1f}",
        }
        for size in few["sizes"]
    ]
    equal = "The two networks are equal bit for bit." if capped["equal_networks"] else "The networks differ."
    return page(
        "Memory, workers, few images",
        *("## memory-growth", markdown(grown), caveats([growth])),
        *("## capped-memory-h200", markdown(cap), equal, caveats([capped])),
        *("## workers", markdown(two), "ImageNet at 64×64, reckoned, not run:", markdown(reckoned), caveats([workers])),
        *("## few-images-cpu", markdown(rows), caveats([few])),
    )


def digits_page() -> str:
    """Return the default on the digits."""
    runs = runs_of(file="digits")
    rows = [{"split": str(r.get("split", 0)), "test %": at([r], "last"), "run": r["id"]} for r in runs]
    return page(
        "Digits", f"Mean {spread([r['summary']['last']['test'] for r in runs])} %.", markdown(rows), caveats(runs)
    )


# The short tables of docs/results.md


def headline() -> str:
    """Return our best networks beside published figures."""
    plan = load_plan("beyond")
    rows = []
    for experiment in (e for e in plan.experiments if e.name in BEST):
        group = [run for run in runs_of(file="beyond") if run["name"] == experiment.name]
        rows.append(
            {
                "data set": experiment.label,
                "test %": spread([run["summary"]["readout"]["test"] for run in group]),
                "layers": str(group[0]["layers"]),
                "training": f"{mean(run['seconds'] for run in group):.0f} s",
                "published %": "; ".join(figure.shown for figure in experiment.paper),
                "runs": ids(group),
            }
        )
    return markdown(rows)


def against_paper() -> str:
    """Return the paper's figures beside ours with all training images, at the last layer."""
    wanted = [("table2", "cifar10"), ("table2", "cifar10-deeper"), ("table2", "cifar100"), ("table2", "mnist")]
    wanted += [("table4", "cifar10-flips"), ("table4", "cifar100-flips"), ("table3", "rate-1"), ("table3", "rate-0.4")]
    wanted += [("figure2", "filters-30"), ("figure2", "filters-50")]
    rows = []
    for table, name in wanted:
        found = [run for run in runs_of(table) if run["name"] == name]
        most = max(run["images"]["train"] for run in found)
        group = [run for run in found if run["images"]["train"] == most]
        plan = load_plan(table)
        paper = max((e for e in plan.experiments if name.startswith(e.name)), key=lambda e: len(e.name)).paper
        best = max(paper, key=lambda figure: figure.accuracy)
        rows.append(
            {
                "": f"{plan.title.split(':')[0]}: {group[0]['label']}",
                "paper, best on the test curve %": f"{best.accuracy:g} ({best.layers})",
                "ours, last layer %": at(group, "last"),
                "ours, chosen on validation images %": at(group, "chosen"),
                "training images": f"{most:,}",
                "seeds": str(len(group)),
                "runs": ids(group),
            }
        )
    return markdown(rows)


def family_short() -> str:
    """Return the family on the test images of CIFAR-10, MNIST and Fashion-MNIST: the best row of each member."""
    sets = {"league-cifar10": "CIFAR-10", "league-mnist": "MNIST", "league-fashion-mnist": "Fashion-MNIST"}
    rows: dict[str, Row] = {}
    for file, label in sets.items():
        for run in runs_of(file=file):
            if run.get("accuracy") and label not in rows.get(run["model"].split(":")[0], {}):
                member = run["model"].split(":")[0]
                published = f" ({100 * run['published']:.2f})" if run.get("published") else ""
                rows.setdefault(member, {"member": member})[label] = f"{100 * run['accuracy']:.2f}{published}"
    order = sorted(rows.values(), key=lambda row: row.get("CIFAR-10", "0"), reverse=True)
    return markdown([{key: row.get(key, "–") for key in ("member", *sets.values())} for row in order])


def others() -> str:
    """Return Table 2's other networks: as published, and as measured here."""
    baselines = {run["name"]: epochs for run, epochs in gradient_runs()}
    names = {"resnet18": "ResNet-18, SGD"}
    rows = []
    for network in load_plan("table2").published:
        cells: Row = {"network": network["name"], "trained": network["kind"]}
        for dataset, label in DATASETS.items():
            published = network["accuracy"].get(dataset)
            measured = ""
            league = [r for r in runs_of(file=f"league-{dataset}") if r.get("accuracy")]
            if own := [r for r in league if r["model"].split(":")[0] == network.get("member")]:
                measured = f" · **{100 * own[0]['accuracy']:.2f}**"
            other = network.get("baseline")
            if dataset == "cifar10" and (name := names.get(other, other)) in baselines:
                epochs = baselines[name]
                best = epochs.iloc[len(epochs) - 1 - epochs["validation"].to_numpy()[::-1].argmax()]
                measured = f" · **{100 * best['test']:.2f}**"
            cells[label] = f"{'–' if published is None else published}{measured}"
        rows.append(cells)
    return markdown(rows)


PAGE_WRITERS: dict[str, Callable[[], str]] = {
    **{name: lambda name=name: paper_page(name) for name in ("table2", "table3", "table4", "figure2", "beyond")},
    **{
        name: lambda name=name, title=title: comparison_page(name, title)
        for name, title in {
            "readings": "Open readings of the paper",
            "ridges": "Ridges and learning rates",
            "posteriors": "Posteriors and scores",
            "signs": "Signs of PCA filters, sides of a draw",
            "flips": "Ridges with flips",
            "few-images": "Few images",
            "directions": "Directions beyond the paper",
            "readout": "The kernel readout",
        }.items()
    },
    "equal-training": equal_training_page,
    "ladder": ladder_page,
    "family": family_page,
    "family-choices": choices_page,
    "gradients": gradients_page,
    "speed": speed_page,
    "memory": memory_page,
    "digits": digits_page,
}
BLOCKS: dict[str, Callable[[], str]] = {
    "headline": headline,
    "paper": against_paper,
    "family": family_short,
}


def carry(text: str, mark: str, table: str) -> str:
    """Return a text with the block between the marks replaced."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = text.split(start)
    return f"{before}{start}\n{table}\n{end}{rest.split(end)[1]}"


def main() -> int:
    """Write the pages, or check them."""
    wanted = {PAGES / f"{name}.md": write() for name, write in PAGE_WRITERS.items()}
    if RESULTS_PAGE.exists():
        text = RESULTS_PAGE.read_text()
        for mark, table in BLOCKS.items():
            text = carry(text, mark, table())
        wanted[RESULTS_PAGE] = text
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text() != text]
    if "--check" in sys.argv:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is stale. Run python -m experiments.tables.")
        return int(bool(stale))
    PAGES.mkdir(parents=True, exist_ok=True)
    for file in stale:
        file.write_text(wanted[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
