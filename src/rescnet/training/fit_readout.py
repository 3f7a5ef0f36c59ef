"""The kernel readout of a trained network: refused before any work, or fitted and tried on what is held out."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..formatting import show_bytes
from ..network.history import ReadoutRecord
from ..network.inputs import as_images, as_labels
from ..network.network import Network
from ..network.readout import fit_readout, readout_bytes, views_of
from ..stages.augment import Augmentation, change_images
from .distributed.workers import Workers

if TYPE_CHECKING:
    from .trainer import Array, LabelledImages

COPIED_AT_ONCE = 1000  # images, which are turned as floating point numbers


def check_readout(
    config: NetworkConfig,
    image_shape: tuple[int, int, int],
    images: int,
    others: int,
    itemsize: int,
    half: bool,
    device: torch.device,
    budget: int,
    workers: Workers,
) -> None:
    """Refuse, in one sentence, a kernel readout that could not be fitted on so many images in so many bytes."""
    if config.readout != "kernel":
        return
    if workers.count > 1:
        raise ValueError("a kernel readout is fitted by one process: train with one, or choose readout heads.")
    how = others, itemsize, half, device.type
    needed = readout_bytes(config, image_shape, images, *how)
    if needed > budget:
        most = min(images - 1, isqrt(budget // (2 * itemsize)))
        while most > 1 and readout_bytes(config, image_shape, most, *how) > budget:
            most = most * 9 // 10
        copies = "no kernel_copies, " if config.has_kernel_copies else ""
        raise ValueError(
            f"a kernel readout of {images:,} images takes {show_bytes(needed)} and {show_bytes(budget)} may be used: "
            f"give about {most:,} images, {copies}allow more memory, or choose readout heads."
        )


def add_readout(
    network: Network, images: Array, labels: Array, others: Mapping[str, LabelledImages | None]
) -> ReadoutRecord:
    """Fit the readout of a network's layers up to its depth, and tell how often it is right on other images.

    Parameters
    ----------
    images, labels
        What the layers were learnt from.
    others : mapping of str to (images, labels)
        ``validation`` and ``test`` images, where there are any.
    """
    start = perf_counter()
    if network.layers[0].weights.is_cuda:
        torch.cuda.empty_cache()
    checked = as_images(images, network.image_shape)
    given = {name: pair for name, pair in others.items() if pair is not None}
    pictures = [as_images(other, network.image_shape).cpu() for other, _ in given.values()]
    mirrored = Augmentation.parse(network.config.augment).flip
    several = len(views_of(network.config, mirrored)) > 1  # views, which are predicted afterwards
    used = network.first_layers(network.used_layers)
    network.readout, outputs = fit_readout(
        used,
        *_with_copies(network.config, checked, as_labels(labels, checked, network.classes)),
        torch.cat(pictures) if pictures and not several else checked[:0],
    )
    if given and several:
        outputs = network.outputs(torch.cat(pictures))
    answers = torch.split(outputs.argmax(1).cpu(), [len(wanted) for _, wanted in given.values()])
    right = {
        name: float((answer == torch.as_tensor(wanted).cpu()).double().mean())
        for (name, (_, wanted)), answer in zip(given.items(), answers, strict=True)
    }
    seconds = perf_counter() - start
    layers = len(used.layers)
    return ReadoutRecord(right.get("validation"), right.get("test"), network.readout.ridge, seconds, layers)


def _with_copies(config: NetworkConfig, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return images and labels, followed by a changed copy of each if the readout is to learn from them too."""
    if not config.has_kernel_copies:
        return images, labels
    changes = Augmentation.parse(config.kernel_copies).draw(len(images), 1, images.shape[1], config.seed)[:, 1]
    parts = zip(*(torch.split(whole, COPIED_AT_ONCE) for whole in (images, changes)), strict=True)
    return torch.cat([images, *(change_images(some, theirs) for some, theirs in parts)]), labels.repeat(2)
