"""Pages of the record about other models and memory, written by ``lab.tables``."""

from __future__ import annotations

import pandas as pd

from .pages import DATASETS, Row, at, caveats, markdown, page, spread
from .questions import load_question
from .records import Run, file_of, layers_of, read_epochs, read_lines, runs_of


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
                "CPU seconds": f"{run['cpu_seconds']:.1f}" if "cpu_seconds" in run else "–",
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
    family = [run for run in runs_of() if run["question"].startswith("family") and run["question"] != "family-choices"]
    for name in dict.fromkeys(file_of(run) for run in family):
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
    runs = [run for run in runs_of(file="digits") if "summary" in run]
    rows = [{"split": str(r.get("split", 0)), "test %": at([r], "last"), "run": r["id"]} for r in runs]
    return page(
        "Digits", f"Mean {spread([r['summary']['last']['test'] for r in runs])} %.", markdown(rows), caveats(runs)
    )


def others() -> str:
    """Return Table 2's other networks: as published, and as measured here."""
    baselines = {run["name"]: epochs for run, epochs in gradient_runs()}
    names = {"resnet18": "ResNet-18, SGD"}
    rows = []
    for network in load_question("table2").published:
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
