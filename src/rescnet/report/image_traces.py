"""Images in the report: which ones are shown, the outputs and predictions of each after every layer, and its map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..explain.explanation import answer_changes
from ..explain.linearisation import explain
from ..model import Model
from ..network.network import Network
from ..network.probabilities import probabilities
from .evaluation import Evaluation, all_layers, margins
from .pictures import data_uri, diverging, thumbnail

MAX_CLASSES = 10  # lines in the chart of one image
MAX_POINTS = 200  # layers in it; deeper networks are sampled
MAX_CHANGES = 8  # changes of the prediction described in words
MAX_MAPS = 60  # maps of layers, about half a second each on a CPU; images beyond it are shown without a map


@dataclass(frozen=True)
class ImageGroup:
    """Images of one kind."""

    key: str
    title: str
    meaning: str
    images: list[int]  # indices of those shown
    total: int  # images of this kind


def pick_images(evaluation: Evaluation, count: int) -> list[ImageGroup]:
    """Pick up to ``count`` images per group, by rule, so that the same model gives the same report.

    Corrected and easy images are interleaved by class, so that no class fills the group. The others are sorted by
    margin. Ties keep the order of the images. Every image is in some group, so at least one group is not empty.
    """
    correct, margin, labels = evaluation.correct, evaluation.margins, evaluation.labels
    ascending, descending = np.argsort(margin, kind="stable"), np.argsort(-margin, kind="stable")
    last = evaluation.final == labels
    corrected, newly_wrong = ~correct[0] & last, correct[0] & ~last
    easy = np.asarray(correct[: evaluation.depth].all(0)) & last
    unstable = correct[0] & last & ~easy
    wrong = ~last
    kinds = (
        ("corrected", "Corrected", "wrong after layer 1, correct in the end", corrected),
        ("newly_wrong", "Newly wrong", "correct after layer 1, wrong in the end", newly_wrong),
        ("unstable", "Unstable", "correct after layer 1 and in the end, wrong in between", unstable),
        ("wrong", "Largest errors", "wrong in the end", wrong),
        ("easy", "Easy", "correct after every layer used", easy),
    )
    groups = []
    for key, title, meaning, members in kinds:
        if key in ("corrected", "easy"):
            order = interleave_classes(descending[members[descending]], labels)
            meaning += "; largest margin first, classes interleaved"
        else:
            order = ascending[members[ascending]].tolist()
            meaning += "; smallest margin first"
        groups.append(ImageGroup(key, title, meaning, order[:count], int(members.sum())))
    return [group for group in groups if group.images]


def interleave_classes(order: NDArray[np.intp], labels: NDArray[np.int64]) -> list[int]:
    """Keep the order, but put one image of each class before the second of any class.

    Examples
    --------
    >>> interleave_classes(np.array([4, 2, 0, 1]), np.array([0, 1, 0, 1, 0]))
    [4, 1, 2, 0]
    """
    seen: dict[int, int] = {}
    rounds = []
    for index in order:
        label = int(labels[index])
        rounds.append(seen.get(label, 0))
        seen[label] = rounds[-1] + 1
    return [int(order[place]) for place in np.argsort(rounds, kind="stable")]


def images_to_explain(groups: Sequence[ImageGroup], network: Network) -> list[int]:
    """Return the images that get a map, the first of each group first: as many as :data:`MAX_MAPS` allows."""
    by_rank = chain.from_iterable(zip_longest(*(group.images for group in groups)))
    return list(dict.fromkeys(index for index in by_rank if index is not None))[
        : max(1, MAX_MAPS // network.used_layers)
    ]


def explain_image(model: Model, image: NDArray[Any]) -> dict[str, Any]:
    """Return the map of the predicted class (:mod:`rescnet.explain.linearisation`), and the nearest images."""
    why = explain(model.network, image, model.class_names, model.about.get("training_files") or (), maps=1)
    shares = why.maps[0]
    return {
        "class": why.shown[0],
        "picture": data_uri(diverging(shares, float(np.abs(shares).max()))),
        "sums": [round(float(part), 4) for part in why.summands[0]],
        "nearest": [str(neighbour) for neighbour in why.nearest],
    }


def trace_images(
    model: Model,
    evaluation: Evaluation,
    chosen: Sequence[int],
    explained: Sequence[int] = (),
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Trace the chosen images through all layers, in chunks; the result keeps their order. Explain some of them.

    ``progress`` is called with the number of images done and with that of all.
    """
    images, labels = evaluation.images.images, evaluation.labels
    network, names = model.network, model.class_names
    low, high = network.stack.image_range.ends
    traces: list[dict[str, Any]] = []
    for start in range(0, len(chosen), network.stack.chunk):
        indices = list(chosen[start : start + network.stack.chunk])
        outputs = all_layers(model).stages(images[indices], torch.Tensor.float).numpy()  # (layers, n, classes)
        for place, index in enumerate(indices):
            trace = trace_image(outputs[:, place], int(labels[index]), names, network.config.ceiling, evaluation.depth)
            final, likely = int(evaluation.final[index]), evaluation.probabilities[index]
            if evaluation.readout:
                verdict = "correct" if final == trace["label"] else "wrong"
                trace["changes"].append((verdict, f"With the readout the prediction is {names[final]}: {verdict}."))
            confidence = [round(float(likely[final]), 4), round(float(likely[trace["label"]]), 4)]
            trace |= {"prediction": final, "confidence": confidence, "index": index}
            trace["picture"] = data_uri(thumbnail(images[index], low, high))
            trace["map"] = explain_image(model, images[index]) if index in explained else None
            traces.append(trace)
            if progress:
                progress(len(traces), len(chosen))
    return traces


