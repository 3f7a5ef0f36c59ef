"""Stage 7, second half: LDA and ridge heads, all from one factorisation, and their posteriors (equations 4 and 12).

One-vs-rest LDA for a group with share π and mean difference m = μ₁ - μ₀ needs the within scatter
S_c = S - π(1-π) m mᵀ. The total scatter S does not depend on labels. With A = S + γI factorised once,

    (A - π(1-π) m mᵀ)⁻¹ m  =  A⁻¹m / (1 - π(1-π) mᵀA⁻¹m)

solves all classes and both signs. Multi-class LDA and ridge regression use the same factor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce

import torch
from torch import Tensor

from ..base.errors import NumericalError
from ..config.network import Posterior
from ..numerics.linear_algebra import NotPositiveDefiniteError, Solver, cholesky_solver, scores_in_half
from .moments import CrossSolver, Moments

TAIL = -80.0  # smallest argument of the sigmoid: its exponential is still above the underflow of float32
MATRICES = 4  # as large as a head, in memory while one is solved: sums, mean differences, solutions, weights
LEAST_RETRY, MOST_RETRIES = 1e-6, 9  # smallest ridge of a retry, and number of retries

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScatterFactor:
    """Factorised regularised scatter A of features multiplied by ``scale`` (D,).

    The scale is 1/standard deviation of each feature; 0 for a constant one, so that its weight is 0.
    """

    solver: CrossSolver
    scale: Tensor

    def solve(self, moments: Moments, mix: Tensor | None = None) -> Tensor:
        """Return A⁻¹Cᵀ in the units of the features, shape (D, K), where C is ``moments.centred_cross()``.

        ``moments`` are those A was computed from, with all target columns or some. With ``mix`` (K, K') the right side
        is Cᵀ·mix.
        """
        return self.scale[:, None] * self.solver(moments, mix)


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Linear scores ``f W + b``."""

    weights: Tensor  # (D, K)
    bias: Tensor  # (K,)
    present: Tensor  # bool, (K,): false for a group without training images, whose posterior is zero

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of ``features`` (n, D), shape (n, K): log-odds for LDA.

        Features may be followed by columns of zeros. Those in half precision on a GPU are multiplied as they are.
        """
        if features.is_cuda and (features.dtype, self.weights.dtype) == (torch.float16, torch.float32):
            return scores_in_half(features, self.weights) + self.bias
        return torch.addmm(self.bias, features[:, : len(self.weights)].to(self.weights.dtype), self.weights)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> LinearHead:
        """Return the head on a device, in a floating type if one is given."""
        return LinearHead(self.weights.to(device, dtype), self.bias.to(device, dtype), self.present.to(device))

    def cut_to(self, features: int) -> LinearHead:
        """Return the head without the padding rows after the first ``features``."""
        return self if len(self.weights) == features else replace(self, weights=self.weights[:features].clone())

    @staticmethod
    def join(first: LinearHead, second: LinearHead) -> LinearHead:
        """Return one head with the groups of both."""
        return LinearHead(
            torch.cat([first.weights, second.weights], dim=1),
            torch.cat([first.bias, second.bias]),
            torch.cat([first.present, second.present]),
        )


HeadSolver = Callable[[ScatterFactor, Moments], LinearHead]


def factorise(moments: Moments, ridge: float, method: Callable[[Tensor], Solver] = cholesky_solver) -> ScatterFactor:
    """Factorise the regularised total scatter A = S + γI of standardised features.

    A ridge γ of 0.1 adds a tenth of each feature's variance. If A is not positive definite, a larger ridge is needed:
    :func:`fit_head` retries with one.
    """
    variances = moments.variances()
    scale = torch.where(variances == 0, 0, variances.rsqrt())
    return ScatterFactor(moments.solver(scale, ridge, method), scale)


def fit_head(
    moments: Moments,
    solve: HeadSolver,
    ridge: float,
    method: Callable[[Tensor], Solver] = cholesky_solver,
) -> tuple[LinearHead, float]:
    """Solve a head from one factorisation; if that fails, retry with ten times the ridge.

    ``solve`` is one of the heads below, e.g. ``one_vs_rest_lda``. Also returns γ of the last attempt, for the history.
    """
    for _ in range(MOST_RETRIES + 1):
        try:
            head = solve(factorise(moments, ridge, method), moments)
        except NotPositiveDefiniteError as error:
            logger.info("ridge %.3g is too small: %s Retrying with a larger one.", ridge, error)
        else:
            if bool(head.weights.isfinite().all() and head.bias.isfinite().all()):
                return head, ridge
        ridge = max(10 * ridge, LEAST_RETRY)
    raise NumericalError(
        f"no head could be solved with a ridge below {ridge:.3g}. Check the images for extreme values."
    )


def one_vs_rest_lda(factor: ScatterFactor, moments: Moments) -> LinearHead:
    """Return a head of LDA log-odds of each group against all other images.

    The targets of ``moments`` are one-hot groups. A group without images is not ``present``.
    """
    size = moments.target_total  # (K,) images in the group, or their total weight
    rest = moments.count - size
    present, others = size > 0, rest > moments.rounding
    share = size / moments.count
    # The sums hold π(μ₁ - μ), and m = (μ₁ - μ)/(1-π).
    mix = moments.count / torch.where(others, rest, 1) / torch.where(present, share, 1 / moments.count)
    difference = moments.centred_cross() * mix[:, None]  # m, (K, D)
    solved = factor.solve(moments, mix.diag())  # (D, K)
    distance = (difference.T * solved).sum(0)  # mᵀA⁻¹m
    slack = 1 - share * (1 - share) * distance
    if bool((slack <= 64 * torch.finfo(slack.dtype).eps).any()):
        raise NotPositiveDefiniteError("the within scatter of a class vanishes.")
    weights = solved / slack
    # μ₁ + μ₀ = 2μ + (μ₁ - μ)(1 - π/(1-π)), so the midpoint is μ + (1-2π)/2 · m
    bias = -moments.mean @ weights - (0.5 - share) * (difference.T * weights).sum(0)
    bias = bias + torch.log(torch.where(present, size, 0.5) / torch.where(others, rest, 0.5))
    return LinearHead(weights * present, bias * present, present)


def multiclass_lda(factor: ScatterFactor, moments: Moments, sets: int = 1) -> LinearHead:
    """Return a head of linear discriminants of groups that share one within scatter.

    Images of no group count as one more group. Scores are

        δ_g(f) = (f-μ)ᵀS_w⁻¹(μ_g-μ) - ½(μ_g-μ)ᵀS_w⁻¹(μ_g-μ) + log π_g.

    S_w = S - Σ π_g (μ_g-μ)(μ_g-μ)ᵀ is solved from the factor of S by Woodbury's identity. Groups may form several sets
    of equal size, e.g. both signs, each with a scatter of its own: all are solved together.
    """
    size = len(moments.target_total) // sets
    parts = [moments.with_targets(slice(start, start + size)) for start in range(0, sets * size, size)]
    mixes = [_mix_of_groups(part) for part in parts]
    solved = factor.solve(moments, torch.block_diag(*(mix for _, mix in mixes)))  # type: ignore[no-untyped-call]
    of_sets = zip(parts, mixes, torch.split(solved, size + 1, dim=1), strict=True)
    return reduce(LinearHead.join, (_head_of_set(part, *mix, columns) for part, mix, columns in of_sets))


def _mix_of_groups(moments: Moments) -> tuple[Tensor, Tensor]:
    """Return π of the K groups and of all other images, (K+1,), and the factors by which C becomes √π_g (μ_g - μ)."""
    size = moments.target_total
    others = moments.count - size.sum()
    all_size = torch.cat([size, torch.where(others > moments.rounding, others, 0)[None]])
    share = torch.where(all_size > 0, all_size / moments.count, 0.5 / moments.count)
    groups = torch.eye(len(size), dtype=size.dtype, device=size.device)
    mix = torch.cat([groups, -torch.ones_like(groups[:1])]).T * ((all_size > 0) / share.sqrt())  # (K, K+1)
    return share, mix


def _head_of_set(moments: Moments, share: Tensor, mix: Tensor, solved: Tensor) -> LinearHead:
    """Return the head of a set of K groups from ``solved``, A⁻¹U (D, K+1), where U holds √π_g (μ_g - μ)."""
    roots = mix.T @ moments.centred_cross()  # Uᵀ, (K+1, D)
    inner = roots @ solved  # UᵀA⁻¹U
    remainder = torch.eye(len(inner), dtype=inner.dtype, device=inner.device) - inner
    if not bool((torch.linalg.eigvalsh(remainder) > 64 * torch.finfo(inner.dtype).eps).all()):
        raise NotPositiveDefiniteError("the within scatter of the classes vanishes.")
    core = torch.linalg.solve(remainder, inner)
    within = (solved + solved @ core)[:, :-1]  # S_w⁻¹U, groups only
    weights = within / share.sqrt()[:-1]
    deviation = roots[:-1] / share.sqrt()[:-1, None]
    bias = -moments.mean @ weights - 0.5 * (deviation.T * weights).sum(0)
    bias = bias + share[:-1].log()
    present = moments.target_total > 0
    return LinearHead(weights * present, bias * present, present)


def ridge_regression(factor: ScatterFactor, moments: Moments) -> LinearHead:
    """Return a head of ridge regression of the targets: least squares plus γ·n·‖w‖², with an unpenalised intercept."""
    weights = factor.solve(moments)
    bias = moments.target_total / moments.count - moments.mean @ weights
    return LinearHead(weights, bias, torch.ones_like(bias, dtype=torch.bool))


HEADS: dict[str, HeadSolver] = {
    "lda": one_vs_rest_lda,
    "multiclass-lda": partial(multiclass_lda, sets=2),  # one scatter per sign
    "ridge": ridge_regression,
}
"""Solvers of a layer's heads by the name of the option ``head``."""


def posteriors(
    scores: Tensor, present: Tensor, kind: Posterior, sigmoid_scale: float = 16.0, softmax_scale: float = 0.001
) -> tuple[Tensor, Tensor]:
    """Return Ỹ_p and Ỹ_n, each (n, C), from scores (n, 2C): positive groups, then negative ones (equations 4, 12)."""
    signs = zip(scores.chunk(2, dim=1), present.chunk(2), strict=True)
    if kind == "softmax":
        positive, negative = (softmax_posterior(s, here, softmax_scale) for s, here in signs)
        return positive, negative
    positive, negative = (sigmoid_posterior(s, here, sigmoid_scale) for s, here in signs)
    if kind == "normalised-sigmoid":
        return normalise(positive), normalise(negative)
    return positive, negative


def sigmoid_posterior(scores: Tensor, present: Tensor, scale: float = 16.0) -> Tensor:
    """Return 1/(1 + exp(-x/σ)) of log-odds (n, K) (equation 4), zero for absent groups; σ is the ``scale``.

    Below x/σ = -80 it falls like σ/x instead, starting from 2e-35, so it never underflows to zero. With few training
    images all classes can be that far from an image; the nearest class then still has the largest posterior.
    It is computed from exponentials because runtimes of exported files have sigmoids that are zero below -18.
    """
    scaled = scores / scale
    sigmoid = scaled.clamp(TAIL, 0.0).exp() / (1 + (-scaled.abs()).exp())
    return sigmoid * (TAIL / scaled.clamp_max(TAIL)) * present


def normalise(posterior: Tensor) -> Tensor:
    """Return posteriors (n, K) divided by their sum over the groups; zero where all are zero."""
    total = posterior.sum(1, keepdim=True)
    return posterior / torch.where(total > 0, total, 1)


def softmax_posterior(scores: Tensor, present: Tensor, scale: float = 0.001) -> Tensor:
    """Return exp(βy_i)/Σ exp(βy_j) of scores (n, K) (equation 12), zero for absent groups; β is the ``scale``."""
    least = torch.finfo(scores.dtype).min
    return torch.softmax((scores * scale).masked_fill(~present, least), dim=1) * present
