"""Timing of our heads beside scikit-learn's, on the CPU, on the same random rows and threads.

Rows are Gaussian classes with correlated float32 features of about equal variance v. Shrinkage is (1-γ)S + γvI in both
LDAs (ours of the total scatter, theirs of the within scatter); both ridges minimise ‖Xw + b - y‖² + γvn‖w‖².
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..stages.discriminant import fit_head, multiclass_lda, one_vs_rest_lda, ridge_regression
from ..stages.moments import Moments
from ..stages.residual import one_hot

SHRINKAGE = 0.1
APART = 6.0  # distance of class means from their centre: about 90 % accuracy
FACTORS = 200  # directions with most of the variance
REPEATS, ENOUGH_SECONDS = 3, 20.0  # no repeat after these seconds

Fit = Callable[[], Callable[[NDArray[np.float32]], NDArray[Any]]]
"""Fit, and return a function from rows (n, D) to classes (n,)."""


@dataclass(frozen=True)
class Rows:
    """Training rows and held-out rows: features (n, D) float32, labels (n,)."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_features: NDArray[np.float32]
    held_labels: NDArray[np.int64]
    classes: int


def make_rows(rows: int, features: int, classes: int, held: int, seed: int = 0) -> Rows:
    """Draw rows: class means along random directions, correlated noise about them."""
    generator = np.random.default_rng(seed)
    factors = min(FACTORS, features)
    loadings = generator.standard_normal((factors, features), np.float32) / np.sqrt(factors)
    means = generator.standard_normal((classes, features), np.float32) * np.float32(APART / features**0.5)
    labels = generator.integers(classes, size=rows + held)
    x = generator.standard_normal((rows + held, factors), np.float32) @ loadings
    x += 1.5 * generator.standard_normal(x.shape, np.float32) + means[labels]
    return Rows(x[:rows], labels[:rows], x[rows:], labels[rows:], classes)


def contestants(rows: Rows) -> dict[str, tuple[str, Fit]]:
    """Return the heads that are timed: name, group of comparison, and fit function."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import RidgeClassifier

    def ours(solve: Any, ridge: float) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
        x, y = torch.from_numpy(rows.features), torch.from_numpy(rows.labels)
        moments = Moments.zeros(x[:1024].mean(0), rows.classes)
        moments.add(x, one_hot(y, rows.classes, x.dtype))
        head, _ = fit_head(moments, solve, ridge)
        return lambda new: head.scores(torch.from_numpy(new)).argmax(1).numpy()

    def theirs(model: Any) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
        model.fit(rows.features, rows.labels)
        return model.predict  # type: ignore[no-any-return]

    lda, convex = LinearDiscriminantAnalysis, SHRINKAGE / (1 - SHRINKAGE)
    alpha = SHRINKAGE * len(rows.features) * float(rows.features.var(0).mean())  # ours is per feature's variance
    return {
        "rescnet one-vs-rest LDA": ("LDA", partial(ours, one_vs_rest_lda, convex)),
        "rescnet multi-class LDA": ("LDA", partial(ours, multiclass_lda, convex)),
        "rescnet ridge": ("ridge", partial(ours, ridge_regression, SHRINKAGE)),
        "scikit-learn RidgeClassifier": (
            "ridge",
            partial(theirs, RidgeClassifier(alpha=alpha)),
        ),
        "scikit-learn LDA, solver eigen": ("LDA", partial(theirs, lda(solver="eigen", shrinkage=SHRINKAGE))),
        "scikit-learn LDA, solver lsqr": ("LDA", partial(theirs, lda(solver="lsqr", shrinkage=SHRINKAGE))),
    }


OURS = {"LDA": "rescnet one-vs-rest LDA", "ridge": "rescnet ridge"}


def compare_heads(
    rows: int = 10_000,
    features: int = 4_000,
    classes: int = 10,
    held: int = 2_000,
    deadline: float | None = None,
    told: Callable[[str], None] | None = None,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Time all heads one after the other, and yield a result after each.

    ``seconds`` is a median, ``accuracy`` is on held-out rows, ``ratio`` is relative to our head of the same group.
    ``cpu_seconds`` and ``cpu_ratio`` are the same in processor time, which other processes do not change.
    """
    data = make_rows(rows, features, classes, held, seed)
    reference: dict[str, tuple[float, float]] = {}
    for name, (group, fit) in contestants(data).items():
        if deadline is not None and time.monotonic() > deadline:
            return
        if told:
            told(name)
        seconds: list[float] = []
        busy: list[float] = []
        while not seconds or (len(seconds) < REPEATS and sum(seconds) < ENOUGH_SECONDS):
            start, start_busy = time.perf_counter(), time.process_time()
            predict = fit()
            seconds.append(time.perf_counter() - start)
            busy.append(time.process_time() - start_busy)
        accuracy = float((predict(data.held_features) == data.held_labels).mean())
        ours = reference.setdefault(group, (median(seconds), median(busy)))
        yield {
            "name": name,
            "group": group,
            "seconds": median(seconds),
            "runs": len(seconds),
            "accuracy": accuracy,
            "ratio": median(seconds) / ours[0],
            "cpu_seconds": median(busy),
            "cpu_ratio": median(busy) / ours[1],
            "compared_with": OURS[group],
        }
