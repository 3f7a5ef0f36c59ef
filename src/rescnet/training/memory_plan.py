"""Memory plan of a run: chunk sizes from a byte budget.

A layer holds the Gram matrix with its scatter and factor, or, for few images, their features with their products and a
factor of these; the heads; and the outputs of all images. If they fit, it also holds the features of all training
images and the maps of all images, which are the next layer's input. Maps that do not fit are streamed from the host or
from a file (``stores``). The block grid is never held as a whole. The rest of the budget is workspace, and the
workspace of one image decides how many images a chunk has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch

from ..config.compute import ComputeOptions, Place
from ..config.network import NetworkConfig
from ..config.option import OptionError
from ..formatting import show_bytes
from ..kernels import has_patch_sum_kernel, zone_sums_bytes
from ..kernels.half_precision import padded_channels
from ..network.device import choose_precision
from ..network.memory import (
    AUTO_SHARE,
    LARGEST_WORKSPACE,
    RunSizes,
    TooLittleMemoryError,
    class_sums_of,
    exact_readout_bytes,
    host_memory,
    memory_budget,
    readout_file_bytes,
    readout_rows,
    workspace_per_image,
)
from ..stages.linear_algebra import padded_size
from ..stages.moments import BLOCK_BYTES, FEW, FEW_IN_HALF
from ..stages.sketch import sketch_size
from .data import TrainingData
from .distributed.workers import Workers
from .readout.encoder import decomposition_bytes
from .readout.iterative import check_least_memory
from .stores.host import WRITES_UNDER_WAY

DOUBLE, HALF = 8, 2  # bytes: sums over patches are float64, sketches float16
SKETCH_SHARE = 6  # sketches stay on a GPU, or in float32 on a CPU, if they take at most a sixth of its memory
PATCH_SUM_COPIES = 4  # of Σ p pᵀ: the sum, the one it is added to, the covariance, and its eigenvectors
LIBRARIES = {"cpu": 48 * 2**20, "cuda": 512 * 2**20}  # BLAS, the convolution and the allocator
STAGED_CHUNKS = 2 + WRITES_UNDER_WAY + 1  # streamed maps: in use, being fetched, being written, being reordered
TARGET_COPIES = 7  # of a row of targets: one-hot classes, residuals, both signs' targets, and intermediate results


@dataclass(frozen=True)
class Machine:
    """The machine that one process runs on."""

    device: torch.device
    budget: int  # bytes that the process may use
    processes_here: int = 1  # that share the host's memory
    processes: int = 1  # of the run


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
    sketch_bytes: int  # of all training images, for a kernel readout
    readout_bytes: int  # of its file
    workspace_bytes: int
    budget: int

    @property
    def total_bytes(self) -> int:
        """Expected use of the budget, without the images themselves."""
        held_maps = self.maps_bytes if self.maps_place == "device" else 0
        return held_maps + self.gram_bytes + self.features_bytes + self.sketch_bytes + self.workspace_bytes

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
        device, budget = machine.device, machine.budget
        channels, h, w = sizes.image_shape
        features = config.features((h, w))
        width = padded_size(features) if sizes.half else features
        fused = sizes.half and device.type == "cuda"
        by_rows = machine.processes == 1 and sizes.train <= (FEW_IN_HALF if sizes.half else FEW) * features
        map_bytes = (padded_channels(config.filters) if sizes.half else config.filters) * h * w * sizes.stored
        maps_bytes = (sizes.train + sizes.other) * map_bytes
        gram_bytes = _sums_bytes(config, sizes, width, by_rows, fused)
        # A row of features, shifted, and as it is multiplied; and its targets. A CPU multiplies halves as singles: the
        # rows, and a panel of them.
        products = 2 * 4 if sizes.half and device.type == "cpu" else 0
        row = (2 * sizes.stored + products) * width + TARGET_COPIES * sizes.classes * sizes.itemsize
        per_image = max(workspace_per_image(config, sizes.image_shape, sizes.itemsize, device.type, sizes.half), row)
        staged = STAGED_CHUNKS * map_bytes + 2 * channels * h * w * sizes.itemsize
        all_features, libraries = sizes.train * width * sizes.stored, LIBRARIES[device.type]
        ways = _ways(device, machine.processes_here * maps_bytes, place)
        ways = [(where, keep) for where, keep in ways if keep or not by_rows]  # these products need all features

        def held(where: Place) -> int:
            """Return the bytes of all maps in a place."""
            return maps_bytes if where == "device" or (where == "host" and device.type == "cpu") else 0

        def chunked(where: Place) -> int:
            """Return the bytes per image of a chunk."""
            return per_image + (0 if where == "device" else staged)

        least = gram_bytes + libraries + (all_features if by_rows else 0)
        least += min(held(where) + chunked(where) for where, _ in ways)  # chunks of one image
        images, sketches = readout_rows(config, sizes.train // config.copies_per_image), 0
        if config.readout == "kernel":
            sketches = images * config.layers * sketch_size(config, (h, w)) * HALF
            if device.type == "cuda" and sketches > budget // SKETCH_SHARE:
                sketches = 0  # they are on the host
            elif device.type == "cpu" and 2 * sketches <= min(budget // SKETCH_SHARE, budget - least):
                sketches *= 2  # there is room for float32
        full = max(1, min(LARGEST_WORKSPACE[device.type] // per_image, sizes.train))

        def room(where: Place, keep: bool) -> int:
            """Return the bytes left for chunks."""
            return budget - gram_bytes - libraries - sketches - held(where) - (all_features if keep else 0)

        def chunk_of(where: Place, keep: bool) -> int:
            return min(full, room(where, keep) // chunked(where))

        where, keep = next((way for way in ways if chunk_of(*way) >= full), max(ways, key=lambda way: chunk_of(*way)))
        chunk, left = chunk_of(where, keep), min(room(where, keep), LARGEST_WORKSPACE[device.type])
        if chunk < 1:
            what = f"for this network ({show_bytes(gram_bytes)} of sums and heads)"
            remedy = "use smaller images, fewer filters or layers"
            raise TooLittleMemoryError(least + sketches, what, budget, remedy)
        return MemoryPlan(
            features=features,
            width=width,
            chunk=chunk,
            rows=max(1, left // row),
            keep_features=keep,
            by_rows=by_rows,
            maps_place=where,
            maps_bytes=maps_bytes,
            gram_bytes=gram_bytes,
            features_bytes=all_features if keep else 0,
            sketch_bytes=sketches,
            readout_bytes=readout_file_bytes(config, sizes.image_shape, sizes.classes, machine.processes * images),
            workspace_bytes=chunk * chunked(where) + libraries,
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
    whole = replace(machine, budget=memory_budget(compute.memory, device))
    _check_all(
        lambda: MemoryPlan.of(config, sizes, machine, compute.maps),
        lambda: check_readout_fits(config, data, itemsize, half, whole),
    )
    return MemoryPlan.of(config, sizes, machine, compute.maps)


def check_readout_fits(config: NetworkConfig, data: TrainingData, itemsize: int, half: bool, machine: Machine) -> None:
    """Raise ValueError if a kernel readout cannot be fitted; the budget is that of the whole device."""
    if config.readout == "kernel":
        images = readout_rows(config, len(data.images))
        _check_all(
            lambda: check_least_memory(config, images, 2 * data.classes, itemsize, machine.budget),
            lambda: _check_components(config, images, data.image_shape[1:], machine.budget),
        )
    if config.readout != "kernel-exact":
        return
    if config.rows_per_image > 1:
        raise OptionError("kernel_copies", "must be empty with readout 'kernel-exact'. Use readout 'kernel'.")
    if machine.processes > 1:
        raise ValueError("readout must be 'kernel' or 'heads' with several processes, got 'kernel-exact'.")
    sizes = replace(data.sizes(config, itemsize, half), train=len(data.images))
    needed = exact_readout_bytes(config, sizes, machine.device.type)
    if needed > machine.budget:
        what = f"for an exact kernel readout of {sizes.train:,} images"
        raise TooLittleMemoryError(needed, what, machine.budget, "use fewer images, or readout 'kernel'")


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


def filter_sums_bytes(
    config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, fused: bool = False
) -> int:
    """Return the bytes of the sums over patches, for the layer that takes most.

    ``fused`` kernels of a GPU sum patches in half precision, 3×3 ones without writing them out.
    """
    channels, h, w = image_shape
    largest = 0
    for layer in {*range(1, config.bank.count(";") + 2), *config.kinds_of_layer}:
        depth = channels + (config.filters if config.place_in_stack(layer) > 1 else 0)
        k = config.size_of_filter(layer)
        numbers, positions = depth * k * k, (h - k + 1) * (w - k + 1)
        needed = PATCH_SUM_COPIES * DOUBLE * numbers**2
        if fused and has_patch_sum_kernel(depth, (h, w), k):
            needed += zone_sums_bytes(depth)
        by_class = 0
        for sets, outers, places in class_sums_of(config.bank, config.place_in_stack(layer)):
            by_class = max(by_class, classes * sets * DOUBLE * (outers * numbers**2 + places * positions * numbers))
        largest = max(largest, needed + by_class)
    return largest


def _sums_bytes(config: NetworkConfig, sizes: RunSizes, width: int, by_rows: bool, fused: bool) -> int:
    """Return the bytes of the sums over patches or features, of the heads, and of all outputs and labels."""
    # Gram, scatter and factor; or products of features, a factor, and a block of scaled features, also in halves.
    block = min(BLOCK_BYTES, sizes.train * width * sizes.itemsize)
    pairs = 2 * sizes.train**2 * sizes.itemsize + 3 * block // 2 if by_rows else 3 * width**2 * sizes.itemsize
    sums = max(pairs, filter_sums_bytes(config, sizes.image_shape, sizes.classes, fused))
    heads = (config.layers + 4) * config.features(sizes.image_shape[1:]) * 2 * sizes.classes * sizes.itemsize
    # Output and label of all images; new label and sign of the training images.
    outputs = (sizes.train + sizes.other) * (sizes.classes * sizes.itemsize + 8) + sizes.train * 16
    return sums + heads + outputs


def _ways(device: torch.device, maps_bytes: int, place: Literal["auto"] | Place) -> list[tuple[Place, bool]]:
    """Return the places of the maps, and whether features are kept, best first."""
    if place != "auto":
        return [(place, True), (place, False)]
    if device.type == "cpu":
        return [("device", True), ("device", False), ("file", True), ("file", False)]
    # Pinned memory is handed out in powers of two.
    outside: Place = "host" if 2 * maps_bytes <= AUTO_SHARE * host_memory() else "file"
    return [("device", True), (outside, True), ("device", False), (outside, False)]
