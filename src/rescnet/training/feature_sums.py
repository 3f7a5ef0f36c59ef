"""The sums over features from which a layer's heads are solved, added up chunk by chunk and worker by worker."""

from __future__ import annotations

from torch import Tensor

from ..stages.dual_moments import RowMoments
from ..stages.mixed_precision import GramProducts
from ..stages.moments import Moments
from .distributed.workers import Workers
from .targets import Targets


class FeatureSums:
    """Sums over the training images; two, where each sign learns from its own images only.

    Parameters
    ----------
    targets : Targets
    workers : Workers
    products : {"auto", "half", "tf32", "float32"}
        What the Gram matrix is multiplied in.
    by_rows : bool
        Whether images are so few that their features are held in place of the Gram matrix; for one worker.
    """

    def __init__(
        self, targets: Targets, workers: Workers, products: GramProducts = "auto", by_rows: bool = False
    ) -> None:
        self._targets, self._workers, self._products = targets, workers, products
        self._kind = RowMoments if by_rows else Moments
        self._own = targets.config.sign_samples == "own" and targets.config.head != "ridge"
        self._sums: list[Moments] = []

    def add(self, features: Tensor, part: slice) -> None:
        """Add the features (m, D) of some images. All are shifted by the mean of the first worker's first chunk."""
        targets = self._targets.part(part)
        if not self._sums:
            shift = features.mean(0, dtype=targets.dtype).to(features.dtype).to(targets.dtype)
            self._workers.send_from_first(shift)
            count = 2 if self._own else 1
            self._sums = [self._kind.zeros(shift, targets.shape[1], self._products) for _ in range(count)]
        if self._own:
            here = self._targets.positive[part]
            self._sums[0].add(features[here], targets[here])
            self._sums[1].add(features[~here], targets[~here])
        else:
            weights = self._targets.weights
            self._sums[0].add(features, targets, None if weights is None else weights[part])

    def on_first(self) -> list[Moments]:
        """Return the sums over all workers' images, which the first worker alone has."""
        for moments in self._sums:
            self._workers.add_up_on_first(moments.total, moments.gram, moments.target_total, moments.cross)
            moments.count = self._workers.total(moments.count)
        return self._sums
