"""``rescnet evaluate``: how often a model is right, on which classes, and what it takes for what."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .average import TestViews
from .layers import Layers

if TYPE_CHECKING:
    from ..data import Dataset
    from ..model_files import ModelFolder

SPLITS = ("test", "validation", "train")
MOST_CLASSES, MOST_CONFUSIONS = 20, 5  # printed; --json tells all


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    source: Annotated[
        str | None,
        typer.Argument(help="A public set, an image folder or an .npz file; by default what it was trained on."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(SPLITS),
            help="Which images; by default test images, else those held out in training.",
            show_default=False,
        ),
    ] = None,
    layers: Layers = None,
    test_views: TestViews = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the public sets.", show_default=False)] = None,
    resize: Annotated[bool, typer.Option("--resize", help="Resize a folder's images to the model's size.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …; auto: a GPU if there is one.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with the whole confusion matrix.")
    ] = False,
) -> None:
    """Tell how often a model is right."""
    from ..formatting import count, show_seconds
    from ..model_files import ModelFolder, load_model
    from ..network.device import choose_device
    from .batches import stream_outputs
    from .sources import dataset_of

    if split is not None and split not in SPLITS:
        raise ValueError(f"the split is {split!r}: choose {', '.join(SPLITS[:-1])} or {SPLITS[-1]}.")
    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    network = load_model(model, layers, chosen_device).network.averaged_over(test_views)
    dataset, own = dataset_of(folder, source, root, resize)
    name, images, labels = _choose(dataset, own, split, folder)
    console = Console(stderr=as_json)
    start = perf_counter()
    outputs = stream_outputs(network, images, Console(stderr=True))
    seconds = perf_counter() - start
    confusion = _confusion(labels, outputs.argmax(1).numpy(), network.classes)
    facts: dict[str, Any] = {
        "model": str(model),
        "dataset": dataset.name,
        "split": name,
        "images": len(labels),
        "layers": len(network.layers),
        "test_views": network.config.test_views,
        "readout": network.readout is not None,
        "device": str(chosen_device),
        "accuracy": float(confusion.trace() / confusion.sum()),
        "seconds": seconds,
    }
    if as_json:
        typer.echo(json.dumps(facts | _details(confusion, folder.class_names)))
        return
    what = f"{count(len(labels), f'{name} image', f'{name} images')} of {escape(dataset.name)}"
    depth, views = count(len(network.layers), "layer", "layers"), len(network.config.views)
    mean = f", mean over {views} views ({network.config.test_views})" if views > 1 else ""
    readout = " and the kernel readout" if network.readout else ""
    if folder.misses_readout:
        readout = " (the kernel readout is missing: rescnet train --resume fits it)"
    console.print(f"{what}, {depth}{readout}{mean}, on {chosen_device}", highlight=False)
    right = f"{int(confusion.trace()):,} of {len(labels):,} right"
    console.print(
        f"accuracy: [bold]{100 * facts['accuracy']:.2f} %[/bold] ({right}) in {show_seconds(seconds)}\n",
        highlight=False,
    )
    _print_details(console, _details(confusion, folder.class_names))


def _choose(
    dataset: Dataset, own: bool, split: str | None, folder: ModelFolder
) -> tuple[str, NDArray[Any], NDArray[np.int64]]:
    """Return a split's name, images, and labels as the model numbers its classes."""
    from .sources import check_held_out

    found = {"test": dataset.test, "validation": dataset.validation, "train": dataset.train}
    order = SPLITS if not own else SPLITS[:-1]  # what was learnt from is evaluated only when asked for
    name = split or next((candidate for candidate in order if found[candidate] is not None), "")
    chosen = found.get(name)
    if chosen is None:
        raise ValueError(
            f"{dataset.name} has no {name or 'held-out'} images: "
            f"{'' if name else 'say --split train, or '}name other images to evaluate on."
        )
    if own and name != "test":
        check_held_out(dataset, folder.about)
    number = {class_name: index for index, class_name in enumerate(folder.class_names)}
    if unknown := [class_name for class_name in dataset.class_names if class_name not in number]:
        known = ", ".join(folder.class_names[:5]) + (", …" if len(folder.class_names) > 5 else "")
        raise ValueError(
            f"{dataset.name} has a class {unknown[0]!r} but the model knows {known}: give it images of its classes."
        )
    renumbered = np.array([number[class_name] for class_name in dataset.class_names])
    return name, chosen.images, renumbered[chosen.labels]


def _confusion(labels: NDArray[np.int64], predicted: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return how many images of each class (rows) were taken for each class (columns)."""
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def _details(confusion: NDArray[np.int64], names: tuple[str, ...]) -> dict[str, Any]:
    totals = confusion.sum(1)
    per_class = [
        {"class": name, "images": int(total), "accuracy": float(confusion[index, index] / total) if total else None}
        for index, (name, total) in enumerate(zip(names, totals, strict=True))
    ]
    wrong = confusion - np.diag(confusion.diagonal())
    order = np.argsort(wrong, axis=None, kind="stable")[::-1]
    confusions = [
        {"true": names[index // len(names)], "predicted": names[index % len(names)], "images": int(wrong.flat[index])}
        for index in order.tolist()
        if wrong.flat[index]
    ]
    return {"per_class": per_class, "confusions": confusions, "confusion": confusion.tolist()}


def _print_details(console: Console, details: dict[str, Any]) -> None:
    from ..formatting import count

    rows = [row for row in details["per_class"] if row["images"]]
    title = None
    if len(rows) > MOST_CLASSES:
        title = f"the {MOST_CLASSES} worst of {len(rows)} classes"
        rows = sorted(rows, key=lambda row: row["accuracy"])[:MOST_CLASSES]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), title=title, title_justify="left")
    table.add_column("class")
    table.add_column("images", justify="right")
    table.add_column("right %", justify="right")
    for row in rows:
        table.add_row(escape(row["class"]), f"{row['images']:,}", f"{100 * row['accuracy']:.2f}")
    console.print(table)
    if not details["confusions"]:
        console.print("\nno image is wrong")
        return
    console.print("\nmost often mistaken", style="bold")
    for row in details["confusions"][:MOST_CONFUSIONS]:
        images = count(row["images"], "image", "images")
        console.print(f"  {escape(row['true'])} taken for {escape(row['predicted'])}: {images}", highlight=False)
