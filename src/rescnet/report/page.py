"""The HTML report: collect the data, join it with the template, style and script, and write one file."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from ..base.errors import ConfigError, DataError
from ..base.files import atomic_write, check_new_file
from ..base.text import count
from ..data import Dataset, load
from ..data.loading import size_for
from ..model import Model, as_model
from ..pages import html_page
from .evaluation import Evaluation, evaluate, evaluation_images
from .first_layer import layer_sizes, trace_first_layer
from .image_traces import images_to_explain, pick_images, trace_images
from .pictures import draw_filters
from .summary import accuracy_curves, accuracy_intervals, best_depth, settings, summarise, training_record

# Joined in this order: helpers first, then the sections, then the start.
SCRIPTS = (
    *("draw.js", "chart.js"),
    *("summary.js", "chain.js", "step_art.js", "layer.js", "accuracy.js", "images.js", "trace.js"),
    *("confusion.js", "calibration.js", "filters.js", "cost.js", "settings.js"),
    "start.js",
)


def write_report(
    model: Model | Any,
    path: str | Path,
    dataset: Dataset | str | PathLike[str] | None = None,
    *,
    images_shown: int = 12,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write an HTML report of a trained network.

    Parameters
    ----------
    model : Model or fitted ResCNetClassifier
    path : str or Path
        The HTML file to write. It needs no other file and no network.
    dataset : Dataset or source, optional
        A data set, or all that :func:`rescnet.data.load` reads, e.g. a folder. Its test images, or else its validation
        images, are evaluated. Without it the report has no images and no confusion matrix, and says so.
    images_shown : int
        Number of images per group, e.g. corrected, newly wrong, easy.
    overwrite : bool
        Whether to replace an existing file.
    progress : callable, optional
        Called with the number of images done and that of all: first of those evaluated, then of those explained.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        If the file exists and ``overwrite`` is false, or if model, data set and options do not match. Nothing is
        written then.

    Examples
    --------
    >>> from rescnet import data, report
    >>> report.write_report(model, "digits.html", data.load("digits"))  # doctest: +SKIP
    """
    if isinstance(model, str | PathLike) or not isinstance(path, str | PathLike):
        raise ConfigError(
            "model must be the first argument and path the second. Write rescnet.write_report(model, path)."
        )
    model, target = as_model(model), Path(path)
    check_new_file(target, overwrite)
    if not len(model.network.layers):
        raise ConfigError("network must have at least one layer, got none. Train it first.")
    if isinstance(dataset, str | PathLike):
        dataset = load(str(dataset), **size_for(str(dataset), model.network.image_shape))
    images = evaluation_images(model, dataset) if dataset else None
    if images_shown < 1:
        raise DataError(f"images_shown must be at least 1, got {images_shown}. Leave out dataset to show no images.")
    evaluation = evaluate(model, *images, progress) if images else None
    data = collect(model, dataset, evaluation, images_shown, progress)
    layers = count(len(model.network.layers), "layer", "layers")
    title = escape(f"{data['summary']['name']}: a ResCNet of {layers}")
    page = html_page(__package__, SCRIPTS, data, TITLE=title)
    with atomic_write(target) as partial:
        partial.write_text(page, "utf-8")
        check_new_file(target, overwrite)  # again: the file may have appeared during the evaluation
    return target


def collect(
    model: Model,
    dataset: Dataset | None,
    evaluation: Evaluation | None,
    images_shown: int,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return all data of the report, ready for JSON."""
    network = model.network
    summary = summarise(model, dataset, evaluation)
    curves = accuracy_curves(model, evaluation)
    data: dict[str, Any] = {
        "summary": summary,
        "curves": {split: [round(value, 5) for value in line] for split, line in curves.items()},
        "intervals": accuracy_intervals(model, curves, evaluation),
        "layer": layer_sizes(network),
        "training": training_record(model),
        "filters": draw_filters(network),
        "settings": settings(model, summary["name"]),
        "evaluation": None,
        "groups": [],
        "images": [],
        "first_layer": None,
    }
    if evaluation:
        groups = pick_images(evaluation, images_shown)
        chosen = list(dict.fromkeys(index for group in groups for index in group.images))
        place = {index: number for number, index in enumerate(chosen)}
        depth = best_depth(model) or network.used_layers
        data |= {
            "evaluation": evaluation.summary(depth),
            "groups": [vars(group) | {"images": [place[index] for index in group.images]} for group in groups],
            "images": trace_images(model, evaluation, chosen, images_to_explain(groups, network), progress),
            "first_layer": trace_first_layer(network, evaluation, chosen[0]),
        }
    return data
