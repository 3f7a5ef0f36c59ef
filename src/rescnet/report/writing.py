"""``write_report``: check, look at the network from all sides, write the page at once or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data import Dataset
from .evaluation import Evaluation, evaluate
from .filter_pictures import draw_layers, layers_to_draw
from .first_layer import layer_numbers, walk_through
from .image_traces import tell_stories
from .model_view import TrainedModel, as_used, check_model, images_to_show
from .page import build_page
from .pick_images import select
from .settings import settings
from .summary import chosen_depth, curves, headline
from .training_curves import run_record


def write_report(
    model: TrainedModel,
    path: str | Path,
    dataset: Dataset | None = None,
    *,
    images_shown: int = 12,
    filter_layers: Sequence[int] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a page from which a person understands a trained network.

    Parameters
    ----------
    model : TrainedModel
        A ``rescnet.Model``, or anything with its ``network``, ``history``, ``class_names`` and ``about``.
    path : str or Path
        Where to write the HTML file. It needs no other file and no network.
    dataset : Dataset, optional
        Its test images, or its validation images where there are none, are let through the network once. Without it
        the page has no images, confusion matrix or stories, and says so.
    images_shown : int
        Images in each group: corrected, spoiled, most wrong, easy.
    filter_layers : sequence of int, optional
        Layers, counted from 1, whose filters are drawn. Default: the first, second, middle and last.
    overwrite : bool
        Write over a file that is there.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        If there is such a file and ``overwrite`` is false, or model, dataset or options do not go together. Nothing is
        written then.

    Examples
    --------
    >>> from rescnet import data, report
    >>> report.write_report(model, "digits.html", data.load("digits"))  # doctest: +SKIP
    """
    target = _checked_path(Path(path), overwrite)
    check_model(model)
    model = as_used(model)
    shown = images_to_show(model, dataset)
    if images_shown < 1:
        raise ValueError(f"images_shown is {images_shown}: choose 1 or more, or leave the dataset out.")
    layers = layers_to_draw(len(model.network.layers), filter_layers)
    evaluation = evaluate(model.network, shown) if shown else None
    data = describe(model, dataset, evaluation, images_shown, layers)
    page = build_page(data, f"{data['headline']['name']}: a ResCNet of {data['headline']['layers']} layers")
    return _write(target, page, overwrite)


def describe(
    model: TrainedModel,
    dataset: Dataset | None,
    evaluation: Evaluation | None,
    images_shown: int,
    filter_layers: Sequence[int],
) -> dict[str, Any]:
    """Return everything the page shows, ready for JSON."""
    network = model.network
    first = headline(model, dataset, evaluation)
    data: dict[str, Any] = {
        "headline": first,
        "curves": {split: [round(value, 5) for value in line] for split, line in curves(model, evaluation).items()},
        "layer": layer_numbers(network),
        "run": run_record(model),
        "filters": draw_layers(network, filter_layers),
        "settings": settings(model, first["name"]),
        "evaluation": None,
        "groups": [],
        "images": [],
        "walk": None,
    }
    if evaluation:
        groups = select(evaluation, images_shown)
        chosen = list(dict.fromkeys(index for group in groups for index in group.images))
        place = {index: number for number, index in enumerate(chosen)}
        depth = chosen_depth(model) or len(network.layers)
        data |= {
            "evaluation": evaluation.summary(depth),
            "groups": [vars(group) | {"images": [place[index] for index in group.images]} for group in groups],
            "images": tell_stories(network, evaluation, chosen, model.class_names),
            "walk": walk_through(network, evaluation, chosen[0]),
        }
    return data


def _checked_path(path: Path, overwrite: bool) -> Path:
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of the file to write, as {path / 'report.html'}.")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}: create it, or choose another place for the report.")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} is there already: choose another name, or allow it to be overwritten.")
    return path


def _write(path: Path, page: str, overwrite: bool) -> Path:
    """Write beside the target and move it there, so that no half-written page is ever seen."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(page, "utf-8")
        _checked_path(path, overwrite)  # it may have come while the network was looked at
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
