"""Choice of a network for given images: whether mirror images are the same class, and what fits in a time limit.

Both are found by a trial on some of the images. Validation images decide where they are given, else leave-one-out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..base.errors import ConfigError
from ..base.text import show_seconds
from ..config.compute import ComputeOptions
from ..config.defaults import Quality, default_settings
from ..config.grammars import MIRROR
from ..config.network import NetworkConfig
from ..network.device import choose_device
from ..network.history import LayerRecord
from ..network.memory import RunSizes
from ..network.readout.loo_correction import leave_one_out
from ..numerics.code_kernel import Codes, code_kernel, kernel_scale, median_squared_distance
from ..stages.augment import view_images
from .data import TrainingData
from .memory_plan import plan_run
from .readout.system import solve_exactly
from .time_plan import TimePlan, product_speed
from .trainer import Trainer
from .workers import Workers

LEAST_IMAGES = 50  # of a trial of mirror images: with fewer, chance decides
TRIAL_IMAGES = {"cpu": 300, "cuda": 2000}
TRIAL_FILTERS = 16
TIMED_IMAGES = {"cpu": 24, "cuda": 512}
FEWER_FILTERS = (24, 16, 8)
SHRINKABLE = {"filters", "kernel_copies", "layers"}  # options that a time limit decides if they are not given
SAFETY = 0.8  # share of the time limit that is planned for


@dataclass(frozen=True)
class Choice:
    """A network for given images, and sentences about how it was chosen."""

    config: NetworkConfig
    notes: tuple[str, ...] = ()
    held_out: NDArray[np.intp] | None = field(default=None, compare=False)  # indices of images held out of training
    refits: bool = False  # trains again on all images, with the depth of a network before it


def choose_on_rank0(workers: Workers, choose: Callable[[], Choice]) -> Choice:
    """Return rank 0's choice on all workers: it depends on the speed of a machine."""
    if not workers.exchanges:
        return choose()
    sent = b""
    if workers.is_rank0:
        choice = choose()
        sent = json.dumps([choice.config.to_dict(), choice.notes]).encode()
    options, notes = json.loads(workers.broadcast_bytes(sent))
    return Choice(NetworkConfig(**options), tuple(notes))


@torch.inference_mode()
def choose_network(
    data: TrainingData,
    compute: ComputeOptions,
    quality: Quality = "balanced",
    time_limit: float | None = None,
    given: Mapping[str, Any] | None = None,
    passed: float = 0.0,
    workers: Workers | None = None,
) -> Choice:
    """Choose the network for training images; validation images, if any, decide in place of leave-one-out.

    ``given`` are options that the user has set, which stay. ``time_limit`` is in seconds, of which some have
    ``passed``. ``workers`` will train.
    """
    began, given, notes = perf_counter(), dict(given or {}), []
    device = choose_device(compute.device)
    sizes = data.image_shape, len(data.images), data.classes, quality
    config = NetworkConfig(**(default_settings(*sizes) | given))
    if time_limit is None:  # which would take a smaller network: say what the whole one needs, not the trial
        plan_run(config, data, compute, device, workers or Workers())
    if "augment" not in given and len(data.images) < LEAST_IMAGES:
        notes.append(f"mirror images: not added, since {LEAST_IMAGES} images are needed to try them")
    elif "augment" not in given:
        mirrored, note = _try_mirror_images(data, config, compute)
        notes.append(note)
        if mirrored:
            config = NetworkConfig(**(default_settings(*sizes, mirrored) | given))
    if time_limit is not None or (quality == "best" and device.type == "cpu"):
        limit, spent = inf if time_limit is None else time_limit, passed + perf_counter() - began
        fitting, seconds = _fit_to_time(data, config, compute, limit - spent, given)
        seconds += spent
        if fitting is None:
            fixed = f", or leave {' and '.join(kept)} out" if (kept := sorted(SHRINKABLE & given.keys())) else ""
            raise ConfigError(
                f"time_limit must be at least {show_seconds(ceil(10 * seconds) / 10)} for {len(data.images):,} images, "
                f"got {limit:g} s. Allow more time, or use fewer or smaller images{fixed}."
            )
        config, of_limit = fitting, "" if time_limit is None else f" of {show_seconds(time_limit)}"
        notes.append(f"time: about {show_seconds(seconds)}{of_limit} on this machine")
    return Choice(config, tuple(notes))


def _spread(labels: Tensor, most: int) -> Tensor:
    """Return the indices of at most ``most`` images, with about as many of each class as there are."""
    order = torch.argsort(labels, stable=True)
    places = torch.linspace(0, len(order) - 1, min(most, len(order))).round().long()
    return order[places].sort().values


