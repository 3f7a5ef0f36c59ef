"""Fitting of a kernel readout after all layers, and its accuracy on other images."""

from __future__ import annotations

from time import perf_counter

import torch
from torch import Tensor

from ..config.grammars import Augmentation
from ..config.network import NetworkConfig
from ..network.history import ReadoutRecord
from ..network.network import Network
from ..network.readout import fit_kernel, views_of
from ..stages.augment import change_images, draw_changes
from .data import TrainingData

COPIED_AT_ONCE = 1000  # images that are changed together, as floating point numbers


def fit_readout(network: Network, data: TrainingData) -> ReadoutRecord:
    """Fit the readout of a network's layers up to its depth, on the images that the layers were learned from."""
    start = perf_counter()
    if network.layers[0].weights.is_cuda:
        torch.cuda.empty_cache()
    pictures = [images.cpu() for images, _ in data.others.values()]
    mirrored = Augmentation.parse(network.config.augment).flip
    several = len(views_of(network.config, mirrored)) > 1  # views are predicted afterwards
    used = network.first_layers(network.used_layers)
    network.readout, outputs = fit_kernel(
        used.stack,
        *_with_copies(network.config, data.images, data.labels),
        torch.cat(pictures) if pictures and not several else data.images[:0],
    )
    if pictures and several:
        outputs = network.outputs(torch.cat(pictures))
    answers = torch.split(outputs.argmax(1).cpu(), [len(labels) for _, labels in data.others.values()])
    right = {
        name: float((answer == labels.cpu()).double().mean())
        for (name, (_, labels)), answer in zip(data.others.items(), answers, strict=True)
    }
    seconds = perf_counter() - start
    layers = len(used.layers)
    return ReadoutRecord(right.get("validation"), right.get("test"), network.readout.ridge, seconds, layers)


def _with_copies(config: NetworkConfig, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return images and labels, followed by a changed copy of each if the readout also learns from copies."""
    if not config.has_kernel_copies:
        return images, labels
    augmentation = Augmentation.parse(config.kernel_copies)
    changes = draw_changes(augmentation, len(images), 1, images.shape[1], config.seed)[:, 1]
    parts = zip(*(torch.split(whole, COPIED_AT_ONCE) for whole in (images, changes)), strict=True)
    return torch.cat([images, *(change_images(some, theirs) for some, theirs in parts)]), labels.repeat(2)
