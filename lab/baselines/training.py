"""SGD for the baselines: Nesterov momentum, a schedule, bfloat16, all images on the device, optional flips.

Seconds of training and of evaluation are separate, synchronised with the device. A run whose loss is not finite, or
does not fall in its first epoch, restarts with half the learning rate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

EVALUATION_BATCH = 2_000
WARM_UP_STEPS = 5
TIMED_STEPS = 20
HALVINGS = 3


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes
    ----------
    epochs, batch : int
    learning_rate : float
        The greatest; ``cosine`` is there after one epoch of warm-up, ``one-cycle`` rises to it over 30 % of the run.
    flips : bool
        Mirror each image of a batch with probability one half.
    """

    epochs: int = 30
    batch: int = 512
    learning_rate: float = 0.2
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: str = "one-cycle"
    flips: bool = False
    seed: int = 0

    def rate(self, done: float) -> float:
        """Return the learning rate when a share ``done`` of the run is over."""
        if self.schedule == "one-cycle":
            rise = 0.3
        elif self.schedule == "cosine":
            rise = 1 / max(self.epochs, 2)
        else:
            raise ValueError(f"schedule is {self.schedule!r}: choose one-cycle or cosine.")
        if done < rise:
            return self.learning_rate * (0.04 + 0.96 * done / rise)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * (done - rise) / (1 - rise)))


