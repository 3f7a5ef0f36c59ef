"""Heads of a layer from the sums over its features: one factorisation for all classes and both signs (stage 7).

Targets are made chunk by chunk, or some chunks together on a GPU: they grow with the number of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..errors import NumericalError
from ..fused import moments_for
from ..fused.cholesky import blocked_solver
from ..numerics.linear_algebra import cholesky_solver
from ..stages.discriminant import HEADS, LinearHead, fit_head
from ..stages.moments import Moments, RowMoments
from ..stages.residual import labels_and_signs, one_hot, residual, signed_one_hot
from .distributed.workers import Workers
from .stream import ImageStream

TOLERANCE = {"balanced": 1e-5, "fast": 1e-3}  # of solutions by blocks, on tensor cores
TARGET_COPIES = 7  # of a row of targets: one-hot classes, residuals, both signs' targets, and intermediate results
TOGETHER = {"cuda": 16}  # chunks whose targets are computed at a time: small operations wait for their launch


@dataclass(frozen=True)
class Targets:
    """The new label and sign of each training image (equations 6 and 7); copies learn their own residual."""

    stream: ImageStream  # training images, with the output before the layer
    config: NetworkConfig
    labels: Tensor  # int64, (n,)
    positive: Tensor  # bool, (n,)

    @staticmethod
    def of(number: int, stream: ImageStream, config: NetworkConfig) -> Targets:
        """Return the targets of a layer, counted from 1; those of the first are the classes, all positive."""
        if number == 1:
            return Targets(stream, config, stream.labels, torch.ones_like(stream.labels, dtype=torch.bool))
        together = TOGETHER.get(stream.output.device.type, 1)
        found = [labels_and_signs(residuals(stream, config, part)) for part in stream.parts(together)]
        labels, positive = (torch.cat(pieces) for pieces in zip(*found, strict=True))
        return Targets(stream, config, labels, positive)

    def positive_share(self, images: int, workers: Workers) -> float:
        """Return n_p/N, where N is the number of all processes' images."""
        weights = self.stream.weights
        if weights is None:
            return workers.sum_int(int(self.positive.sum())) / images
        positive = weights[self.positive].sum(dtype=torch.float64)
        workers.all_reduce(positive)
        return min(1.0, float(positive) / images)

    def part(self, part: slice) -> Tensor:
        """Return the targets of some images: residuals (n, C) for ridge, else groups (n, 2C)."""
        if self.config.head == "ridge":
            return residuals(self.stream, self.config, part)
        output = self.stream.output
        return signed_one_hot(self.labels[part], self.positive[part], output.shape[1], output.dtype)


def residuals(stream: ImageStream, config: NetworkConfig, part: slice) -> Tensor:
    """Return R of some images, shape (n, C) (equation 5)."""
    output = stream.output[part]
    return residual(one_hot(stream.labels[part], output.shape[1], output.dtype), output, config.ceiling)


class FeatureSums:
    """Sums over the features of all processes' training images.

    ``by_rows`` holds the features of few images in place of the Gram matrix; for one process.
    """

    def __init__(self, targets: Targets, workers: Workers, by_rows: bool) -> None:
        self._targets, self._workers = targets, workers
        self._by_rows = by_rows
        self._sums: Moments | None = None

    def add(self, features: Tensor, part: slice) -> None:
        """Add the features (m, D) of some images. All are shifted by the mean of rank 0's first chunk."""
        targets = self._targets.part(part)
        if self._sums is None:
            shift = features.mean(0, dtype=targets.dtype).to(features.dtype).to(targets.dtype)
            self._workers.broadcast(shift)
            kind = RowMoments if self._by_rows else moments_for(features)
            self._sums = kind.zeros(shift, targets.shape[1])
        weights = self._targets.stream.weights
        self._sums.add(features, targets, None if weights is None else weights[part])

    def reduce_to_rank0(self) -> Moments:
        """Return the sums over all processes' images, which are valid on rank 0 only."""
        sums = self._sums
        assert sums is not None
        self._workers.reduce_to_rank0(sums.total, sums.gram, sums.target_total, sums.cross)
        sums.count = self._workers.sum_int(sums.count)
        return sums


def solve_head(moments: Moments, config: NetworkConfig, precision: str) -> tuple[LinearHead, float]:
    """Solve the heads of a layer; also return the γ used in the end.

    Targets are the residuals (n, C) for ridge, else groups (n, 2C): positive classes, then negative ones. Precision
    ``"exact"`` factorises in the sums' own type; the others by blocks on tensor cores, with refined solutions.
    """
    exact = precision == "exact"
    method = cholesky_solver if exact else partial(blocked_solver, tolerance=TOLERANCE[precision])
    return fit_head(moments, HEADS[config.head], config.ridge, method)


def solve_on_rank0(
    moments: Moments, config: NetworkConfig, precision: str, features: int, workers: Workers
) -> tuple[LinearHead, float]:
    """Solve the heads on rank 0, which has the sums, cut them to D ``features`` and broadcast them."""
    like = moments.shift
    head = no_head(like, features, len(moments.target_total))
    facts = torch.zeros(2, dtype=torch.float64, device=like.device)
    failure: ArithmeticError | None = None
    if workers.is_rank0:
        try:
            solved, ridge = solve_head(moments, config, precision)
            head, facts = solved.cut_to(features), facts.new_tensor([1, ridge])
        except ArithmeticError as error:  # the other ranks must not wait
            failure = error
    workers.broadcast(facts)
    if not bool(facts[0]):
        raise failure or NumericalError("rank 0 could not solve the heads. See its message.")
    weights, bias, present = head.weights.contiguous(), head.bias.contiguous(), head.present.to(torch.uint8)
    workers.broadcast(weights, bias, present)
    return LinearHead(weights, bias, present.bool()), float(facts[1])


def no_head(like: Tensor, features: int = 0, groups: int = 0) -> LinearHead:
    """Return an empty head, on the device and in the type of a tensor."""
    present = torch.zeros(groups, dtype=torch.bool, device=like.device)
    return LinearHead(like.new_zeros(features, groups), like.new_zeros(groups), present)
