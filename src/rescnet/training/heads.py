"""Heads of a layer from the sums over its features: one factorisation for all classes and both signs (stage 7)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..kernels.cholesky import blocked_solver
from ..stages.discriminant import (
    LinearHead,
    ScatterFactor,
    fit_head,
    multiclass_lda,
    one_vs_rest_lda,
    ridge_regression,
)
from ..stages.linear_algebra import cholesky_solver
from ..stages.moments import Moments
from .distributed.workers import Workers

TOLERANCE = {"balanced": 1e-5, "fast": 1e-3}  # of solutions by blocks, on tensor cores


def solve_head(moments: Moments, config: NetworkConfig, precision: str = "exact") -> tuple[LinearHead, float]:
    """Solve the heads of a layer.

    Parameters
    ----------
    moments : Moments
        Targets are the residuals (n, C) for ridge, else groups (n, 2C): positive classes, then negative ones.
    config : NetworkConfig
    precision : {"exact", "balanced", "fast"}
        ``"exact"`` factorises in the sums' own type; the others by blocks on tensor cores, with refined solutions.

    Returns
    -------
    head : LinearHead
    ridge : float
        The γ used in the end.
    """
    classes = len(moments.target_total) // 2
    signs = slice(0, classes), slice(classes, 2 * classes)

    def solve(factor: ScatterFactor, moments: Moments) -> LinearHead:
        if config.head == "ridge":
            return ridge_regression(factor, moments)
        if config.head == "lda":
            return one_vs_rest_lda(factor, moments)
        return LinearHead.join(*(multiclass_lda(factor, moments.with_targets(sign)) for sign in signs))

    method = cholesky_solver
    if precision != "exact":
        method = partial(blocked_solver, tolerance=TOLERANCE[precision])
    return fit_head(moments, solve, config.ridge, method)


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
        raise failure or FloatingPointError("rank 0 could not solve the heads. See its message.")
    weights, bias, present = head.weights.contiguous(), head.bias.contiguous(), head.present.to(torch.uint8)
    workers.broadcast(weights, bias, present)
    return LinearHead(weights, bias, present.bool()), float(facts[1])


def no_head(like: Tensor, features: int = 0, groups: int = 0) -> LinearHead:
    """Return an empty head, on the device and in the type of a tensor."""
    present = torch.zeros(groups, dtype=torch.bool, device=like.device)
    return LinearHead(like.new_zeros(features, groups), like.new_zeros(groups), present)
