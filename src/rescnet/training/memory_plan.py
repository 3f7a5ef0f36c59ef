"""Memory plan of a run: chunk sizes from a byte budget.

A layer holds the Gram matrix with its scatter and factor, or, for few images, their features with their products and a
factor of these; the heads; and the outputs of all images. If they fit, it also holds the features of all training
images and the maps of all images, which are the next layer's input. Maps that do not fit are streamed from the host or
from a file (``stores``). The block grid is never held as a whole. The rest of the budget is workspace, and the
workspace of one image decides how many images a chunk has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple, TypeVar

import torch

from ..base.errors import TooLittleMemoryError
from ..base.text import show_bytes
from ..config.compute import ComputeOptions, Place
from ..config.network import NetworkConfig
from ..fused import patch_sums_bytes
from ..fused.half_precision import padded_channels
from ..network.device import choose_precision
from ..network.memory import (
    AUTO_SHARE,
    LARGEST_WORKSPACE,
    LIBRARIES,
    RunSizes,
    banks_of_layers,
    host_memory,
    memory_budget,
    readout_file_bytes,
    readout_rows,
    too_little,
    workspace_per_image,
)
from ..numerics.linear_algebra import padded_size
from ..stages.discriminant import MATRICES
from ..stages.filters.bank import sums_bytes
from ..stages.moments import Moments, RowMoments, row_bytes, solves_by_rows
from .data import TrainingData
from .heads import TARGET_COPIES
from .readout.encoder import check_components
from .readout.iterative import check_least_memory
from .readout.sketches import SketchPlan
from .stores.host import CHUNKS_ON_DEVICE
from .workers import Workers

LABEL = 8  # bytes
T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """The machine that one process runs on."""

    device: torch.device
    budget: int  # bytes that the process may use
    processes_here: int = 1  # that share the host's memory
    processes: int = 1  # of the run


class Way(NamedTuple):
    """One way to hold maps and features."""

    place: Place  # of the maps
    keep: bool  # features
    held: int  # bytes in use throughout
    image: int  # bytes per image of a chunk


@dataclass(frozen=True)
class MemoryPlan:
    """Use of memory by a training run."""

    features: int  # D, per image and layer
    width: int  # D, padded for tensor cores if features are in half precision
    chunk: int  # images that pass through a layer at a time
    rows: int  # kept features that are summed at a time
    keep_features: bool  # between the two passes over the training images; else they are computed twice
    by_rows: bool  # heads are solved from products of images with each other, there being fewer of them than features
    maps_place: Place  # of all images' maps between layers
    maps_bytes: int
    gram_bytes: int  # all sums, heads and outputs
    features_bytes: int
    sketches: SketchPlan  # for a kernel readout
    readout_bytes: int  # of its file
    workspace_bytes: int
    budget: int

    @property
    def total_bytes(self) -> int:
        """Expected use of the budget, without the images themselves."""
        held_maps = self.maps_bytes if self.maps_place == "device" else 0
        return held_maps + self.gram_bytes + self.features_bytes + self.sketches.bytes + self.workspace_bytes

    @staticmethod
    def of(
        config: NetworkConfig, sizes: RunSizes, machine: Machine, place: Literal["auto"] | Place = "auto"
    ) -> MemoryPlan:
        """Fit a run into the budget.

        Of the ways to hold maps and features, the first one is taken that leaves room for chunks of full size: smaller
        chunks are slower, and add up in another order. A GPU keeps features rather than maps, since maps can be copied
        while it computes. A CPU keeps maps, since a file is slower than memory.

        ValueError says how much is needed if the budget is too small.
        """
        size, budget, device = sizes.image_shape[1:], machine.budget, machine.device.type
        features = config.features(size)
        width = padded_size(features) if sizes.half else features
        by_rows = machine.processes == 1 and solves_by_rows(sizes.train, features, sizes.half)
        filters = padded_channels(config.filters) if sizes.half else config.filters
        one_map = filters * prod(size) * sizes.stored
        maps, kept = (sizes.train + sizes.other) * one_map, sizes.train * width * sizes.stored
        sums = _sums_bytes(config, sizes, width, RowMoments if by_rows else Moments, device)
        row = row_bytes(width, sizes.stored, single=sizes.half and device == "cpu")
        row += TARGET_COPIES * sizes.classes * sizes.itemsize
        image = max(workspace_per_image(config, sizes, device), row)
        streamed = CHUNKS_ON_DEVICE * one_map + 2 * prod(sizes.image_shape) * sizes.itemsize  # images: two chunks
        ways = []
        for where, keep in _places(machine, maps, place):
            if keep or not by_rows:  # its products need all features
                here = where == "device" or (where == "host" and device == "cpu")
                held = sums + LIBRARIES[device] + (maps if here else 0) + (kept if keep else 0)
                ways.append(Way(where, keep, held, image + (0 if where == "device" else streamed)))
        least = min(way.held + way.image for way in ways)
        images = readout_rows(config, sizes.train // config.copies_per_image)
        sketches = SketchPlan.of(config, sizes, images, machine.device, budget, least)
        largest, room = LARGEST_WORKSPACE[device], budget - sketches.bytes
        full = max(1, min(largest // image, sizes.train))

        def chunk_of(way: Way) -> int:
            return min(full, (room - way.held) // way.image)

        best = next((way for way in ways if chunk_of(way) >= full), max(ways, key=chunk_of))
        chunk = chunk_of(best)
        if chunk < 1:
            what = f"for this network ({show_bytes(sums)} of sums and heads)"
            remedy = "use smaller images, fewer filters or layers"
            raise too_little(least + sketches.bytes, what, budget, remedy)
        return MemoryPlan(
            features=features,
            width=width,
            chunk=chunk,
            rows=max(1, min(room - best.held, largest) // row),
            keep_features=best.keep,
            by_rows=by_rows,
            maps_place=best.place,
            maps_bytes=maps,
            gram_bytes=sums,
            features_bytes=kept if best.keep else 0,
            sketches=sketches,
            readout_bytes=readout_file_bytes(config, sizes.image_shape, sizes.classes, machine.processes * images),
            workspace_bytes=chunk * best.image + LIBRARIES[device],
            budget=budget,
        )


def filter_sums_bytes(config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, device: str) -> int:
    """Return the bytes of the sums over patches, for the layer that takes most."""
    channels, size = image_shape[0], image_shape[1:]
    return max(
        sums_bytes(bank, classes, depth, size, k) + (patch_sums_bytes(depth, size, k) if device == "cuda" else 0)
        for bank, depth, k in banks_of_layers(config, channels)
    )


def _sums_bytes(config: NetworkConfig, sizes: RunSizes, width: int, moments: type[Moments], device: str) -> int:
    """Return the bytes of the sums over patches or features, of the heads, and of all outputs and labels."""
    kernels = device if sizes.half else "cpu"
    patches = filter_sums_bytes(config, sizes.image_shape, sizes.classes, kernels)
    sums = max(moments.pair_bytes(sizes.train, width, sizes.itemsize), patches)
    heads = (config.layers + MATRICES) * config.features(sizes.image_shape[1:]) * 2 * sizes.classes * sizes.itemsize
    outputs = (sizes.train + sizes.other) * (sizes.classes * sizes.itemsize + LABEL)
    return sums + heads + outputs + sizes.train * 2 * LABEL  # new label and sign


def check_size_fits(
    config: NetworkConfig, size: tuple[int, int], compute: ComputeOptions, device: torch.device
) -> None:
    """Raise ValueError if not even two grey images (h, w) fit into memory; called before images are read."""
    sizes = RunSizes((1, *size), 2, 2, 0, *_itemsize_and_half(compute, device))
    MemoryPlan.of(config, sizes, Machine(device, memory_budget(compute.max_memory, device)), compute.maps)


def plan_run(
    config: NetworkConfig, data: TrainingData, compute: ComputeOptions, device: torch.device, workers: Workers
) -> MemoryPlan:
    """Return the plan of one worker, or raise an error if the network cannot be built on the images.

    A budget too small for layers and readout is refused by what needs more.
    """
    config.check_images(data.image_shape[0], data.image_shape[1:])
    itemsize, half = _itemsize_and_half(compute, device)
    sizes, here = data.sizes(config, itemsize, half, workers.count), workers.on_this_machine
    machine = Machine(device, memory_budget(compute.max_memory, device, here), here, workers.count)
    whole = memory_budget(compute.max_memory, device)
    plan, _ = _check_all(
        lambda: MemoryPlan.of(config, sizes, machine, compute.maps),
        lambda: check_readout_fits(config, data, itemsize, whole),
    )
    assert plan is not None
    return plan


def _itemsize_and_half(compute: ComputeOptions, device: torch.device) -> tuple[int, bool]:
    """Return the bytes of the floating type, and whether maps and features are stored in half precision."""
    return 8 if compute.dtype == "float64" else 4, choose_precision(compute, device) != "exact"


def check_readout_fits(config: NetworkConfig, data: TrainingData, itemsize: int, budget: int) -> None:
    """Raise TooLittleMemoryError if a kernel readout cannot be fitted; the budget is that of the whole device."""
    if config.has_kernel:
        images = readout_rows(config, len(data.images))
        _check_all(
            lambda: check_least_memory(config, images, 2 * data.classes, itemsize, budget),
            lambda: check_components(config, images, data.image_shape[1:], budget),
        )


def _check_all(*checks: Callable[[], T]) -> list[T]:
    """Run all checks and return their results; raise the error of the one that needs most memory."""
    errors, results = [], []
    for check in checks:
        try:
            results.append(check())
        except TooLittleMemoryError as error:
            errors.append(error)
    if errors:
        raise max(errors, key=lambda error: error.needed)
    return results


def _places(machine: Machine, maps_bytes: int, place: Literal["auto"] | Place) -> list[tuple[Place, bool]]:
    """Return the places of the maps, and whether features are kept, best first."""
    if place != "auto":
        return [(place, True), (place, False)]
    if machine.device.type == "cpu":
        return [("device", True), ("device", False), ("file", True), ("file", False)]
    # Pinned memory is handed out in powers of two.
    fits = 2 * machine.processes_here * maps_bytes <= AUTO_SHARE * host_memory()
    outside: Place = "host" if fits else "file"
    return [("device", True), (outside, True), ("device", False), (outside, False)]
