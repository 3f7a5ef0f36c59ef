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
from typing import Literal

import torch

from ..config.compute import ComputeOptions, Place
from ..config.network import NetworkConfig
from ..network.device import choose_precision
from ..network.memory import (
    AUTO_SHARE,
    LARGEST_WORKSPACE,
    RunSizes,
    TooLittleMemoryError,
    host_memory,
    memory_budget,
    readout_file_bytes,
    readout_rows,
)
from ..numerics.sketch import sketch_size
from ..text import show_bytes
from .data import TrainingData
from .distributed.workers import Workers
from .memory_needs import Machine, MemoryNeeds
from .readout.encoder import decomposition_bytes
from .readout.iterative import check_least_memory

HALF = 2  # bytes: sketches are float16
SKETCH_SHARE = 6  # sketches stay on a GPU, or in float32 on a CPU, if they take at most a sixth of the memory


@dataclass(frozen=True)
class SketchPlan:
    """Place, type and bytes of the sketches that a kernel readout is fitted to."""

    bytes: int = 0  # in the budget
    on_device: bool = False
    in_float32: bool = False
    of_others: bool = False  # of validation and test images too; else these pass the layers again


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
        size, budget = sizes.image_shape[1:], machine.budget
        needs = MemoryNeeds.of(config, sizes, machine)
        ways = _ways(machine.device, machine.processes_here * needs.maps, place)
        ways = [(where, keep) for where, keep in ways if keep or not needs.by_rows]  # its products need all features
        least = min(needs.held(where, needs.by_rows) + needs.per_image(where) for where, _ in ways)
        images = readout_rows(config, sizes.train // config.copies_per_image)
        sketches = _plan_sketches(config, sizes, images, machine, least)
        largest = LARGEST_WORKSPACE[machine.device.type]
        full = max(1, min(largest // needs.image, sizes.train))

        def room(where: Place, keep: bool) -> int:
            return budget - sketches.bytes - needs.held(where, keep)

        def chunk_of(where: Place, keep: bool) -> int:
            return min(full, room(where, keep) // needs.per_image(where))

        where, keep = next((way for way in ways if chunk_of(*way) >= full), max(ways, key=lambda way: chunk_of(*way)))
        chunk = chunk_of(where, keep)
        if chunk < 1:
            what = f"for this network ({show_bytes(needs.sums)} of sums and heads)"
            remedy = "use smaller images, fewer filters or layers"
            raise TooLittleMemoryError(least + sketches.bytes, what, budget, remedy)
        return MemoryPlan(
            features=config.features(size),
            width=needs.width,
            chunk=chunk,
            rows=max(1, min(room(where, keep), largest) // needs.row),
            keep_features=keep,
            by_rows=needs.by_rows,
            maps_place=where,
            maps_bytes=needs.maps,
            gram_bytes=needs.sums,
            features_bytes=needs.features if keep else 0,
            sketches=sketches,
            readout_bytes=readout_file_bytes(config, sizes.image_shape, sizes.classes, machine.processes * images),
            workspace_bytes=chunk * needs.per_image(where) + needs.libraries,
            budget=budget,
        )


def check_size_fits(
    config: NetworkConfig, size: tuple[int, int], compute: ComputeOptions, device: torch.device
) -> None:
    """Raise ValueError if not even two grey images (h, w) fit into memory; called before images are read."""
    half, itemsize = choose_precision(compute, device) != "exact", 8 if compute.dtype == "float64" else 4
    sizes = RunSizes((1, *size), 2, 2, itemsize=itemsize, half=half)
    MemoryPlan.of(config, sizes, Machine(device, memory_budget(compute.memory, device)), compute.maps)


def plan_run(
    config: NetworkConfig, data: TrainingData, compute: ComputeOptions, device: torch.device, workers: Workers
) -> MemoryPlan:
    """Return the plan of one worker. A budget too small for layers and readout is refused by what needs more."""
    half, itemsize = choose_precision(compute, device) != "exact", 8 if compute.dtype == "float64" else 4
    sizes, here = data.sizes(config, itemsize, half, workers.count), workers.on_this_machine
    machine = Machine(device, memory_budget(compute.memory, device, here), here, workers.count)
    whole = memory_budget(compute.memory, device)
    _check_all(
        lambda: MemoryPlan.of(config, sizes, machine, compute.maps),
        lambda: check_readout_fits(config, data, itemsize, whole),
    )
    return MemoryPlan.of(config, sizes, machine, compute.maps)


def check_readout_fits(config: NetworkConfig, data: TrainingData, itemsize: int, budget: int) -> None:
    """Raise TooLittleMemoryError if a kernel readout cannot be fitted; the budget is that of the whole device."""
    if config.has_kernel:
        images = readout_rows(config, len(data.images))
        _check_all(
            lambda: check_least_memory(config, images, 2 * data.classes, itemsize, budget),
            lambda: _check_components(config, images, data.image_shape[1:], budget),
        )


def _check_components(config: NetworkConfig, images: int, size: tuple[int, int], budget: int) -> None:
    """Raise TooLittleMemoryError if the components of a readout, one per image (h, w), cannot be computed."""
    numbers = config.layers * sketch_size(config, size)
    needed = decomposition_bytes(images, numbers)
    if images <= min(config.readout_size, numbers) and needed > budget:
        what = f"for {images:,} components of a readout, one per image"
        raise TooLittleMemoryError(needed, what, budget, "use a smaller readout_size")


def _check_all(*checks: Callable[[], object]) -> None:
    """Run all checks, and raise the error of the one that needs most memory."""
    errors = []
    for check in checks:
        try:
            check()
        except TooLittleMemoryError as error:
            errors.append(error)
    if errors:
        raise max(errors, key=lambda error: error.needed)


def _plan_sketches(config: NetworkConfig, sizes: RunSizes, rows: int, machine: Machine, least: int) -> SketchPlan:
    """Plan the sketches of the readout's rows, and of validation and test images where these are seen once.

    ``least`` are the bytes of the smallest plan without them.
    """
    if not config.has_kernel:
        return SketchPlan()
    one, share = config.layers * sketch_size(config, sizes.image_shape[1:]) * HALF, machine.budget // SKETCH_SHARE
    others = 0 if config.mirrors_kernel or len(config.views) > 1 else sizes.other
    if machine.device.type == "cuda":
        needed = (rows + others) * one
        fits = needed <= share  # else they are on the host
        return SketchPlan(needed if fits else 0, fits, of_others=others > 0)
    of_others = others > 0 and (rows + others) * one <= share
    needed = (rows + others * of_others) * one
    in_float32 = 2 * needed <= min(share, machine.budget - least)
    return SketchPlan(2 * needed if in_float32 else needed, True, in_float32, of_others)


def _ways(device: torch.device, maps_bytes: int, place: Literal["auto"] | Place) -> list[tuple[Place, bool]]:
    """Return the places of the maps, and whether features are kept, best first."""
    if place != "auto":
        return [(place, True), (place, False)]
    if device.type == "cpu":
        return [("device", True), ("device", False), ("file", True), ("file", False)]
    # Pinned memory is handed out in powers of two.
    outside: Place = "host" if 2 * maps_bytes <= AUTO_SHARE * host_memory() else "file"
    return [("device", True), (outside, True), ("device", False), (outside, False)]