def trace_image(
    outputs: NDArray[np.float32], label: int, names: Sequence[str], ceiling: float, depth: int | None = None
) -> dict[str, Any]:
    """Return the trace of one image from Ỹ after each layer, shape (layers, classes), ready for JSON.

    ``label`` is the true class. ``ceiling`` is λ, which sets the temperature of the probabilities. The words are about
    the first ``depth`` layers, by default all.

    Of the result, ``layers`` and ``classes`` are those drawn; ``outputs`` and ``probabilities`` have shape (classes,
    layers); these two, and per layer the ``mean`` output of all classes and the ``margin``, are in units of 1/10,000.
    ``runs`` has pairs of a layer and the prediction from there on, ``changes`` pairs of a verdict and a sentence.
    """
    runs = answer_changes(outputs)
    layers, depth = len(outputs), depth or len(outputs)
    drawn = np.unique(np.linspace(0, layers - 1, min(layers, MAX_POINTS)).round().astype(int))
    classes = classes_to_draw(outputs, label)
    likely = probabilities(torch.from_numpy(outputs[drawn]), ceiling).numpy()
    margin = margins(outputs[:, None], np.array([label]))[:, 0]
    return {
        "label": label,
        "prediction": int(outputs[depth - 1].argmax()),
        "layers": (drawn + 1).tolist(),
        "classes": classes,
        "outputs": [_ten_thousandths(outputs[drawn, c]) for c in classes],
        "probabilities": [_ten_thousandths(likely[:, c]) for c in classes],
        "mean": _ten_thousandths(outputs[drawn].mean(1)),
        "margin": _ten_thousandths(margin[drawn]),
        "runs": runs,
        "changes": describe_changes(
            [run for run in runs if run[0] <= depth], label, depth, float(margin[depth - 1]), names
        ),
    }


def classes_to_draw(outputs: NDArray[np.float32], label: int) -> list[int]:
    """Return at most ten classes: the true one, the most frequent predictions, the greatest final outputs."""
    classes = outputs.shape[1]
    if classes <= MAX_CLASSES:
        return list(range(classes))
    times = np.bincount(outputs.argmax(1), minlength=classes)
    by_time = [int(c) for c in np.argsort(-times, kind="stable") if times[c]]
    by_output = np.argsort(-outputs[-1], kind="stable").tolist()
    return sorted(list(dict.fromkeys([label, *by_time, *by_output]))[:MAX_CLASSES])


def describe_changes(
    runs: Sequence[tuple[int, int]], label: int, layers: int, margin: float, names: Sequence[str]
) -> list[tuple[str, str]]:
    """Describe the changes of the prediction and the result. Of many changes, only the first and last.

    Examples
    --------
    >>> for verdict, sentence in describe_changes([(1, 0), (7, 1)], 1, 12, 0.25, ["cat", "dog"]):
    ...     print(f"{verdict}: {sentence}")
    wrong: Layer 1 predicts cat, which is wrong.
    correct: Layer 7 changes cat to dog, which is correct.
    correct: After layer 12 the prediction is dog: correct, with a margin of 0.25.
    """
    verdict = ("wrong", "correct")
    first = verdict[runs[0][1] == label]
    changes = [(first, f"Layer 1 predicts {names[runs[0][1]]}, which is {first}.")]
    for (_, before), (layer, now) in pairwise(runs):
        ending = f"which is {verdict[now == label]}" if label in (before, now) else "still wrong"
        changes.append((verdict[now == label], f"Layer {layer} changes {names[before]} to {names[now]}, {ending}."))
    if len(changes) > MAX_CHANGES + 1:
        half = MAX_CHANGES // 2
        changes = [*changes[:half], ("", f"… {len(changes) - 2 * half} more changes …"), *changes[-half:]]
    prediction = runs[-1][1]
    distance = f"{abs(margin):.2f}" if abs(margin) >= 0.02 else f"{abs(margin):.4f}"
    correct, wrong = f"correct, with a margin of {distance}", f"wrong, {names[label]} is {distance} behind"
    result = f"{names[prediction]}: {correct if prediction == label else wrong}"
    return [*changes, (verdict[prediction == label], f"After layer {layers} the prediction is {result}.")]


def _ten_thousandths(values: NDArray[Any]) -> list[int]:
    """Return values in whole ten-thousandths: short in JSON, and finer than the page can show."""
    return [int(value) for value in np.rint(10_000 * values.astype(np.float64))]
