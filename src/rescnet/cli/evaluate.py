"""``rescnet evaluate``: accuracy of a model, in total and per class, and its most frequent confusions."""

from __future__ import annotations

import json
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..base.errors import ConfigError
from ..base.intervals import left_out_interval, show_interval, show_left_out, wilson_interval
from ..base.text import count, show_seconds
from ..config.grammars import Augmentation
from .shared import Device, Layers, Model, OtherSource, Root, Views, plain_table, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..data import Dataset
    from ..saving import ModelFolder

SPLITS = ("test", "validation", "train")
MOST_CLASSES, MOST_CONFUSIONS = 20, 5  # printed; --json has all


def evaluate(
    model: Model,
    source: OtherSource = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(SPLITS),
            help="Split to evaluate. Default: test images, or validation images if there are none.",
        ),
    ] = None,
    layers: Layers = None,
    views: Views = None,
    limit: Annotated[
        int | None, typer.Option(help="Evaluate about n images, each class in proportion. Default: all.")
    ] = None,
    root: Root = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with the confusion matrix.")] = False,
) -> None:
    """Measure the accuracy of a model."""
    import numpy as np

    from ..data.splits import are_among, stratified_sample
    from ..network.device import choose_device
    from ..saving import ModelFolder, load_model
    from .images import BATCH, dataset_of, outputs_of, say_notes

    if split is not None and split not in SPLITS:
        raise ConfigError(f"split must be one of {', '.join(SPLITS)}, got {split!r}.")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, got {limit}.")
    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    network = load_model(model, layers, chosen_device).network.averaged_over(views)
    dataset, own = dataset_of(folder, source, root)
    if not own:
        say_notes(dataset)
    console = Console(stderr=as_json)
    if own and split is None and dataset.test is None and dataset.validation is None and _left_out(folder, console):
        return
    name, images, labels = _choose(dataset, own, split, folder)
    if limit is not None and limit < len(labels):
        some = stratified_sample(labels, limit, seed=0)
        images, labels = images[some], labels[some]
    start = perf_counter()
    parts = (images[first : first + BATCH] for first in range(0, len(images), BATCH))
    predicted = np.concatenate([outputs.argmax(1).numpy() for outputs in outputs_of(network, parts, len(images))])
    seconds = perf_counter() - start
    right = predicted == labels
    checksums = folder.about.get("training_checksums")
    trained = are_among(images, checksums) if checksums else None
    facts: dict[str, Any] = {
        "model": str(model),
        "dataset": dataset.name,
        "split": name,
        "images": len(labels),
        "layers": len(network.layers),
        "test_views": network.config.test_views,
        "readout": network.readout is not None,
        "device": str(chosen_device),
        "accuracy": (accuracy := float(right.mean())),
        "interval": wilson_interval(accuracy, len(labels)),
        "seconds": seconds,
        "trained_on": None if trained is None else int(trained.sum()),
    }
    details = _details(labels, predicted, folder.class_names)
    if as_json:
        typer.echo(json.dumps(facts | details))
        return
    others = not own and dataset.test is None and dataset.validation is None  # a folder of classes has no splits
    _print_summary(console, facts, folder, "" if others else {"train": "training "}.get(name, f"{name} "))
    if trained is None and not own:
        say(console, "[yellow]The model does not record its training images: some of these may be among them.[/yellow]")
    elif trained is not None and trained.any():
        say(console, f"[yellow]{_trained_on(trained, right)}[/yellow]")
    say(console, "")
    _print_details(console, details)


def _left_out(folder: ModelFolder, console: Console) -> bool:
    """Print the leave-one-out accuracy of a model that all images trained; return False if it has none."""
    if (found := folder.history().left_out) is None:
        return False
    accuracy, images = found
    facts = {"model": str(folder.path), "split": "leave-one-out", "images": images, "accuracy": accuracy}
    if console.stderr:
        typer.echo(json.dumps(facts | {"interval": left_out_interval(accuracy, images)}))
        return True
    say(console, show_left_out(accuracy, images))
    say(console, "These images trained the model: none was held out. Name others to measure it on them.", style="dim")
    return True