class DeviceImages:
    """Images on a device, scaled to mean 0 and deviation 1 by the training images' channels."""

    def __init__(self, images: Any, labels: Any, device: torch.device, like: DeviceImages | None = None) -> None:
        x = torch.from_numpy(np.ascontiguousarray(images)).to(device)
        self.labels = torch.from_numpy(np.asarray(labels, np.int64)).to(device)
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        if like is None:
            sample = x[:: max(1, len(x) // 10_000)].float()
            self.mean = sample.mean((0, 2, 3), keepdim=True)
            self.deviation = sample.std((0, 2, 3), keepdim=True).clamp_min(1e-6)
        else:
            self.mean, self.deviation = like.mean, like.deviation
        self.images = torch.empty(x.shape, dtype=self.dtype, device=device, memory_format=torch.channels_last)
        for start in range(0, len(x), 10_000):
            self.images[start : start + 10_000] = (x[start : start + 10_000].float() - self.mean) / self.deviation

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, which: Tensor, flips: bool) -> tuple[Tensor, Tensor]:
        """Return some images (n, c, h, w) and labels, each image mirrored with probability one half if asked."""
        images = self.images[which].contiguous(memory_format=torch.channels_last)
        if flips:
            mirrored = torch.rand(len(which), 1, 1, 1, device=images.device) < 0.5
            images = torch.where(mirrored, images.flip(3), images)
        return images, self.labels[which]


def train_baseline(
    make: Callable[[tuple[int, int, int], int], nn.Module],
    training: DeviceImages,
    others: dict[str, DeviceImages],
    classes: int,
    recipe: Recipe,
    deadline: float | None = None,
    heard: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Train a network and return one record an epoch, of the last run if it had to be begun again.

    Parameters
    ----------
    make : callable
        Builds the network from (channels, height, width) and the number of classes.
    others : dict
        Images whose accuracy is followed, by name; they decide nothing.
    deadline : float, optional
        Of ``time.monotonic()``: no epoch is begun after it.
    heard : callable, optional
        Hears of every epoch; a first epoch means that all before are void.
    """
    records: list[dict[str, Any]] = []
    with _chosen_convolutions():
        for halving in range(HALVINGS + 1):
            tried = replace(recipe, learning_rate=recipe.learning_rate / 2**halving)
            records = _train(make, training, others, classes, tried, deadline, heard)
            if not records or records[-1]["learns"]:
                break
    return records


def epochs_within(
    seconds: float,
    make: Callable[[tuple[int, int, int], int], nn.Module],
    training: DeviceImages,
    classes: int,
    recipe: Recipe,
) -> int:
    """Return how many epochs of training fit into so many seconds, from a few steps that are timed; one at least."""
    device = training.images.device
    with _chosen_convolutions():
        network = make(_shape(training), classes)
        _warm_up(network, training, recipe, device)
        start = _now(device)
        _warm_up(network, training, recipe, device, TIMED_STEPS)
        taken = (_now(device) - start) / TIMED_STEPS
    return max(1, int(seconds / (taken * max(1, len(training) // recipe.batch))))


def _train(
    make: Callable[[tuple[int, int, int], int], nn.Module],
    training: DeviceImages,
    others: dict[str, DeviceImages],
    classes: int,
    recipe: Recipe,
    deadline: float | None,
    heard: Callable[[dict[str, Any]], None] | None,
) -> list[dict[str, Any]]:
    device = training.images.device
    torch.manual_seed(recipe.seed)
    shape = _shape(training)
    _warm_up(make(shape, classes), training, recipe, device)
    torch.manual_seed(recipe.seed)
    network = make(shape, classes).to(device, memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(
        network.parameters(),
        recipe.rate(0),
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=True,
    )
    steps = max(1, len(training) // recipe.batch)
    batch = min(recipe.batch, len(training))
    records: list[dict[str, Any]] = []
    training_seconds = evaluation_seconds = 0.0
    for epoch in range(1, recipe.epochs + 1):
        if deadline is not None and time.monotonic() > deadline:
            break
        start = _now(device)
        network.train()
        order = torch.randperm(len(training), device=device)
        right, losses = torch.zeros((), device=device), torch.zeros(steps, device=device)
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate(((epoch - 1) * steps + step) / (recipe.epochs * steps))
            images, labels = training.batch(order[step * batch : (step + 1) * batch], recipe.flips)
            loss, scores = _step(network, optimiser, images, labels)
            right += (scores.argmax(1) == labels).sum()
            losses[step] = loss
        middle = _now(device)
        accuracies = {f"{name}_accuracy": accuracy(network, images) for name, images in others.items()}
        end = _now(device)
        training_seconds += middle - start
        evaluation_seconds += end - middle
        record = {
            "epoch": epoch,
            "seconds": training_seconds,
            "evaluation_seconds": evaluation_seconds,
            "loss": float(losses.mean()),
            "learning_rate": recipe.learning_rate,
            "learns": _learns(losses, classes, epoch),
            "train_accuracy": float(right) / (steps * batch),
            **accuracies,
        }
        records.append(record)
        if heard:
            heard(record)
        if not record["learns"]:
            break
    return records


def _learns(losses: Tensor, classes: int, epoch: int) -> bool:
    """Return whether the losses of an epoch's steps are numbers, and in the first one below chance or falling."""
    early, late = float(losses[: max(1, len(losses) // 2)].mean()), float(losses[len(losses) // 2 :].mean())
    if not math.isfinite(early + late):
        return False
    return epoch > 1 or len(losses) == 1 or late < math.log(classes) or late < early


def _shape(images: DeviceImages) -> tuple[int, int, int]:
    return images.images.shape[1], images.images.shape[2], images.images.shape[3]


@torch.inference_mode()
def accuracy(network: nn.Module, images: DeviceImages) -> float:
    """Return the share of images whose greatest score is their class."""
    network.eval()
    right = 0
    for start in range(0, len(images), EVALUATION_BATCH):
        part = slice(start, start + EVALUATION_BATCH)
        with _half(images.images.device):
            scores = network(images.images[part])
        right += int((scores.argmax(1) == images.labels[part]).sum())
    return right / len(images)


def _step(
    network: nn.Module, optimiser: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    with _half(images.device):
        scores = network(images)
    loss = F.cross_entropy(scores.float(), labels)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return loss.detach(), scores.detach()


def _warm_up(
    network: nn.Module, training: DeviceImages, recipe: Recipe, device: torch.device, steps: int = WARM_UP_STEPS
) -> None:
    """Take a few steps with a network that is thrown away: libraries load and choose their kernels before the clock."""
    network = network.to(device, memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(network.parameters(), 1e-3, momentum=recipe.momentum, nesterov=True)
    for _ in range(steps if device.type == "cuda" else 1):
        which = torch.randint(len(training), (min(recipe.batch, len(training)),), device=device)
        _step(network, optimiser, *training.batch(which, recipe.flips))


@contextmanager
def _chosen_convolutions() -> Iterator[None]:
    """Let cuDNN try its convolutions and take the fastest, for the neighbour only."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _half(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
