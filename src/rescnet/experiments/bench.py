"""Benchmarks: seconds of one layer by stage, and of our heads beside scikit-learn's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.presets import make_config, preset_names
from ..data.archives import PUBLIC_SETS
from ..formatting import nearest
from ..network.device import choose_device, choose_precision
from ..stages.discriminant import fit_head, multiclass_lda, one_vs_rest_lda, ridge_regression
from ..stages.moments import Moments
from ..stages.residual import one_hot
from ..training.train import TrainingRun
from .costs import STAGES, layer_costs, rates, times
from .records import origin

ON_GPU = ("cifar10", "cifar10-adaptive", "cifar100", "mnist", "tiny-imagenet")
ON_CPU = ("digits", "cifar10")
CPU_IMAGES, CPU_FILTERS = 300, 16  # ends within a minute on a laptop
CHUNK = 10_000  # images drawn at a time
WARM_UP = 2  # the first layer has no maps before it; the second compiles what the others use

SHRINKAGE = 0.1  # of all heads
APART = 6.0  # distance of class means from their centre: about 90 % accuracy
FACTORS = 200  # directions with most of the variance
REPEATS, ENOUGH_SECONDS = 3, 20.0  # no repeat after these seconds

Fit = Callable[[], Callable[[NDArray[np.float32]], NDArray[Any]]]
"""Fit, and return a function from rows (n, D) to classes (n,)."""


class NothingMeasuredError(ValueError):
    """The time limit was reached before a layer was measured."""


@dataclass(frozen=True)
class Case:
    """A network to time: a preset with changes, and the sizes of its random images."""

    name: str
    preset: str
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: int
    changes: dict[str, Any] = field(default_factory=dict)

    def config(self) -> NetworkConfig:
        """Return the configuration; it adds layers even if no training image is wrong."""
        return make_config(self.preset, **({"stop_at_zero_error": False} | self.changes))

    def describe(self) -> str:
        """Return the preset and its changes as text."""
        return " ".join([self.preset, *(f"{key}={value}" for key, value in self.changes.items())])

    def images(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return random images, uint8 (train + test, channels, height, width), and balanced labels."""
        total = self.train + self.test
        return smooth_noise(total, self.shape, device), torch.arange(total, device=device) % self.classes


def known_cases() -> dict[str, Case]:
    """Return all cases by name: presets of public sets at full size, and CIFAR-10 with all 21 cells."""
    cases = {}
    for name in preset_names():
        if name in PUBLIC_SETS:
            public = PUBLIC_SETS[name]
            test = public.n_test or public.n_train // 5
            train = public.n_train if public.n_test else public.n_train - test
            cases[name] = Case(name, name, public.shape, train, test, public.classes)
    cases["cifar10-adaptive"] = replace(cases["cifar10"], name="cifar10-adaptive", changes={"pyramid_bins": "adaptive"})
    return cases