def _trained(
    data: TrainingData, images: int, config: NetworkConfig, compute: ComputeOptions, layers: int, **changes: Any
) -> Trainer:
    """Return a trainer of n images, after a few layers without readout and copies, with further options changed."""
    alone: dict[str, Any] = {
        "readout": "heads",
        "kernel_copies": "",
        "loo_correction": False,
        "augment": "",
        "copies": 1,
    }
    small = replace(config, layers=layers, patience=0, **(alone | changes))
    some = _spread(data.labels, images)
    classes = torch.unique(data.labels[some], return_inverse=True)[1]  # numbered without gaps
    trainer = Trainer(small, TrainingData(data.images[some], classes, {}), compute, Workers())
    for _ in range(layers):
        trainer.add_layer()
    return trainer


def _try_mirror_images(data: TrainingData, config: NetworkConfig, compute: ComputeOptions) -> tuple[bool, str]:
    """Return whether mirror images are of the same class, and a sentence about it.

    They are if the mean of an image and its mirror image has a smaller error, in a kernel regression on one layer.
    """
    most = TRIAL_IMAGES[choose_device(compute.device).type]
    few = min(config.filters, TRIAL_FILTERS)
    trainer = _trained(data, most, config, compute, layers=1, filters=few, stack_depth=0, grey_stack_every=0)
    some = _spread(data.labels, most)
    images, labels, known = data.images[some], data.labels[some], len(some)
    classes, kind, count = torch.unique(labels), "leave-one-out ", f"{known:,}"
    if validation := data.others.get("validation"):
        held = _spread(validation[1], most)
        images, labels = torch.cat([images, validation[0][held]]), torch.cat([labels, validation[1][held]])
        kind, count = "", f"{len(held):,} validation"
    stack, device = trainer.stack, trainer.device
    seen, mirrored = (
        torch.cat([step.features.float() for part in parts for step in stack.steps(part.to(device))])
        for parts in (torch.split(views, stack.chunk) for views in (images, view_images(images, MIRROR)))
    )
    targets = (labels[:, None] == classes).float().to(device)
    plain, mean = (_error(features, targets, known, config) for features in (seen, (seen + mirrored) / 2))
    verdict = "the same class" if mean < plain else "not the same class"
    return mean < plain, (
        f"mirror images: {verdict} (squared {kind}error {mean:.3f} with them, {plain:.3f} without, on {count} images)"
    )


def _error(features: Tensor, targets: Tensor, known: int, config: NetworkConfig) -> float:
    """Return the mean squared error of a kernel regression on the first features (n, D): of the others, if any.

    Else it is the leave-one-out error.
    """
    first = features[:known]
    spread = first.std(0)
    scaled = (features - first.mean(0)) / torch.where(spread > 0, spread, 1)
    codes = Codes.of(scaled[:known])
    scale = kernel_scale(config.kernel_width, median_squared_distance(codes))
    found = solve_exactly(codes, targets[:known], scale, config.kernel_ridge)
    assert found.blocks is not None
    if known == len(features):
        outputs = leave_one_out(targets, found.columns, found.blocks)
    else:
        outputs, targets = code_kernel(Codes.of(scaled[known:]), codes, scale) @ found.columns, targets[known:]
    return float((outputs - targets).square().sum(1).mean())


def _fit_to_time(
    data: TrainingData, config: NetworkConfig, compute: ComputeOptions, limit: float, given: Mapping[str, Any]
) -> tuple[NetworkConfig | None, float]:
    """Return the largest network that fits in the limit, and its seconds: without copies, with fewer layers or filters.

    Options that were given are not changed. None and the seconds needed say that no network fits.
    """
    sizes = RunSizes(data.image_shape, data.classes, len(data.images))
    speed = product_speed(choose_device(compute.device))
    for filters in (config.filters, *(fewer for fewer in FEWER_FILTERS if fewer < config.filters)):
        if filters != config.filters and "filters" in given:
            break
        tried = replace(config, filters=filters)
        trial = _timed_layer(data, tried, compute)
        for copies in dict.fromkeys((tried.kernel_copies, tried.kernel_copies if "kernel_copies" in given else "")):
            tried = replace(tried, kernel_copies=copies)
            plan = TimePlan.of(tried, sizes, *trial, speed)
            least = tried.layers if "layers" in given else min(2, tried.layers)
            layers = tried.layers
            while layers > least and plan.seconds(layers) > SAFETY * limit:
                layers -= 1
            if plan.seconds(layers) <= (limit if "layers" in given else SAFETY * limit):
                fewer = replace(tried, layers=layers, stack_depth=min(tried.stack_depth, layers))
                return fewer, plan.seconds(layers)
    return None, plan.seconds(least) / SAFETY


def _timed_layer(data: TrainingData, config: NetworkConfig, compute: ComputeOptions) -> tuple[LayerRecord, int]:
    """Return the record of the second layer on some of the images, and their number."""
    trainer = _trained(data, TIMED_IMAGES[choose_device(compute.device).type], config, compute, layers=2)
    return trainer.history[-1], len(trainer.training.labels)
