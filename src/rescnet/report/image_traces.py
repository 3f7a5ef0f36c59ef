"""The story of an image: each class's output as layers add up, and the layers that corrected it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..network.network import Network
from ..network.probabilities import probabilities
from .evaluation import Evaluation, margins
from .png import data_uri, thumbnail

MOST_CLASSES = 10  # lines in the chart of one image
MOST_POINTS = 200  # layers in it; of deeper networks every so many are drawn
MOST_TOLD = 8  # changes of the answer told in words


def tell_stories(
    network: Network, evaluation: Evaluation, chosen: Sequence[int], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Tell the story of each chosen image, in that order; they go through the network in chunks."""
    images, labels = evaluation.shown.images.images, evaluation.labels
    ends = network.stack.image_range
    low, high = float(ends.low.min()), float(ends.high.max())
    stories: list[dict[str, Any]] = []
    for part, staged in _staged(network, images, chosen):
        for place, index in enumerate(part):
            story = tell(staged[:, place], int(labels[index]), names, network.config.ceiling)
            story |= {"index": index, "picture": data_uri(thumbnail(images[index], low, high))}
            stories.append(story)
    return stories


def tell(staged: NDArray[np.float32], label: int, names: Sequence[str], ceiling: float) -> dict[str, Any]:
    """Tell one image's story.

    Parameters
    ----------
    staged : ndarray, shape (layers, classes)
        Ỹ after each layer.
    label : int
        The true class.
    ceiling : float
        λ, of which probabilities take their temperature.

    Returns
    -------
    dict
        ``layers`` (those drawn), ``classes`` (those drawn), ``outputs`` and ``probabilities`` (classes by layers),
        ``mean`` (of all classes' outputs) and ``lead`` (of the true class over the best other), in units of 1/10,000;
        ``runs`` (pairs of a layer and the answer from there on), ``label``, ``answer`` and ``told`` (pairs of a verdict
        and a sentence).
    """
    answers = staged.argmax(1)
    changes = [0, *(np.flatnonzero(np.diff(answers)) + 1).tolist()]
    runs = [[layer + 1, int(answers[layer])] for layer in changes]
    count = len(staged)
    drawn = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))
    classes = classes_to_draw(staged, label)
    likely = probabilities(torch.from_numpy(staged[drawn]), ceiling).numpy()
    lead = margins(staged[:, None], np.array([label]))[:, 0]
    return {
        "label": label,
        "answer": int(answers[-1]),
        "layers": (drawn + 1).tolist(),
        "classes": classes,
        "outputs": [_whole(staged[drawn, c]) for c in classes],
        "probabilities": [_whole(likely[:, c]) for c in classes],
        "mean": _whole(staged[drawn].mean(1)),
        "lead": _whole(lead[drawn]),
        "runs": runs,
        "told": in_words(runs, label, count, float(lead[-1]), names),
    }


def classes_to_draw(staged: NDArray[np.float32], label: int) -> list[int]:
    """Return the classes worth a line: the true one, those answered longest, those greatest at the end; ten at most."""
    classes = staged.shape[1]
    if classes <= MOST_CLASSES:
        return list(range(classes))
    times = np.bincount(staged.argmax(1), minlength=classes)
    by_time = [int(c) for c in np.argsort(-times, kind="stable") if times[c]]
    by_output = np.argsort(-staged[-1], kind="stable").tolist()
    return sorted(list(dict.fromkeys([label, *by_time, *by_output]))[:MOST_CLASSES])


def in_words(
    runs: list[list[int]], label: int, layers: int, lead: float, names: Sequence[str]
) -> list[tuple[str, str]]:
    """Tell the changes of the answer, the first and the last ones if there are many, and how it ended.

    Examples
    --------
    >>> for verdict, words in in_words([[1, 0], [7, 1]], 1, 12, 0.25, ["cat", "dog"]):
    ...     print(f"{verdict}: {words}")
    wrong: Layer 1 answered cat, which is wrong.
    right: Layer 7 turned cat into dog, which is right.
    right: After layer 12 the answer is dog, right by a lead of 0.25.
    """
    verdict = ("wrong", "right")
    first = verdict[runs[0][1] == label]
    told = [(first, f"Layer 1 answered {names[runs[0][1]]}, which is {first}.")]
    for (_, before), (layer, now) in pairwise(runs):
        ending = f"which is {verdict[now == label]}" if label in (before, now) else "still wrong"
        told.append((verdict[now == label], f"Layer {layer} turned {names[before]} into {names[now]}, {ending}."))
    if len(told) > MOST_TOLD + 1:
        half = MOST_TOLD // 2
        told = [*told[:half], ("", f"… {len(told) - 2 * half} more changes …"), *told[-half:]]
    answer = runs[-1][1]
    distance = f"{abs(lead):.2f}" if abs(lead) >= 0.02 else f"{abs(lead):.4f}"
    how = f"right by a lead of {distance}" if answer == label else f"wrong: {names[label]} is {distance} behind"
    return [*told, (verdict[answer == label], f"After layer {layers} the answer is {names[answer]}, {how}.")]


@torch.inference_mode()
def _staged(
    network: Network, images: NDArray[Any], chosen: Sequence[int]
) -> Iterator[tuple[Sequence[int], NDArray[np.float32]]]:
    """Yield some of the chosen images and their outputs, shape (layers, n, classes), until all are through."""
    first = network.layers[0].weights
    for start in range(0, len(chosen), network.stack.chunk):
        part = list(chosen[start : start + network.stack.chunk])
        outputs = network.stack.staged_outputs(torch.from_numpy(images[part]).to(first.device))
        yield part, torch.stack([output.float().cpu() for output in outputs]).numpy()


def _whole(values: NDArray[Any]) -> list[int]:
    """Return values in whole ten-thousandths: short in JSON, and finer than a page can show."""
    return [int(value) for value in np.rint(10_000 * values.astype(np.float64))]
