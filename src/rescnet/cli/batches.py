"""Images through a network, a batch at a time, with a bar while it takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from torch import Tensor

from ..network.network import Network
from ..progress import Bar

BATCH = 500  # images from one move of the bar to the next


def batch_of(network: Network) -> int:
    """Return how many images are predicted at a time: many where a readout compares each with all it was fitted on."""
    return BATCH if network.readout is None else network.batch


def batches(total: int, size: int = BATCH) -> Iterator[slice]:
    """Yield the parts of so many images."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def stream_outputs(network: Network, images: NDArray[Any], console: Console) -> Tensor:
    """Return Ỹ of images (n, channels, height, width) on the CPU, shape (n, classes)."""
    parts = (images[part] for part in batches(len(images), batch_of(network)))
    return torch.cat(list(outputs_of(network, parts, len(images), console)))


def outputs_of(network: Network, parts: Iterable[NDArray[Any]], total: int, console: Console) -> Iterator[Tensor]:
    """Yield Ỹ of each batch of images on the CPU, shape (batch, classes); a bar shows how far it is."""
    if network.readout is not None:
        known = f"{len(network.readout.images):,} images it was fitted to"
        console.print(f"the kernel readout lets the {known} through the layers first", style="dim", soft_wrap=True)
    columns = (TextColumn("  images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(console, *columns) as bar:
        task = bar.add_task("images", total=total)
        for part in parts:
            yield network.outputs(part).cpu()
            bar.advance(task, len(part))
