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
from .readout.cross_validation import folds_operations
from .readout.encoder import decomposes, decomposition_operations, subspace_operations
from .readout.fit import METRIC_FROM
from .readout.metric import metric_operations
from .readout.system import system_operations
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
    codes = 2 * rows * numbers * size + system_operations(rows, size)
    if sizes.train >= METRIC_FROM:
        codes = 2 * codes + metric_operations(rows, sizes.classes, size)
    if size < rows and not decomposes(rows, numbers, size):
        return codes + subspace_operations(rows, numbers, size)
    return codes + decomposition_operations(rows, numbers, size) + folds_operations(rows, size)
