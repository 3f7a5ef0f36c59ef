"""Learning curve: test accuracy of models over the number of training images per class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, log
from statistics import fmean
from typing import Any

from ..config.compute import ComputeOptions
from ..data import Dataset
from ..data.splits import first_of_each_class, stratified_split
from .compare import Contestant, Row, compare_models

HELD_OUT = 0.2  # of a set without test images
Curves = dict[str, dict[int, float]]
"""Accuracy of each model by images per class."""


def with_test_images(dataset: Dataset, seed: int) -> Dataset:
    """Return the data set; without test images, some of the training images become test images."""
    if dataset.test is not None:
        return dataset
    kept, held = stratified_split(dataset.train.labels, HELD_OUT, seed)
    return replace(dataset, train=dataset.train.subset(kept), test=dataset.train.subset(held))


def learning_curve(
    dataset: Dataset, contestants: list[Contestant], images_per_class: Sequence[int], seed: int, compute: ComputeOptions
) -> Iterator[tuple[int, Dataset, Row]]:
    """Yield images per class, the data set with these images, and the row of each model, the fewest images first."""
    chosen = {images: first_of_each_class(dataset.train.labels, images) for images in sorted(images_per_class)}
    for images, indices in chosen.items():
        part = replace(dataset, train=dataset.train.subset(indices))
        for row in compare_models(part, contestants, 0.0, 1, seed, compute):
            yield images, part, row


def curves_of(points: Sequence[Mapping[str, Any]]) -> Curves:
    """Return the curves of points that have ``model``, ``images_per_class`` and ``accuracy``: means over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for point in points:
        if point["accuracy"] is not None:
            found.setdefault(point["model"], {}).setdefault(point["images_per_class"], []).append(point["accuracy"])
    return {model: {n: fmean(curve[n]) for n in sorted(curve)} for model, curve in found.items()}


def crossings(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """Return the numbers of images at which the lead changes.

    The curves are straight between points, over the logarithm of the number of images.

    Examples
    --------
    >>> [round(at, 1) for at in crossings({10: 0.5, 100: 0.7}, {10: 0.3, 100: 0.9})]
    [31.6]
    """
    lead = {n: ours[n] - theirs[n] for n in sorted(ours.keys() & theirs.keys())}
    changes = [(n, m, lead[n] / (lead[n] - lead[m])) for n, m in pairwise(lead) if lead[n] * lead[m] < 0]
    return [exp((1 - share) * log(n) + share * log(m)) for n, m, share in changes]


def describe_crossing(curves: Curves, ours: str, theirs: str) -> str:
    """Return one sentence that says where one model is ahead of another."""
    mine, other = curves.get(ours, {}), curves.get(theirs, {})
    shared = sorted(mine.keys() & other.keys())
    if not shared:
        return f"{ours} and {theirs} have no point in common."
    ahead = [mine[n] - other[n] for n in shared if mine[n] != other[n]]
    if not ahead:
        return f"{ours} and {theirs} are level."
    first = ours if ahead[0] > 0 else theirs
    found = [f"{float(f'{at:.2g}'):,.0f}" for at in crossings(mine, other)]
    if not found:
        second = theirs if first == ours else ours
        span = f"{shared[0]:,}" if len(shared) == 1 else f"{shared[0]:,} to {shared[-1]:,}"
        return f"{first} is ahead of {second} at {span} images per class; the curves do not cross."
    again = "" if len(found) == 1 else "; the lead changes again at about " + " and ".join(found[1:])
    return f"{ours} and {theirs} cross at about {found[0]} images per class: {first} is ahead below{again}."
