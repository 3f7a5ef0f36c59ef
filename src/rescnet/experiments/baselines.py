"""Stock baselines: SVC and random forest on pixels, HOG with a linear SVM, a small CNN, and ResNet-18."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import cos, log, pi
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ..config.option import Options, group
from ..family.svm import DenseFeatures, newton_svm
from ..network.inputs import as_images

Predict = Callable[[NDArray[Any]], Tensor]
"""Maps images (n, channels, height, width) to classes (n,)."""

Baseline = Literal["svc", "forest", "hog-svm", "cnn", "resnet18"]
MOST_FOR_SVC = 20_000  # images: the time of SVC grows with their square
SVC_COST, TREES, ORIENTATIONS = 10.0, 300, 9
HOG_COST = 0.01  # C of the SVM, chosen on held-out training images of CIFAR-10 and MNIST
EPOCHS = {500: 200, 5_000: 80, 10_000: 30}  # by number of training images, interpolated
LARGEST_BATCH, SMALLEST_BATCH = 128, 16
RATES = {"cnn": 2e-3, "resnet18": 0.1}  # peak learning rate; of SGD at the largest batch
RISE = 0.25  # share of the training in which the learning rate rises
WEIGHT_DECAY, LABEL_SMOOTHING = 5e-4, 0.1

_baseline = group("Baseline", "run")


@dataclass(frozen=True, kw_only=True)
class BaselineConfig(Options):
    """Options of a baseline; all but the name and the seed are for networks."""

    name: Baseline = _baseline("svc", "Name of the baseline.")
    seconds: float = _baseline(0.0, "Train for n seconds. 0 trains for a number of epochs.", 0)
    epochs: int = _baseline(0, "Epochs. 0 chooses 30 for 10,000 images or more, and up to 200 for fewer.", 0)
    flips: bool = _baseline(False, "Mirror images at random.")
    seed: int = _baseline(0, "Random seed.", 0)

    @property
    def is_network(self) -> bool:
        """True for a network trained by gradients."""
        return self.name in RATES

    def epochs_for(self, images: int) -> int:
        """Return the number of epochs for n training images.

        Examples
        --------
        >>> [BaselineConfig(name="resnet18").epochs_for(images) for images in (100, 500, 1_500, 5_000, 50_000)]
        [200, 200, 143, 80, 30]
        """
        known = [log(number) for number in EPOCHS]
        return self.epochs or round(float(np.interp(log(images), known, list(EPOCHS.values()))))

    def describe(self, images: int) -> str:
        """Return the settings for n training images in words."""
        if not self.is_network:
            return {
                "svc": f"RBF kernel on scaled pixels, C {SVC_COST:g}",
                "forest": f"{TREES} trees on pixels",
                "hog-svm": f"linear SVM, C {HOG_COST:g}",
            }[self.name]
        length = f"{self.seconds:.1f} s" if self.seconds else f"{self.epochs_for(images)} epochs"
        return (
            f"{'Adam' if self.name == 'cnn' else 'SGD'}, {length}, shifts{' and flips' if self.flips else ', no flips'}"
        )


def fit_baseline(
    config: BaselineConfig, images: NDArray[Any], labels: NDArray[Any], device: torch.device
) -> tuple[Predict, int]:
    """Fit a baseline to images (n, channels, height, width) and classes (n,); return also its bytes."""
    if config.is_network:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(config.seed)
            network = train_by_gradient(config, images, labels, device)
        return partial(_predict, network, device), sum(tensor.nbytes for tensor in network.state_dict().values())
    if config.name == "hog-svm":
        present, numbered = np.unique(labels, return_inverse=True)
        features, targets = hog(images, device), torch.from_numpy(numbered).to(device)
        head = newton_svm(DenseFeatures(features), features.shape[1], targets, len(present), HOG_COST, 0.001)
        classes = torch.from_numpy(present)
        size = head.weights.nbytes + head.bias.nbytes
        return lambda new: classes[(hog(new, device) @ head.weights + head.bias).argmax(1).cpu()], size
    if config.name == "svc" and len(images) > MOST_FOR_SVC:
        raise ValueError(f"svc must have at most {MOST_FOR_SVC:,} training images, got {len(images):,}. Use --limit.")
    model: Any
    if config.name == "forest":
        from sklearn.ensemble import RandomForestClassifier

        model = RandomForestClassifier(TREES, n_jobs=-1, random_state=config.seed)
    else:
        from sklearn.svm import SVC

        model = SVC(C=SVC_COST, cache_size=1000)  # its γ divides by the variance of the pixels
    model.fit(_pixels(images), labels)
    return lambda new: torch.from_numpy(model.predict(_pixels(new))), len(pickle.dumps(model))


def _pixels(images: NDArray[Any]) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255 if images.dtype == np.uint8 else 1)


def hog(images: NDArray[Any], device: torch.device, chunk: int = 1000) -> Tensor:
    """Return histograms of oriented gradients (Dalal and Triggs 2005) of images (n, c, h, w), shape (n, D).

    Cells have an eighth of the shorter side, and nine orientations without sign. Blocks of 2×2 cells overlap.
    """
    side = min(images.shape[2:])
    cell = max(2, side // 8)
    parts = []
    for start in range(0, len(images), chunk):
        x = F.pad(as_images(images[start : start + chunk]).to(device).float(), (1, 1, 1, 1), mode="replicate")
        right, down = x[:, :, 1:-1, 2:] - x[:, :, 1:-1, :-2], x[:, :, 2:, 1:-1] - x[:, :, :-2, 1:-1]
        strongest = (right**2 + down**2).argmax(1, keepdim=True)  # channel
        right, down = right.gather(1, strongest), down.gather(1, strongest)
        strength = (right**2 + down**2).sqrt()
        angle = torch.atan2(down, right) / pi % 1 * ORIENTATIONS
        lower = angle.floor()
        votes = torch.zeros(len(x), ORIENTATIONS, *strength.shape[2:], device=device)
        for bins, share in ((lower, 1 - angle + lower), (lower + 1, angle - lower)):
            votes.scatter_add_(1, bins.long() % ORIENTATIONS, strength * share)
        blocks = F.unfold(F.avg_pool2d(votes, cell), 2)  # (n, 4·orientations, blocks)
        clipped = F.normalize(blocks, dim=1).clamp_max(0.2)
        parts.append(F.normalize(clipped, dim=1).flatten(1))
    return torch.cat(parts)


class Standardise(nn.Module):
    """Channels less their mean in the training images, divided by their standard deviation."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        sample = images[:: max(1, len(images) // 10_000)].float()
        self.register_buffer("mean", sample.mean((0, 2, 3), keepdim=True))
        self.register_buffer("deviation", sample.std((0, 2, 3), keepdim=True).clamp_min(1e-6))

    def forward(self, images: Tensor) -> Tensor:
        """Return standardised images of the same shape."""
        return (images.float() - self.mean) / self.deviation


