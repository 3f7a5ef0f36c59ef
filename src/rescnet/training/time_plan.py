"""Time plan of a run: seconds of its layers, of the copies that pass them for the readout, and of the readout.

They are predicted from the record of one layer and from the speed of matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..config.network import NetworkConfig
from ..network.history import LayerRecord
from ..network.memory import RunSizes
from .readout.fit import readout_operations
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