def _print_summary(console: Console, facts: dict[str, Any], folder: ModelFolder, kind: str) -> None:
    """Print what was measured, and the accuracy."""
    number, accuracy = facts["images"], facts["accuracy"]
    what = f"{count(number, f'{kind}image', f'{kind}images')} of {escape(facts['dataset'])}"
    views = len(Augmentation.parse(facts["test_views"], "test_views").views())
    mean = f", mean over {views} views ({facts['test_views']})" if views > 1 else ""
    readout = " and the kernel readout" if facts["readout"] else ""
    if folder.misses_readout:
        readout = f" (the kernel readout is missing; {folder.how_to_fit_the_readout} fits it)"
    say(console, f"{what}, {count(facts['layers'], 'layer', 'layers')}{readout}{mean}, on {facts['device']}")
    correct = f"{round(accuracy * number):,} of {number:,} correct, 95 % interval {show_interval(accuracy, number)}"
    say(console, f"accuracy: [bold]{100 * accuracy:.2f} %[/bold] ({correct}) in {show_seconds(facts['seconds'])}")


def _trained_on(trained: NDArray[np.bool_], correct: NDArray[np.bool_]) -> str:
    """Return a sentence about the images that the model was trained on, and the accuracy of the others."""
    new = correct[~trained]
    if not len(new):
        return "The model was trained on all of these images. Name others to measure it on new images."
    share = float(new.mean())
    return (
        f"The model was trained on {int(trained.sum()):,} of these images. Accuracy of the other {len(new):,}: "
        f"{100 * share:.2f} % (95 % interval {show_interval(share, len(new))})."
    )


def _choose(
    dataset: Dataset, own: bool, split: str | None, folder: ModelFolder
) -> tuple[str, NDArray[Any], NDArray[np.int64]]:
    """Return the name, the images and the labels of a split; classes are numbered as in the model."""
    import numpy as np

    from .images import check_held_out

    found = {"test": dataset.test, "validation": dataset.validation, "train": dataset.train}
    order = SPLITS if not own else SPLITS[:-1]  # training images are evaluated only on request
    name = split or next((candidate for candidate in order if found[candidate] is not None), "")
    chosen = found.get(name)
    if chosen is None:
        remedy = "Name other images." if name else "Use --split train, or name other images."
        raise ConfigError(f"{dataset.name} must have {name or 'test or validation'} images, got none. {remedy}")
    if own and name != "test":
        check_held_out(dataset, folder.about)
    number = {class_name: index for index, class_name in enumerate(folder.class_names)}
    if unknown := [class_name for class_name in dataset.class_names if class_name not in number]:
        known = ", ".join(folder.class_names[:5]) + (", ..." if len(folder.class_names) > 5 else "")
        raise ConfigError(f"classes of {dataset.name} must be those of the model ({known}), got {unknown[0]!r}.")
    renumbered = np.array([number[class_name] for class_name in dataset.class_names])
    return name, chosen.images, renumbered[chosen.labels]


def _details(labels: NDArray[np.int64], predicted: NDArray[np.int64], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the accuracy per class and the confusions, the most frequent first."""
    import numpy as np

    cells = np.bincount(labels * len(names) + predicted, minlength=len(names) ** 2)
    confusion = cells.reshape(len(names), len(names))  # rows are true classes, columns predicted ones
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
    rows = [row for row in details["per_class"] if row["images"]]
    title = None
    if len(rows) > MOST_CLASSES:
        title = f"the {MOST_CLASSES} least accurate of {len(rows)} classes"
        rows = sorted(rows, key=lambda row: row["accuracy"])[:MOST_CLASSES]
    table = plain_table("class", "images", "accuracy %", title=title, title_justify="left")
    for row in rows:
        table.add_row(escape(row["class"]), f"{row['images']:,}", f"{100 * row['accuracy']:.2f}")
    console.print(table)
    if not details["confusions"]:
        console.print("\nall images are classified correctly")
        return
    console.print("\nmost frequent confusions", style="bold")
    for row in details["confusions"][:MOST_CONFUSIONS]:
        images = count(row["images"], "image", "images")
        say(console, f"  {escape(row['true'])} predicted as {escape(row['predicted'])}: {images}")