def choose_cases(
    names: Sequence[str], device: torch.device, images: int | None = None, filters: int | None = None
) -> list[Case]:
    """Return the cases of these names; by default five at full size on a GPU, two small ones on a CPU.

    ``images`` is the number of training images, a fifth as many are test images; ``filters`` is the number per layer.
    """
    known, small = known_cases(), device.type == "cpu"
    chosen = []
    for name in names or (ON_CPU if small else ON_GPU):
        if name not in known:
            choices = ", ".join(sorted(known))
            raise ValueError(f"preset must be one of {choices}, got {name!r}.{nearest(name, known)}")
        case, shrink = known[name], small and name != "digits"
        if count := images or (min(case.train, CPU_IMAGES) if shrink else None):
            case = replace(case, train=count, test=max(1, count // 5))
        if width := filters or (CPU_FILTERS if shrink else None):
            case = replace(case, changes={**case.changes, "filters": width})
        chosen.append(case)
    return chosen


def smooth_noise(count: int, shape: tuple[int, int, int], device: torch.device) -> Tensor:
    """Return random images whose neighbouring pixels are correlated, uint8 (count, c, h, w)."""
    c, h, w = shape
    generator = torch.Generator(device).manual_seed(0)
    images = torch.empty(count, c, h, w, dtype=torch.uint8, device=device)
    for start in range(0, count, CHUNK):
        part = images[start : start + CHUNK]
        coarse = torch.rand(len(part), c, max(2, h // 4), max(2, w // 4), device=device, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bilinear").mul_(200)
        part.copy_(smooth.add_(torch.rand(smooth.shape, device=device, generator=generator), alpha=55))
    return images


def measure_case(
    case: Case,
    compute: ComputeOptions,
    ceilings: Mapping[str, float],
    layers: int = 5,
    warm_up: int = WARM_UP,
    deadline: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Train a few layers of a case and return the median seconds by stage, with rates and provenance.

    Parameters
    ----------
    ceilings : mapping
        Of :func:`.costs.measure_ceilings`.
    layers : int
        Number of layers measured, after those that warm up.
    deadline : float, optional
        Of ``time.monotonic()``. No layer is started after it.
    progress : callable
        Called with the progress in a few words.
    """
    config, n = case.config(), case.train
    config = replace(config, layers=max(config.layers, warm_up + layers))
    device = choose_device(compute.device)
    precision = choose_precision(compute, device)
    images, labels = case.images(device)
    run = TrainingRun(images[:n], labels[:n], config, test=(images[n:], labels[n:]), compute=compute)
    del images, labels
    walls, records = [], []
    added = iter(run)
    for number in range(1, warm_up + layers + 1):
        if deadline is not None and time.monotonic() > deadline:
            break
        progress(f"{case.name}: layer {number} of {warm_up + layers}")
        (seconds,) = times(lambda: records.append(next(added)), device, 1, warm_up=0)
        walls.append(seconds)
    walls, records = walls[warm_up:], records[warm_up:]
    if not records:
        raise NothingMeasuredError(
            f"the time limit was reached before a layer of {case.name} was measured: allow more seconds, or use fewer "
            "images."
        )
    names = dict.fromkeys(stage for record in records for stage in record.seconds)
    by_stage = {stage: median(record.seconds.get(stage, 0.0) for record in records) for stage in names}
    sizes = case.shape, case.classes, case.train, case.test
    plan: dict[str, Any] = {"features_kept": run.plan.keep_features, "by_rows": run.plan.by_rows}
    itemsize = 8 if compute.dtype == "float64" else 4
    costs = layer_costs(config, *sizes, precision=precision, itemsize=itemsize, **plan)
    return {
        "name": f"{case.describe()} {precision}",
        "case": case.name,
        "dataset": f"smooth noise, {case.train} training and {case.test} test images of {case.shape}",
        "config": case.config().to_dict(),
        "compute": asdict(compute),
        "precision": precision,
        **origin(device),
        "seed": 0,
        "protocol": f"median of {len(records)} layers after {warm_up} to warm up, every stage synchronised",
        "features": run.plan.features,
        **plan,
        "seconds": median(walls),
        "seconds_by_layer": walls,
        "seconds_by_stage": by_stage,
        "stages": {stage: rates(costs[stage], by_stage[stage], ceilings) for stage in STAGES if stage in by_stage},
        "peak_memory": max(record.peak_memory for record in records),
        "ceilings": dict(ceilings),
    }


@dataclass(frozen=True)
class Rows:
    """Training rows and held-out rows: features (n, D) float32, labels (n,)."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_features: NDArray[np.float32]
    held_labels: NDArray[np.int64]
    classes: int


def make_rows(rows: int, features: int, classes: int, held: int) -> Rows:
    """Draw Gaussian classes with correlated features of about equal variance."""
    generator = np.random.default_rng(0)
    factors = min(FACTORS, features)
    loadings = generator.standard_normal((factors, features), np.float32) / np.sqrt(factors)
    means = generator.standard_normal((classes, features), np.float32) * np.float32(APART / features**0.5)
    labels = generator.integers(classes, size=rows + held)
    x = generator.standard_normal((rows + held, factors), np.float32) @ loadings
    x += 1.5 * generator.standard_normal(x.shape, np.float32) + means[labels]
    return Rows(x[:rows], labels[:rows], x[rows:], labels[rows:], classes)


def contestants(rows: Rows) -> dict[str, tuple[str, Fit]]:
    """Return the heads that are timed: name, group of comparison, and fit function.

    Shrinkage is (1-γ)S + γvI in both LDAs (ours of the total scatter, theirs of the within scatter), where v is the
    variance of a feature. Both ridges minimise ‖Xw + b - y‖² + γvn‖w‖².
    """
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
        "scikit-learn RidgeClassifier": ("ridge", partial(theirs, RidgeClassifier(alpha=alpha))),
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
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[dict[str, Any]]:
    """Time all heads on the CPU, on the same rows and threads, and yield a result after each.

    ``seconds`` is a median, ``accuracy`` is on held-out rows, ``ratio`` is relative to our head of the same group.
    ``cpu_seconds`` and ``cpu_ratio`` are the same in processor time, which other processes do not change.
    """
    data = make_rows(rows, features, classes, held)
    reference: dict[str, tuple[float, float]] = {}
    for name, (group, fit) in contestants(data).items():
        if deadline is not None and time.monotonic() > deadline:
            return
        progress(name)
        seconds, busy = list[float](), list[float]()
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
