"""Held-out accuracy where as many training images are right: what a reading is worth once its speed is taken out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rescnet.charts import Line, line_chart

from .results_files import DOCS, RESULTS, not_run_yet, read

NEAR = 0.25  # a layer counts at a training accuracy it is no further from; near 100 %, half of what is wrong there
FROM = 90.0  # the pictures' first training accuracy
WORDS = {
    "own images": "Own images: each sign's classifier sees those alone (`sign_samples`).",
    "drawn filter signs": "Drawn filter signs: of PCA's filters, anew in each layer (`pca_signs`).",
    "shares": "Shares: sigmoids divided by their sum over the classes (`posterior`).",
}


@dataclass(frozen=True)
class Comparison:
    """Readings of one data set's network.

    Attributes
    ----------
    dataset, label : str
        For files, and for people.
    runs : tuple of (str, str, str)
        What each is called here, its file, its name there.
    trainings : tuple of float
        Training accuracies that are columns, in %.
    held_out : (float, float)
        What the picture shows, in %, with room for the legend below the lines.
    drawn : tuple of str
        Names of the runs in the picture, which has ten colours.
    """

    dataset: str
    label: str
    runs: tuple[tuple[str, str, str], ...]
    trainings: tuple[float, ...]
    held_out: tuple[float, float]
    drawn: tuple[str, ...]

    @property
    def title(self) -> str:
        """What table and picture are about."""
        return f"{self.label}: held-out accuracy where as many training images are right"

    @property
    def picture(self) -> Path:
        """Where the picture lies."""
        return DOCS / f"equal-training-{self.dataset}.svg"


CIFAR10 = Comparison(
    "cifar10",
    "CIFAR-10",
    (
        ("γ = 0.03", "explore-cifar10-steps", "25 gamma .03"),
        ("γ = 0.1", "explore-cifar10-steps", "60 all samples"),
        ("γ = 1", "explore-cifar10-deep", "gamma 1"),
        ("γ = 3", "explore-cifar10-deep", "gamma 3"),
        ("γ = 10, α = 1", "explore-cifar10-large-ridge", "gamma 10, alpha 1"),
        ("γ = 1, α = 0.2", "explore-cifar10-more", "gamma 1, alpha .2"),
        ("γ = 1, σ = 4", "explore-cifar10-votes", "gamma 1, sigma 4"),
        ("γ = 3, σ = 4", "explore-cifar10-votes", "gamma 3, sigma 4"),
        ("γ = 10, σ = 2", "explore-cifar10-votes", "gamma 10, sigma 2"),
        ("γ = 10, σ = 4, α = 1", "explore-cifar10-votes", "gamma 10, sigma 4, alpha 1"),
        ("features not standardised", "explore-cifar10-votes", "features not standardised, gamma .03"),
        ("γ = 0.1, own images", "explore-cifar10-steps", "60 same"),
        ("γ = 1, own images", "explore-cifar10-own-images", "own images, gamma 1"),
        ("shares, γ = 0.1", "explore-cifar10-shares-small-ridge", "shares, gamma .1, alpha .4"),
        ("shares, γ = 0.3", "explore-cifar10-shares-deep", "shares, gamma .3, alpha .4, deep"),
        ("shares, γ = 0.3, α = 1", "explore-cifar10-shares-deep", "shares, gamma .3, alpha 1, deep"),
        ("shares, γ = 1, α = 1", "explore-cifar10-shares", "shares, gamma 1, alpha 1"),
        ("shares, multi-class, γ = 0.1", "explore-cifar10-shares-multi", "shares, multi-class, gamma .1, alpha .4"),
        (
            "shares, multi-class, γ = 0.3, α = 1",
            "explore-cifar10-shares-multi",
            "shares, multi-class, gamma .3, alpha 1",
        ),
        ("γ = 1, both sides of a draw", "explore-cifar10-sides", "both sides"),
        (
            "γ = 1, both sides of a draw, the paper's constants",
            "explore-cifar10-sides",
            "both sides, the discriminant's constant, PCA without one",
        ),
        ("γ = 1, drawn filter signs", "explore-cifar10-signs", "drawn signs"),
        ("γ = 1, drawn filter signs, both sides", "explore-cifar10-signs", "drawn signs, both sides"),
        (
            "shares, multi-class, γ = 0.3, α = 1, drawn filter signs, both sides",
            "explore-cifar10-shares-signs-deep",
            "shares, multi-class, alpha 1, drawn signs, both sides",
        ),
        (
            "shares, multi-class, γ = 0.3, α = 1, drawn filter signs, both sides, means of the official cells",
            "explore-cifar10-shares-signs",
            "shares, multi-class, alpha 1, drawn signs, both sides, means of the official cells",
        ),
        ("γ = 0.1, own images, σ = 64", "explore-cifar10-steps", "60 sigma 64"),
        ("γ = 0.1, own images, α = 0.2 after layer 1", "explore-cifar10-steps", "60 alpha .2, first 1"),
        ("γ = 1, stride 1", "table3", "rate-0.4"),
        ("γ = 3, stride 1", "table2", "cifar10-slow"),
        ("γ = 1, stride 1, means of adaptive cells", "table2", "cifar10-means"),
        ("γ = 0.3, softmax", "explore-cifar10-cells", "softmax .1, gamma .3"),
        ("γ = 0.3, softmax, means of adaptive cells", "explore-cifar10-cells", "mean over adaptive cells"),
        ("γ = 1, means of adaptive cells", "explore-cifar10-more", "gamma 1, mean over adaptive cells"),
        ("γ = 1, maxima of adaptive cells", "explore-cifar10-maxima", "gamma 1, maxima of adaptive cells"),
        ("the residual regressed (not the paper's)", "explore-cifar10-deep", "ridge head 2 .3"),
        ("γ = 1, flips", "table4", "cifar10-flips"),
    ),
    (92.0, 93.0, 95.0, 96.0, 97.0, 98.0, 99.0, 99.5, 99.75),
    (68.0, 88.0),
    (
        "γ = 0.03",
        "γ = 0.1",
        "γ = 1",
        "γ = 3",
        "γ = 1, stride 1",
        "γ = 3, stride 1",
        "γ = 1, stride 1, means of adaptive cells",
        "shares, multi-class, γ = 0.3, α = 1, drawn filter signs, both sides",
        "the residual regressed (not the paper's)",
        "γ = 1, flips",
    ),
)
CIFAR100 = Comparison(
    "cifar100",
    "CIFAR-100",
    (
        ("γ = 1, α = 0.1", "explore-cifar100-readings", "preset, gamma 1"),
        ("γ = 3, α = 0.3", "table2", "cifar100-sigmoids"),
        ("γ = 3, α = 0.15", "explore-cifar100-large-ridge", "alpha .15"),
        ("γ = 3, α = 0.3, multi-class", "explore-cifar100-large-ridge", "multi-class"),
        ("γ = 3, α = 0.3, means of adaptive cells", "explore-cifar100-means", "means of cells"),
        ("γ = 10, α = 0.3", "table2", "cifar100-slow"),
        ("γ = 10, α = 0.3, σ = 4", "explore-cifar100-votes", "gamma 10, sigma 4"),
        ("γ = 30, the paper's α", "table2", "cifar100-rates"),
        ("γ = 30, the paper's α, σ = 4", "explore-cifar100-votes", "gamma 30, sigma 4, the paper's alpha"),
        (
            "shares, γ = 0.03, the paper's α",
            "explore-cifar100-shares-tiny-ridge",
            "shares, gamma .03, the paper's alpha",
        ),
        ("shares, γ = 0.1, the paper's α", "table2", "cifar100-one-vs-rest"),
        ("shares, γ = 0.3, the paper's α", "explore-cifar100-shares-deep", "shares, gamma .3, the paper's alpha, deep"),
        ("shares, γ = 1, the paper's α", "explore-cifar100-shares-deep", "shares, gamma 1, the paper's alpha, deep"),
        ("shares, γ = 3, the paper's α", "explore-cifar100-shares", "shares, gamma 3, the paper's alpha"),
        ("shares, multi-class, γ = 0.1, the paper's α", "table2", "cifar100-small-ridge"),
        ("shares, multi-class, γ = 0.3, the paper's α", "table2", "cifar100-fixed-signs"),
        (
            "shares, multi-class, γ = 0.3, the paper's α, means of adaptive cells",
            "explore-cifar100-shares-open",
            "shares, multi-class, means of adaptive cells",
        ),
        (
            "shares, multi-class, γ = 0.3, the paper's α, own images",
            "explore-cifar100-shares-open",
            "shares, multi-class, own images",
        ),
        (
            "shares, multi-class, γ = 0.3, the paper's α, both sides of a draw",
            "explore-cifar100-shares-sides",
            "shares, multi-class, both sides",
        ),
        (
            "shares, multi-class, γ = 0.3, the paper's α, drawn filter signs, both sides",
            "table2",
            "cifar100",
        ),
        (
            "shares, multi-class, γ = 0.3, the paper's α, drawn filter signs, both sides, means of the official cells",
            "explore-cifar100-shares-signs",
            "shares, multi-class, drawn signs, both sides, means of the official cells",
        ),
        (
            "shares, multi-class, γ = 0.1, the paper's α, drawn filter signs, both sides, means of the official cells",
            "explore-cifar100-shares-signs-means",
            "means, drawn signs, both sides, gamma .1",
        ),
        (
            "shares, multi-class, γ = 0.1, α down to 0.1",
            "explore-cifar100-shares-falling",
            "shares, multi-class, gamma .1, alpha to .1",
        ),
        ("the residual regressed (not the paper's)", "explore-cifar100-steps", "ridge head .5 .3"),
        ("γ = 3, α = 0.3, flips", "table4", "cifar100-flips-sigmoids"),
        (
            "shares, multi-class, γ = 0.1, the paper's α, flips",
            "explore-cifar100-shares-multi-flips",
            "shares, multi-class, flips, gamma .1",
        ),
        (
            "shares, multi-class, γ = 0.04, the paper's α, flips",
            "explore-cifar100-shares-multi-flips-small-ridge",
            "shares, multi-class, flips, gamma .04",
        ),
        (
            "shares, multi-class, γ = 0.04, α down to 0.1, flips",
            "explore-cifar100-shares-falling-flips",
            "shares, multi-class, flips, gamma .04, alpha to .1",
        ),
    ),
    (93.0, 95.0, 97.0, 98.0, 99.0, 99.5, 99.75, 99.9, 99.95),
    (38.0, 68.0),
    (
        "γ = 3, α = 0.3",
        "γ = 10, α = 0.3",
        "γ = 30, the paper's α",
        "shares, γ = 0.1, the paper's α",
        "shares, γ = 1, the paper's α",
        "shares, multi-class, γ = 0.3, the paper's α",
        "shares, multi-class, γ = 0.3, the paper's α, drawn filter signs, both sides",
        "the residual regressed (not the paper's)",
        "γ = 3, α = 0.3, flips",
        "shares, multi-class, γ = 0.04, the paper's α, flips",
    ),
)


def curves(of: Comparison) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return each run that is there: its name, and training and held-out accuracy in %, layer by layer.

    Where a network was run again with all images, its run with some held out is meant.
    """
    found = []
    for name, file, wanted in of.runs:
        path = RESULTS / f"{file}.json"
        runs = [_points(run["history"]) for run in read(path) if run["name"] == wanted] if path.exists() else []
        found += [(name, points) for points in runs if points][:1]
    return found


