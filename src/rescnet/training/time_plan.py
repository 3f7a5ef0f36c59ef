"""Time plan of a run: seconds of its layers, of the copies that pass them for the readout, and of the readout.

They are predicted from the record of one layer and from the speed of matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..config.network import NetworkConfig
from ..network.history import LayerRecord
from ..network.memory import RunSizes, readout_rows
from ..numerics.sketch import sketch_size
from .readout.cross_validation import FEW_ROWS, FOLDS, MOST_ROWS
from .readout.encoder import decomposes, subspace_operations
from .readout.fit import METRIC_FROM
from .readout.metric import IMAGES, OUTPUTS
from .stopwatch import Stopwatch

PASSING = ("convolution", "pooling")  # stages of an image that only passes a layer
TRIAL_SIDE, TRIALS = 1024, 2  # of the products that are timed


@dataclass(frozen=True)
class TimePlan:
    """Seconds of a run."""

    layer: float  # to learn a layer
    copies: float  # to pass the readout's copies through a layer
    readout: float  # to fit the readout afterwards

    @staticmethod
    def of(config: NetworkConfig, sizes: RunSizes, record: LayerRecord, seen: int, speed: float) -> TimePlan:
        """Predict a run on ``sizes.train`` images, from a layer that was learned from ``seen`` images and copies.

        ``speed`` is that of :func:`product_speed`.
        """
        passed = sum(record.seconds.get(stage, 0.0) for stage in PASSING) / seen
        passes = config.passes_per_image - config.copies_per_image
        return TimePlan(
            layer=sizes.train * config.copies_per_image * record.total_seconds / seen,
            copies=sizes.train * passes * passed,
            readout=readout_operations(config, sizes) / speed,
        )

    def seconds(self, layers: int) -> float:
        """Return the seconds of a run with n layers."""
        return layers * (self.layer + self.copies) + self.readout


def product_speed(device: torch.device) -> float:
    """Return the operations per second of matrix products in float32, by a trial."""
    matrix, watch = torch.ones(TRIAL_SIDE, TRIAL_SIDE, device=device), Stopwatch(device)
    for stage in ("first", "products"):
        with watch.time(stage):
            for _ in range(TRIALS):
                matrix @ matrix
    return TRIALS * 2 * TRIAL_SIDE**3 / max(watch.seconds["products"], 1e-9)


def readout_operations(config: NetworkConfig, sizes: RunSizes) -> float:
    """Return the operations that fit a readout to ``sizes.train`` images, in float32; one in float64 counts twice."""
    if not config.has_kernel:
        return 0.0
    rows, numbers = readout_rows(config, sizes.train), config.layers * sketch_size(config, sizes.image_shape[1:])
    size = min(config.readout_size, rows, numbers)
    codes = 2 * rows * numbers * size + _system_operations(rows, size)
    if sizes.train >= METRIC_FROM:
        codes = 2 * codes + 2 * min(rows, IMAGES) * min(sizes.classes, OUTPUTS) * size * (rows + size)
    if size < rows and not decomposes(rows, numbers, size):
        return codes + subspace_operations(rows, numbers, size)
    folds, left = (FOLDS if rows <= FEW_ROWS else 2), rows * (FOLDS - 1) // FOLDS
    of_folds = folds * (_eigenvector_operations(left) + _system_operations(left, size)) if rows <= MOST_ROWS else 0
    return codes + rows * numbers * (rows + 2 * size) + _eigenvector_operations(rows) + of_folds


def _system_operations(rows: int, size: int) -> float:
    """Return the operations of a kernel between codes, its factor and the blocks of its inverse."""
    return rows**2 * size + rows**3


def _eigenvector_operations(rows: int) -> float:
    """Return the time of eigenvectors in float64, in operations; small matrices are far slower than products."""
    return 3 * rows**3 + 50_000 * rows**2
