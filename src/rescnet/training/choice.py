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

from ..config.compute import ComputeOptions
from ..config.defaults import Quality, default_settings
from ..config.grammars import MIRROR
from ..config.network import NetworkConfig
from ..errors import ConfigError
from ..network.device import choose_device
from ..network.history import LayerRecord
from ..network.memory import RunSizes
from ..network.readout.loo_correction import leave_one_out
from ..numerics.code_kernel import Codes, code_kernel, kernel_scale, median_squared_distance
from ..stages.augment import view_images
from ..text import show_seconds
from .data import TrainingData
from .distributed.workers import Workers
from .memory_plan import plan_run
from .readout.system import solve_exactly
from .time_plan import TimePlan, product_speed
from .trainer import Trainer

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
    sent = b""
    if workers.is_rank0:
        choice = choose()
        sent = json.dumps([choice.config.to_dict(), choice.notes]).encode()
    options, notes = json.loads(workers.broadcast_bytes(sent))
    return Choice(NetworkConfig(**options), tuple(notes))


@torch.inference_mode()
def choose_network(
    images: Tensor,
    labels: Tensor,
    compute: ComputeOptions,
    quality: Quality = "balanced",
    time_limit: float | None = None,
    given: Mapping[str, Any] | None = None,
    validation: tuple[Tensor, Tensor] | None = None,
    passed: float = 0.0,
    workers: Workers | None = None,
) -> Choice:
    """Choose the network for training images (n, channels, height, width) with labels (n,).

    ``given`` are options that the user has set, which stay. ``time_limit`` is in seconds, of which some have
    ``passed``. ``validation`` are images and labels that decide in place of leave-one-out. ``workers`` will train.
    """
    began, given, notes = perf_counter(), dict(given or {}), []
    _, channels, height, width = images.shape
    shape, classes = (channels, height, width), int(labels.max()) + 1
    device = choose_device(compute.device)
    facts = shape, len(images), classes, quality
    mirrored = False
    if time_limit is None:  # which would take a smaller network: say what the whole one needs, not the trial
        config = NetworkConfig(**(default_settings(*facts) | given | {"patience": 0}))
        plan_run(config, TrainingData.of(config, images, labels), compute, device, workers or Workers())
    if "augment" not in given and len(images) < LEAST_IMAGES:
        notes.append(f"mirror images: not added, since {LEAST_IMAGES} images are needed to try them")
    elif "augment" not in given:
        config = NetworkConfig(**(default_settings(*facts) | given))
        some = _spread(labels, TRIAL_IMAGES[device.type])
        held_out, kind, count = None, "leave-one-out ", f"{len(some):,}"
        if validation is not None and validation[0].shape[1:] == images.shape[1:]:  # others are refused in training
            held = _spread(validation[1], TRIAL_IMAGES[device.type])
            held_out = validation[0][held], validation[1][held]
            kind, count = "", f"{len(held):,} validation"
        plain, mean = _errors_of_mirrors(images[some], labels[some], held_out, config, compute)
        mirrored = mean < plain
        verdict = "the same class" if mirrored else "not the same class"
        notes.append(
            f"mirror images: {verdict} (squared {kind}error {mean:.3f} with them, {plain:.3f} without, "
            f"on {count} images)"
        )
    config = NetworkConfig(**(default_settings(*facts, mirrored) | given))
    if time_limit is not None or (quality == "best" and choose_device(compute.device).type == "cpu"):
        limit, spent = inf if time_limit is None else time_limit, passed + perf_counter() - began
        fitting, seconds = _fit_to_time(images, labels, config, compute, limit - spent, given)
        seconds += spent
        if fitting is None:
            fixed = f", or leave {' and '.join(kept)} out" if (kept := sorted(SHRINKABLE & given.keys())) else ""
            raise ConfigError(
                f"time_limit must be at least {show_seconds(ceil(10 * seconds) / 10)} for {len(images):,} images, got "
                f"{limit:g} s. Allow more time, or use fewer or smaller images{fixed}."
            )
        config, of_limit = fitting, "" if time_limit is None else f" of {show_seconds(time_limit)}"
        notes.append(f"time: about {show_seconds(seconds)}{of_limit} on this machine")
    return Choice(config, tuple(notes))


def _spread(labels: Tensor, most: int) -> Tensor:
    """Return the indices of at most ``most`` images, with about as many of each class as there are."""
    order = torch.argsort(labels, stable=True)
    places = torch.linspace(0, len(order) - 1, min(most, len(order))).round().long()
    return order[places].sort().values


def _errors_of_mirrors(
    images: Tensor,
    labels: Tensor,
    held_out: tuple[Tensor, Tensor] | None,
    config: NetworkConfig,
    compute: ComputeOptions,
) -> tuple[float, float]:
    """Return the errors of one small layer: of the images, and of the mean with their mirror images.

    They are those of images held out, else leave-one-out errors.
    """
    small = replace(_of_layers_alone(config, 1), filters=min(config.filters, TRIAL_FILTERS))
    config = replace(small, stack_depth=0, grey_stack_every=0)
    classes, numbers = torch.unique(labels, return_inverse=True)
    trainer = Trainer(config, TrainingData.of(config, images, numbers), compute, Workers())
    trainer.add_layer()
    stack, device = trainer.stack, trainer.device
    pictures, of_pictures = images, labels
    if held_out is not None:
        pictures, of_pictures = torch.cat([images, held_out[0]]), torch.cat([labels, held_out[1]])
    seen, mirrored = (
        torch.cat([step.features.float() for part in parts for step in stack.steps(part.to(device))])
        for parts in (torch.split(views, stack.chunk) for views in (pictures, view_images(pictures, MIRROR)))
    )
    targets, known = (of_pictures[:, None] == classes).float().to(device), len(images)
    return _error(seen, targets, known, config), _error((seen + mirrored) / 2, targets, known, config)


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
    images: Tensor,
    labels: Tensor,
    config: NetworkConfig,
    compute: ComputeOptions,
    limit: float,
    given: Mapping[str, Any],
) -> tuple[NetworkConfig | None, float]:
    """Return the largest network that fits in the limit, and its seconds: without copies, with fewer layers or filters.

    Options that were given are not changed. None and the seconds needed say that no network fits.
    """
    _, channels, height, width = images.shape
    sizes = RunSizes((channels, height, width), int(labels.max()) + 1, len(images))
    speed = product_speed(choose_device(compute.device))
    for filters in (config.filters, *(fewer for fewer in FEWER_FILTERS if fewer < config.filters)):
        if filters != config.filters and "filters" in given:
            break
        tried = replace(config, filters=filters)
        trial = _timed_layer(images, labels, tried, compute)
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


def _timed_layer(
    images: Tensor, labels: Tensor, config: NetworkConfig, compute: ComputeOptions
) -> tuple[LayerRecord, int]:
    """Return the record of the second layer on some of the images, and their number."""
    some = _spread(labels, TIMED_IMAGES[choose_device(compute.device).type])
    few = _of_layers_alone(config, 2)
    numbers = torch.unique(labels[some], return_inverse=True)[1]
    trainer = Trainer(few, TrainingData.of(few, images[some], numbers), compute, Workers())
    trainer.add_layer()
    return trainer.add_layer(), len(some)


def _of_layers_alone(config: NetworkConfig, layers: int) -> NetworkConfig:
    """Return a network of a few layers, without readout and copies."""
    return replace(
        config, layers=layers, readout="heads", kernel_copies="", loo_correction=False, augment="", copies=1, patience=0
    )