def at(points: list[tuple[float, float]], training: float) -> float | None:
    """Return the mean held-out accuracy of the layers near a training accuracy, None where there is none."""
    near = [held for train, held in points if abs(train - training) <= min(NEAR, (100 - training) / 2)]
    return mean(near) if near else None


def table(of: Comparison) -> list[str]:
    """Return held-out accuracies, a row a reading, a column a training accuracy."""
    rows = []
    for name, points in curves(of):
        found = (at(points, training) for training in of.trainings)
        rows.append(f"| {name} | {' | '.join('–' if held is None else f'{held:.2f}' for held in found)} |")
    if not rows:
        return not_run_yet("python benchmarks/explore.py")
    return [
        f"![{of.title}]({of.picture.name})",
        "",
        "| reading | " + " | ".join(f"training {training:g} %" for training in of.trainings) + " |",
        "|---|" + "---|" * len(of.trainings),
        *rows,
        "",
        f"Held-out accuracy in %, the mean of all layers with a training accuracy within {NEAR:g} of the column's, or "
        "half of what it lacks to 100 where that is less; "
        "45,000 images, one seed each, stride 4 but where a row says otherwise."
        + "".join(f" {told}" for word, told in WORDS.items() if any(word in name for name, *_ in of.runs)),
    ]


def pictures() -> dict[Path, str]:
    """Return them drawn: means of neighbouring layers, so that a line can be followed; a colour each."""
    even = [FROM + 2 * NEAR * number for number in range(int((100 - FROM) / (2 * NEAR)) + 1)]
    found = {}
    for of in (CIFAR10, CIFAR100):
        steps = sorted({*even, *(training for training in of.trainings if training > FROM)})
        lines = []
        for name, points in curves(of):
            if name not in of.drawn:
                continue
            held = [(step, at(points, step)) for step in steps]
            lines.append(Line(name, [(step, share) for step, share in held if share is not None]))
        if shown := [line for line in lines if line.points]:
            axes = "training accuracy in %", "held-out accuracy in %"
            found[of.picture] = line_chart(of.title, *axes, shown, y_range=of.held_out)
    return found


def _points(history: list[dict[str, Any]]) -> list[tuple[float, float]]:
    known = (record for record in history if record["validation_accuracy"] is not None)
    return [(100 * record["train_accuracy"], 100 * record["validation_accuracy"]) for record in known]
