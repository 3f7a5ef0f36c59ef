"""Memory needs of a run: bytes by their purpose."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..config.compute import Place
from ..config.network import NetworkConfig
from ..fused import has_patch_sum_kernel, zone_sums_bytes
from ..fused.half_precision import padded_channels
from ..network.memory import RunSizes, class_sums_of, workspace_per_image
from ..numerics.linear_algebra import padded_size
from ..stages.moments import BLOCK_BYTES, FEW, FEW_IN_HALF
from .stores.host import WRITES_UNDER_WAY

DOUBLE = 8  # bytes: sums over patches are float64
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
class MemoryNeeds:
    """Bytes that a run needs, by their purpose; the plan chooses what stays on the device."""

    width: int  # not bytes: an image's features, padded for tensor cores if they are in half precision
    by_rows: bool  # heads are solved from products of images with each other
    sums: int  # with heads and outputs
    features: int  # of all training images
    maps: int  # of all images
    image: int  # of a chunk whose maps are on the device
    staged: int  # more per image if maps are streamed
    row: int  # of features that are summed
    libraries: int
    on_cpu: bool  # maps on the host are in the same memory

    @staticmethod
    def of(config: NetworkConfig, sizes: RunSizes, machine: Machine) -> MemoryNeeds:
        """Count the bytes."""
        (channels, h, w), device = sizes.image_shape, machine.device.type
        features = config.features((h, w))
        width = padded_size(features) if sizes.half else features
        by_rows = machine.processes == 1 and sizes.train <= (FEW_IN_HALF if sizes.half else FEW) * features
        map_bytes = (padded_channels(config.filters) if sizes.half else config.filters) * h * w * sizes.stored
        # A row of features, shifted, and as it is multiplied; and its targets. A CPU multiplies halves as singles: the
        # rows, and a panel of them.
        products = 2 * 4 if sizes.half and device == "cpu" else 0
        row = (2 * sizes.stored + products) * width + TARGET_COPIES * sizes.classes * sizes.itemsize
        return MemoryNeeds(
            width=width,
            by_rows=by_rows,
            sums=_sums_bytes(config, sizes, width, by_rows, fused=sizes.half and device == "cuda"),
            features=sizes.train * width * sizes.stored,
            maps=(sizes.train + sizes.other) * map_bytes,
            image=max(workspace_per_image(config, sizes.image_shape, sizes.itemsize, device, sizes.half), row),
            staged=STAGED_CHUNKS * map_bytes + 2 * channels * h * w * sizes.itemsize,
            row=row,
            libraries=LIBRARIES[device],
            on_cpu=device == "cpu",
        )

    def held(self, where: Place, keep: bool) -> int:
        """Return the bytes in use throughout, with maps in a place and features kept or not."""
        maps = self.maps if where == "device" or (where == "host" and self.on_cpu) else 0
        return self.sums + self.libraries + maps + (self.features if keep else 0)

    def per_image(self, where: Place) -> int:
        """Return the bytes per image of a chunk, with maps in a place."""
        return self.image + (0 if where == "device" else self.staged)


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
