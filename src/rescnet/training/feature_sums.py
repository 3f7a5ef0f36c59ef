"""Sums over features from which a layer's heads are solved, chunk by chunk and process by process."""

from __future__ import annotations

from torch import Tensor

from ..stages.moments import Moments, RowMoments
from .distributed.workers import Workers
from .targets import Targets


class FeatureSums:
    """Sums over the training images of all processes.

    Parameters
    ----------
    targets : Targets
    workers : Workers
    by_rows : bool
        Hold the features of few images in place of the Gram matrix; for one process.
    """

    def __init__(self, targets: Targets, workers: Workers, by_rows: bool = False) -> None:
        self._targets, self._workers = targets, workers
        self._kind = RowMoments if by_rows else Moments
        self._sums: Moments | None = None

    def add(self, features: Tensor, part: slice) -> None:
        """Add the features (m, D) of some images. All are shifted by the mean of rank 0's first chunk."""
        targets = self._targets.part(part)
        if self._sums is None:
            shift = features.mean(0, dtype=targets.dtype).to(features.dtype).to(targets.dtype)
            self._workers.broadcast(shift)
            self._sums = self._kind.zeros(shift, targets.shape[1])
        self._sums.add(features, targets)

    def reduce_to_rank0(self) -> Moments:
        """Return the sums over all processes' images, which are valid on rank 0 only."""
        sums = self._sums
        assert sums is not None
        self._workers.reduce_to_rank0(sums.total, sums.gram, sums.target_total, sums.cross)
        sums.count = self._workers.sum_int(sums.count)
        return sums
