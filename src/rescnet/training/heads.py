"""The heads of a layer, from the sums over its features: one factorisation for all classes and both signs (stage 7)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..kernels.cholesky import blocked_solver
from ..stages.cholesky import cholesky_solver
from ..stages.discriminant import LinearHead, ScatterFactor, fit_head, multiclass_lda, one_vs_rest_lda, ridge_regression
from ..stages.moments import Moments
from .distributed.workers import Workers

TOLERANCE = {"balanced": 1e-5, "fast": 1e-3}  # of what is solved by blocks, on tensor cores


def solve_head(
    sums: list[Moments], config: NetworkConfig, precision: str = "exact", layer: int = 1
) -> tuple[LinearHead, float]:
    """Solve the heads of a layer.

    Parameters
    ----------
    sums : list of Moments
        Of all images; or of those with a positive and those with a negative sign, where each sign learns from its own.
        Targets are the residuals (n, C) for ridge, else groups (n, 2C): positive classes, then negative ones.
    config : NetworkConfig
    precision : {"exact", "balanced", "fast"}
        ``"exact"`` factorises in the sums' own type; the others by blocks on tensor cores, and refine what is solved.
    layer : int
        Counted from 1: γ may grow.

    Returns
    -------
    head : LinearHead
    ridge : float
        The γ used in the end.
    """
    classes = len(sums[0].target_total) // 2
    halves = slice(0, classes), slice(classes, 2 * classes)

    def both_signs(factor: ScatterFactor, moments: Moments) -> LinearHead:
        if config.head == "ridge":
            return ridge_regression(factor, moments)
        if config.head == "lda":
            return one_vs_rest_lda(factor, moments, config.prior)
        return LinearHead.join(*(multiclass_lda(factor, moments.with_targets(half), config.prior) for half in halves))

    method = cholesky_solver
    if precision != "exact":
        method = partial(blocked_solver, tolerance=TOLERANCE[precision])
    options = config.ridge_of(layer), config.shrinkage, config.standardise, method
    if len(sums) == 1:
        return fit_head(sums[0], both_signs, *options)
    solve = partial(one_vs_rest_lda if config.head == "lda" else multiclass_lda, prior=config.prior)
    heads, ridges = [], []
    for moments, half in zip(sums, halves, strict=True):
        if moments.count < 2:  # nobody of that sign, or nobody to be told apart from: nothing to learn
            heads.append(no_head(moments.shift, len(moments.shift), classes))
            continue
        head, ridge = fit_head(moments.with_targets(half), solve, *options)
        heads.append(head)
        ridges.append(ridge)
    return LinearHead.join(*heads), max(ridges, default=config.ridge_of(layer))


def solve_on_first(
    moments: list[Moments], config: NetworkConfig, precision: str, features: int, workers: Workers, layer: int = 1
) -> tuple[LinearHead, float]:
    """Solve the heads on the first worker, which has the sums, cut them to D ``features`` and send them to all."""
    like = moments[0].shift
    head = no_head(like, features, len(moments[0].target_total))
    facts = torch.zeros(2, dtype=torch.float64, device=like.device)
    failure: ArithmeticError | None = None
    if workers.is_first:
        try:
            solved, ridge = solve_head(moments, config, precision, layer)
            head, facts = solved.cut_to(features), facts.new_tensor([1, ridge])
        except ArithmeticError as error:  # the others are told, so that they do not wait
            failure = error
    workers.send_from_first(facts)
    if not bool(facts[0]):
        raise failure or FloatingPointError("the first worker could not solve the heads: see what it says.")
    weights, bias, present = head.weights.contiguous(), head.bias.contiguous(), head.present.to(torch.uint8)
    workers.send_from_first(weights, bias, present)
    return LinearHead(weights, bias, present.bool()), float(facts[1])


def no_head(like: Tensor, features: int = 0, groups: int = 0) -> LinearHead:
    """Return a head that scores nothing, on the device and in the type of a tensor."""
    present = torch.zeros(groups, dtype=torch.bool, device=like.device)
    return LinearHead(like.new_zeros(features, groups), like.new_zeros(groups), present)