def _convolution(before: int, after: int, stride: int = 1, side: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, side, stride, side // 2, bias=False), nn.BatchNorm2d(after))


def small_cnn(image_shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return a CNN of five 3×3 convolutions, 32 to 128 channels."""
    layers: list[nn.Module] = []
    for before, after in ((image_shape[0], 32), (32, 32), (0, 0), (32, 64), (64, 64), (0, 0), (64, 128)):
        layers += [_convolution(before, after), nn.ReLU(inplace=True)] if after else [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, classes))


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(before, after, stride), _convolution(after, after)
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else _convolution(before, after, stride, side=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


def resnet18(image_shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return ResNet-18 (He et al. 2016) for small images: a first convolution of 3×3 at stride 1, no max-pooling."""
    layers: list[nn.Module] = [_convolution(image_shape[0], 64), nn.ReLU(inplace=True)]
    for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(before, after, stride), Block(after, after, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def train_by_gradient(
    config: BaselineConfig, images: NDArray[Any], labels: NDArray[Any], device: torch.device
) -> nn.Module:
    """Train a network on images (n, channels, height, width) and classes (n,).

    The learning rate rises and falls once (one-cycle). Each image of a batch is shifted by up to an eighth of its side,
    4 pixels of 32, and mirrored with probability one half if ``config.flips``.
    """
    pixels, targets = as_images(images).to(device), torch.from_numpy(labels).to(device)
    make = small_cnn if config.name == "cnn" else resnet18
    shape, classes = (images.shape[1], images.shape[2], images.shape[3]), int(labels.max()) + 1
    network: nn.Module = nn.Sequential(Standardise(pixels), make(shape, classes))
    network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = min(len(images), max(SMALLEST_BATCH, min(LARGEST_BATCH, len(images) // SMALLEST_BATCH)))
    peak, optimiser = RATES[config.name], torch.optim.Adam(network.parameters())
    if config.name == "resnet18":
        peak *= batch / LARGEST_BATCH
        weights = network.parameters()
        optimiser = torch.optim.SGD(weights, peak, 0.9, weight_decay=WEIGHT_DECAY, nesterov=True)  # type: ignore[assignment]
    steps, start, step = len(images) // batch, perf_counter(), 0
    total = config.epochs_for(len(images)) * steps
    order = torch.empty(0, dtype=torch.int64)
    while (done := (perf_counter() - start) / config.seconds if config.seconds else step / total) < 1 or not step:
        if step % steps == 0:
            order = torch.randperm(len(images)).to(device)
        which = order[step % steps * batch :][:batch]
        for settings in optimiser.param_groups:
            settings["lr"] = peak * one_cycle(done)
        with _half_precision(device):
            scores = network(shifted(pixels[which], max(1, min(shape[1:]) // 8), config.flips))
        loss = F.cross_entropy(scores.float(), targets[which], label_smoothing=LABEL_SMOOTHING)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        step += 1
        if config.seconds and device.type == "cuda":
            torch.cuda.synchronize(device)  # otherwise the clock is ahead of the work
    return network.eval()


def one_cycle(done: float) -> float:
    """Return the learning rate, as a fraction of its peak, when a share ``done`` of the training is over.

    Examples
    --------
    >>> [round(one_cycle(done), 2) for done in (0, 0.25, 0.625, 1)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if done < RISE:
        return 0.04 + 0.96 * done / RISE
    return 0.5 + 0.5 * cos(pi * min(1.0, (done - RISE) / (1 - RISE)))


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
    return moved.permute(0, 3, 1, 2)  # channels last in memory


@torch.inference_mode()
def _predict(network: nn.Module, device: torch.device, images: NDArray[Any], batch: int = 1000) -> Tensor:
    parts = []
    for start in range(0, len(images), batch):
        with _half_precision(device):
            parts.append(network(as_images(images[start : start + batch]).to(device)).argmax(1).cpu())
    return torch.cat(parts)


def _half_precision(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
