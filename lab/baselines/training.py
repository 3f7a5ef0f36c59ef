"""Training of networks by gradients: a one-cycle schedule, bfloat16, all images on the device, shifts and flips.

Seconds of training and of evaluation are separate, synchronised with the device. A run whose loss is not finite, or
does not fall in a long first epoch, restarts with half the learning rate.
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
JUDGED_STEPS = 50  # of the first epoch, at least: a learning rate that still rises teaches little
EPOCHS = {500: 200, 5_000: 80, 10_000: 30}  # by number of training images, interpolated
LARGEST_BATCH, SMALLEST_BATCH = 128, 16


@dataclass(frozen=True)
class Recipe:
    """Settings of a training.

    Attributes
    ----------
    epochs, batch : int
    learning_rate : float
        The peak; the rate rises to it over the share ``rise`` of the run, and falls to 0 like a cosine (one-cycle).
    adam : bool
        Adam instead of SGD with Nesterov momentum.
    shift : bool
        Move each image of a batch at random by up to an eighth of its shorter side.
    flips : bool
        Mirror each image of a batch with probability one half.
    """

    epochs: int = 30
    batch: int = 512
    learning_rate: float = 0.2
    weight_decay: float = 5e-4
    rise: float = 0.3
    adam: bool = False
    label_smoothing: float = 0.0
    shift: bool = False
    flips: bool = False
    seed: int = 0

    @classmethod
    def for_images(cls, images: int, **changes: Any) -> Recipe:
        """Return the recipe for n training images, which also suits few: many epochs of small, shifted batches.

        Examples
        --------
        >>> [Recipe.for_images(images).epochs for images in (100, 500, 1_500, 5_000, 50_000)]
        [200, 200, 143, 80, 30]
        """
        batch = min(images, max(SMALLEST_BATCH, min(LARGEST_BATCH, images // SMALLEST_BATCH)))
        known = [math.log(number) for number in EPOCHS]
        epochs = round(float(np.interp(math.log(images), known, list(EPOCHS.values()))))
        recipe = cls(epochs, batch, 0.1 * batch / LARGEST_BATCH, rise=0.25, label_smoothing=0.1, shift=True)
        return replace(recipe, **changes)

    def rate(self, done: float) -> float:
        """Return the learning rate when a share ``done`` of the run is over."""
        if done < self.rise:
            return self.learning_rate * (0.04 + 0.96 * done / self.rise)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * (done - self.rise) / (1 - self.rise)))

    def optimiser(self, network: nn.Module) -> torch.optim.Optimizer:
        """Return the optimiser of a network's weights."""
        if self.adam:
            return torch.optim.Adam(network.parameters())
        weights = network.parameters()
        return torch.optim.SGD(weights, self.rate(0), 0.9, weight_decay=self.weight_decay, nesterov=True)


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

    def batch(self, which: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
        """Return some images (n, c, h, w), shifted and mirrored as the recipe says, and labels."""
        images = self.images[which]
        if recipe.shift or recipe.flips:
            reach = max(1, min(images.shape[2:]) // 8) if recipe.shift else 0
            images = shifted(images, reach, recipe.flips)
        return images.contiguous(memory_format=torch.channels_last), self.labels[which]


def shifted(images: Tensor, reach: int, flips: bool) -> Tensor:
    """Return each image (n, c, h, w) moved at random by up to ``reach`` pixels, zeros at the border, and mirrored."""
    count, _, height, width = images.shape
    device = images.device
    padded = F.pad(images, (reach,) * 4)
    down, right = torch.randint(2 * reach + 1, (2, count, 1), device=device)
    rows, columns = down + torch.arange(height, device=device), right + torch.arange(width, device=device)
    if flips:
        columns = torch.where(torch.rand(count, 1, device=device) < 0.5, columns.flip(1), columns)
    moved = padded[torch.arange(count, device=device)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)


def train_baseline(
    make: Callable[[tuple[int, int, int], int], nn.Module],
    training: DeviceImages,
    others: dict[str, DeviceImages],
    classes: int,
    recipe: Recipe,
    deadline: float | None = None,
    heard: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[nn.Module, list[dict[str, Any]]]:
    """Train a network; return it with one record per epoch, of the last run if it restarted.

    Parameters
    ----------
    make : callable
        Builds the network from (channels, height, width) and the number of classes.
    others : dict
        Images whose accuracy is followed, by name; they decide nothing.
    deadline : float, optional
        Of ``time.monotonic()``: no epoch is begun after it.
    heard : callable, optional
        Receives the record of every epoch; a first epoch means that all before are void.
    """
    with _chosen_convolutions():
        for halving in range(HALVINGS + 1):
            tried = replace(recipe, learning_rate=recipe.learning_rate / 2**halving)
            network, records = _train(make, training, others, classes, tried, deadline, heard)
            if not records or records[-1]["learns"]:
                break
    return network, records


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
) -> tuple[nn.Module, list[dict[str, Any]]]:
    device = training.images.device
    torch.manual_seed(recipe.seed)
    shape = _shape(training)
    _warm_up(make(shape, classes), training, recipe, device)
    torch.manual_seed(recipe.seed)
    network = make(shape, classes).to(device, memory_format=torch.channels_last)
    optimiser = recipe.optimiser(network)
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
            images, labels = training.batch(order[step * batch : (step + 1) * batch], recipe)
            loss, scores = _step(network, optimiser, images, labels, recipe.label_smoothing)
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
    return network, records


def _learns(losses: Tensor, classes: int, epoch: int) -> bool:
    """Return whether the losses of an epoch's steps are numbers, and in a long first one below chance or falling."""
    early, late = float(losses[: max(1, len(losses) // 2)].mean()), float(losses[len(losses) // 2 :].mean())
    if not math.isfinite(early + late):
        return False
    return epoch > 1 or len(losses) < JUDGED_STEPS or late < math.log(classes) or late < early


def _shape(images: DeviceImages) -> tuple[int, int, int]:
    return images.images.shape[1], images.images.shape[2], images.images.shape[3]


@torch.inference_mode()
def predict(network: nn.Module, images: DeviceImages) -> Tensor:
    """Return the class of each image, shape (n,)."""
    network.eval()
    parts = []
    for part in images.images.split(EVALUATION_BATCH):
        with _half(images.images.device):
            parts.append(network(part).argmax(1))
    return torch.cat(parts)


def accuracy(network: nn.Module, images: DeviceImages) -> float:
    """Return the share of images whose greatest score is their class."""
    return float((predict(network, images) == images.labels).double().mean())


def _step(
    network: nn.Module, optimiser: torch.optim.Optimizer, images: Tensor, labels: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    with _half(images.device):
        scores = network(images)
    loss = F.cross_entropy(scores.float(), labels, label_smoothing=smoothing)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return loss.detach(), scores.detach()


def _warm_up(
    network: nn.Module, training: DeviceImages, recipe: Recipe, device: torch.device, steps: int = WARM_UP_STEPS
) -> None:
    """Take a few steps with a network that is thrown away: libraries load and choose their kernels before the clock."""
    network = network.to(device, memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, nesterov=True)
    for _ in range(steps if device.type == "cuda" else 1):
        which = torch.randint(len(training), (min(recipe.batch, len(training)),), device=device)
        _step(network, optimiser, *training.batch(which, recipe))


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
