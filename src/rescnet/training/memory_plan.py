"""Chunk sizes from a byte budget, and the peak that was really used.

What a layer holds: the Gram matrix with its scatter and factor, or where images are few their features, twice, with
their products and a factor of these; the heads, and the outputs of all images. Then, where they fit, the features of
all training images and the maps of all images (they are the next layer's input); maps that do not fit live on the host
or in a file and stream through (``map_store.py``). The block grid is never held whole. What is left of the budget is
workspace, and the workspace of one image says how many images a chunk may have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ..config.network import NetworkConfig
from ..formatting import show_bytes
from ..kernels import sums_in_place, zone_sums_bytes
from ..network.memory import AUTO_SHARE, LARGEST_WORKSPACE, class_sum_banks, host_memory, workspace_per_image
from ..stages.dual_moments import FEW
from ..stages.mixed_precision import GramProducts, padded_size
from .stores.host import WRITES_UNDER_WAY
from .stores.store import Place

DOUBLE = 8  # bytes: sums over patches are float64
PATCH_SUM_COPIES = 4  # of Σ p pᵀ: the sum, the one it is added to, the covariance, and its eigenvectors
# Of each class: sets of its images, copies of Σ p pᵀ and of Σ p by position, as summed, as means and in between.
CLASS_SUMS = {"lda": (1, 4, 3), "canonical": (2, 6, 1), "orthogonal-subspace": (1, 6, 1)}


def filter_sums_bytes(
    config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, fused: bool = False
) -> int:
    """Return the bytes of the layer that takes most.

    Parameters
    ----------
    fused : bool
        Whether a GPU sums patches in half precision, 3×3 ones without writing them out.
    """
    channels, h, w = image_shape
    largest, groups = 0, 2 * classes if config.filter_labels == "residual" else classes
    for layer in {*range(1, config.bank.count(";") + 2), *config.kinds_of_layer}:  # the last bank named goes on
        depth = channels + (config.filters if config.place_in_stack(layer) > 1 else 0)
        k = config.size_of_filter(layer)
        numbers, positions = depth * k * k, (h - k + 1) * (w - k + 1)
        needed = PATCH_SUM_COPIES * DOUBLE * numbers**2
        if fused and sums_in_place(depth, (h, w), k):
            needed += zone_sums_bytes(depth)
        by_class = 0
        for bank in class_sum_banks(config.bank, config.place_in_stack(layer)):
            sets, outers, places = CLASS_SUMS[bank]
            by_class = max(by_class, groups * sets * DOUBLE * (outers * numbers**2 + places * positions * numbers))
        largest = max(largest, needed + by_class)
    return largest


LIBRARIES = {"cpu": 48 * 2**20, "cuda": 512 * 2**20}  # what BLAS, the convolution and the allocator take for themselves
STAGED_CHUNKS = 2 + WRITES_UNDER_WAY + 1  # of maps that stream: here, on their way, going back, and being put in order
TARGET_COPIES = (
    7  # of a row of targets: one-hot classes, residuals, the targets of both signs, and what they pass through
)


@dataclass(frozen=True)
class Plan:
    """How a training run will use its memory.

    Attributes
    ----------
    features : int
        D, per image and layer.
    width : int
        D, padded for tensor cores where features are in half precision.
    chunk : int
        Images that go through a layer at a time.
    rows : int
        Kept features that are summed at a time.
    keep_features : bool
        Whether the features of all training images are held between the two passes over them, or computed twice.
    by_rows : bool
        Whether heads are solved from products of images with each other, there being fewer of them than features.
    maps_place : {"device", "host", "file"}
        Where the maps of all images live between layers.
    maps_bytes, gram_bytes, features_bytes, workspace_bytes, budget : int
        ``gram_bytes`` are all sums, heads and outputs.
    """

    features: int
    width: int
    chunk: int
    rows: int
    keep_features: bool
    by_rows: bool
    maps_place: Place
    maps_bytes: int
    gram_bytes: int
    features_bytes: int
    workspace_bytes: int
    budget: int

    @property
    def total_bytes(self) -> int:
        """What the run is expected to take of the budget, beside the images themselves."""
        held_maps = self.maps_bytes if self.maps_place == "device" else 0
        return held_maps + self.gram_bytes + self.features_bytes + self.workspace_bytes


def plan_memory(
    config: NetworkConfig,
    image_shape: tuple[int, int, int],
    classes: int,
    train_images: int,
    other_images: int,
    itemsize: int,
    half: bool,
    budget: int,
    device: torch.device,
    place: Literal["auto"] | Place = "auto",
    gram: GramProducts = "auto",
    workers: int = 1,
    alone: bool = True,
) -> Plan:
    """Fit a run into the budget, or say what it would need.

    ``workers`` share the memory of this host; ``alone`` says whether one process has all the training images.

    Of the ways to hold maps and features the first is taken that leaves room for chunks of full size: smaller chunks
    are slower, and add up in another order. On a GPU features are held rather than maps, since maps can be copied while
    others are computed with; on a CPU maps are, since a file is slower than memory.
    """
    channels, h, w = image_shape
    features = config.features((h, w))
    width, stored = (padded_size(features), 2) if half else (features, itemsize)
    map_bytes = config.filters * h * w * stored
    maps_bytes = (train_images + other_images) * map_bytes
    factors = 2 if config.sign_samples == "own" else 1
    # Of all images output and label; of training images also the new label and its sign.
    outputs = (train_images + other_images) * (classes * itemsize + 8) + train_images * 16
    if config.momentum:
        outputs += (train_images + other_images) * classes * itemsize
    if config.step == "held-out":  # corrections and residuals, and their products in float64
        outputs += other_images * classes * (3 * itemsize + 24)
    if config.margin_weights or config.draw_from != "all":
        outputs += train_images * 16
    heads = (config.layers + 4) * features * 2 * classes * itemsize
    fused = half and device.type == "cuda"
    by_rows = alone and not half and gram in ("auto", "float32") and train_images <= FEW * features
    # Gram, scatter and factor; a second Gram where each sign has its own images. Before them, the sums over patches.
    pairs = 2 * train_images * (width + train_images) if by_rows else (2 + factors) * width**2
    sums = max(pairs * itemsize, filter_sums_bytes(config, image_shape, classes, fused))
    gram_bytes = sums + heads + outputs
    # A row of features, shifted, and as it is multiplied; and its targets.
    row = (2 * stored + _multiplied_as(stored, gram, device)) * width + TARGET_COPIES * classes * itemsize
    per_image = max(workspace_per_image(config, image_shape, itemsize, fused), row)
    staged = STAGED_CHUNKS * map_bytes + 2 * channels * h * w * itemsize
    all_features, libraries = train_images * width * stored, LIBRARIES[device.type]
    full = max(1, min(LARGEST_WORKSPACE[device.type] // per_image, train_images))

    def room(where: Place, keep: bool) -> int:
        """Return what is left for chunks and what goes with them."""
        beside = where == "device" or (where == "host" and device.type == "cpu")
        held = (maps_bytes if beside else 0) + (all_features if keep else 0)
        return budget - gram_bytes - libraries - held

    def chunk_of(where: Place, keep: bool) -> int:
        return min(full, room(where, keep) // (per_image + (0 if where == "device" else staged)))

    choices = _ways(device, workers * maps_bytes, place)
    best = next((way for way in choices if chunk_of(*way) >= full), max(choices, key=lambda way: chunk_of(*way)))
    where, keep = best
    chunk, left = chunk_of(where, keep), min(room(where, keep), LARGEST_WORKSPACE[device.type])
    if chunk < 1:
        held = gram_bytes + libraries + per_image + (maps_bytes if where == "device" else staged)
        raise ValueError(
            f"memory of {show_bytes(budget)} is too little for this network, which needs {show_bytes(held)} "
            f"({show_bytes(gram_bytes)} of sums and heads): allow more, or take fewer filters or layers."
        )
    return Plan(
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
        workspace_bytes=chunk * (per_image + (0 if where == "device" else staged)) + libraries,
        budget=budget,
    )


def _multiplied_as(stored: int, gram: GramProducts, device: torch.device) -> int:
    """Return the bytes of the copies the Gram matrix is multiplied from, for each number of features as ``stored``."""
    halved = gram == "half" or (gram == "auto" and stored == 2)
    if not halved:
        return 4 if stored == 2 else 0
    widened = 2 * 4 if device.type == "cpu" else 0  # a CPU multiplies halves as singles: the rows, and a panel of them
    return widened + (0 if stored == 2 else 2)


def _ways(device: torch.device, maps_bytes: int, place: Literal["auto"] | Place) -> list[tuple[Place, bool]]:
    """Return where maps may live and whether features are held, the best way first; all maps of this host count."""
    if place != "auto":
        return [(place, True), (place, False)]
    if device.type == "cpu":
        return [("device", True), ("device", False), ("file", True), ("file", False)]
    # Pinned memory is handed out in powers of two.
    outside: Place = "host" if 2 * maps_bytes <= AUTO_SHARE * host_memory() else "file"
    return [("device", True), (outside, True), ("device", False), (outside, False)]
