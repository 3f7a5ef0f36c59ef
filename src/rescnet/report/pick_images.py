"""Which images the page tells the story of: chosen by rule, so that the same model gives the same page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .evaluation import Evaluation


@dataclass(frozen=True)
class Group:
    """Images with something in common.

    Attributes
    ----------
    key, title, meaning : str
    images : list of int
        Indices of those shown, among the evaluated images.
    total : int
        How many images are of this kind.
    """

    key: str
    title: str
    meaning: str
    images: list[int]
    total: int


def select(evaluation: Evaluation, count: int) -> list[Group]:
    """Choose up to ``count`` images for each group that has any; of equals the earlier image comes first.

    Corrected and easy images are taken class by class in turn, so that no class fills the row; the others strictly by
    margin. Every image belongs to a group, so there is always one to show.
    """
    right, margin, labels = evaluation.right, evaluation.margins, evaluation.labels
    most_wrong, clearest = np.argsort(margin, kind="stable"), np.argsort(-margin, kind="stable")
    corrected, spoiled, easy = ~right[0] & right[-1], right[0] & ~right[-1], np.asarray(right.all(0))
    wavering = right[0] & right[-1] & ~easy
    wrong = ~right[-1]
    groups = [
        Group(
            "corrected",
            "Corrected",
            "wrong after layer 1, right after the last: the clearest first, classes in turn",
            in_turn(clearest[corrected[clearest]], labels)[:count],
            int(corrected.sum()),
        ),
        Group(
            "spoiled",
            "Spoiled",
            "right after layer 1, wrong after the last: the most wrong first",
            most_wrong[spoiled[most_wrong]][:count].tolist(),
            int(spoiled.sum()),
        ),
        Group(
            "wavering",
            "Wavering",
            "right after layer 1 and after the last, wrong in between: the closest calls first",
            most_wrong[wavering[most_wrong]][:count].tolist(),
            int(wavering.sum()),
        ),
        Group(
            "wrong",
            "Most wrong",
            "where the true class lies furthest behind after the last layer",
            most_wrong[wrong[most_wrong]][:count].tolist(),
            int(wrong.sum()),
        ),
        Group(
            "easy",
            "Easy",
            "right after every layer: the clearest first, classes in turn",
            in_turn(clearest[easy[clearest]], labels)[:count],
            int(easy.sum()),
        ),
    ]
    return [group for group in groups if group.images]


def in_turn(order: NDArray[np.intp], labels: NDArray[np.int64]) -> list[int]:
    """Keep the order, but put one image of each class before a second of any.

    Examples
    --------
    >>> in_turn(np.array([4, 2, 0, 1]), np.array([0, 1, 0, 1, 0]))
    [4, 1, 2, 0]
    """
    seen: dict[int, int] = {}
    rounds = []
    for index in order:
        label = int(labels[index])
        rounds.append(seen.get(label, 0))
        seen[label] = rounds[-1] + 1
    return [int(order[place]) for place in np.argsort(rounds, kind="stable")]
