"""Stacked-LDA filters (appendix A, Algorithm 2): discriminants between a few patches of one class and of the others.

A draw picks a class, 2 patches of it and 32 patches of other classes, and fits an LDA to the two sets. If the training
error is at most the tolerance, its weights become a filter and its constant the bias. (The paper writes ``<``, which is
never true at its tolerance of zero.) Draws are independent, so thousands are solved in one batch.
"""

from __future__ import annotations

from math import ceil, log

import torch
from torch import Tensor

from ...config.grammars import NotEnoughFiltersError
from .bank import BankOptions, Filters, PatchSource, register_bank

LEAST_BATCH, MOST_BATCH = 32, 4096
MOST_DRAWS = 100_000  # more raise an error
MOST_EQUAL_DRAWS = 500  # if these many draws hold equal patches only, all patches are equal


@register_bank("stacked-lda")
def stacked_lda_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the first ``count`` accepted discriminants, in the order drawn, with their negatives if signs is both."""
    if options.stacked_lda_signs == "one":
        return _accepted(source, count, generator, options)
    drawn = _accepted(source, ceil(count / 2), generator, options)
    weights = torch.stack([drawn.weights, -drawn.weights], dim=1).flatten(0, 1)
    return Filters(weights[:count], torch.stack([drawn.bias, -drawn.bias], dim=1).flatten()[:count])


def _accepted(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Draw until ``count`` discriminants are accepted, and return them."""
    weights: list[Tensor] = []
    bias: list[Tensor] = []
    taken = drawn = 0
    varied = False
    batch = min(MOST_BATCH, max(LEAST_BATCH, ceil(1.5 * count)))
    while taken < count:
        if not varied and drawn >= MOST_EQUAL_DRAWS:
            # All patches are equal: no discriminant exists, and none is needed.
            dimension = source.channels * source.size**2
            return Filters(torch.zeros(count, dimension).double(), torch.zeros(count).double())
        if drawn >= MOST_DRAWS:
            raise NotEnoughFiltersError(
                f"stacked-LDA filters must separate their patches, got {taken} of {count} in {drawn} draws. Raise "
                f"tolerance (now {options.tolerance:g}), lower negatives (now {options.negatives}) or filters."
            )
        draw = min(batch, MOST_DRAWS - drawn)
        patches = draw_patches(source, draw, generator, options)
        w, b, error = discriminate(patches, options)
        accepted = error <= options.tolerance
        varied = varied or bool((patches != patches[:1, :1]).any())
        weights.append(w[accepted])
        bias.append(b[accepted])
        taken, drawn = taken + int(accepted.sum()), drawn + draw
        batch = min(MOST_BATCH, 2 * batch)
    chosen, constants = torch.cat(weights)[:count], torch.cat(bias)[:count]
    if options.stacked_lda_bias == "mean":
        constants = -chosen @ source.mean().to(chosen.device)
    return Filters(chosen, constants).unit_norm()


def draw_patches(source: PatchSource, draws: int, generator: torch.Generator, options: BankOptions) -> Tensor:
    """Return the patches of many draws, positives first, shape (draws, positives + negatives, M)."""
    sizes = source.labels.bincount(source.weights)  # images per class, or their total weight
    few = len(sizes) <= torch.iinfo(torch.int16).max + 1
    labels = source.labels.short() if few else source.labels  # 16 bits are sorted three times as fast
    order = labels.argsort(stable=True)  # images by class
    classes = sizes.nonzero()[:, 0]
    starts = sizes.cumsum(0) - sizes
    ends = None if source.weights is None else source.weights[order].cumsum(0)
    chosen = classes[torch.randint(len(classes), (draws, 1), generator=generator)]  # one class per draw
    size, start = sizes[chosen], starts[chosen]

    def pick(samples: int, among: Tensor) -> Tensor:
        """Return uniform integers, or with weights numbers, below ``among`` (draws, 1), shape (draws, samples)."""
        uniform = torch.rand(draws, samples, generator=generator, dtype=torch.float64)
        return uniform * among if ends is not None else torch.minimum((uniform * among).long(), among - 1)

    positive = start + pick(options.positives, size)
    negative = pick(options.negatives, sizes.sum() - size)
    negative = torch.where(negative < start, negative, negative + size)  # skip the chosen class
    place = torch.cat([positive, negative], dim=1)
    if ends is not None:  # an image has a share of [0, Σ weights) as long as its weight
        place = torch.searchsorted(ends, place, right=True).clamp_max(len(order) - 1)
    image = order[place].flatten()
    row = torch.randint(source.rows, image.shape, generator=generator)
    column = torch.randint(source.columns, image.shape, generator=generator)
    patches = source.gather(image, row, column)
    return patches.view(draws, -1, patches.shape[1])


def discriminate(patches: Tensor, options: BankOptions) -> tuple[Tensor, Tensor, Tensor]:
    """Fit one LDA per draw of patches (draws, positives + negatives, M).

    Returns weights (draws, M), biases (draws,), and the fraction of each draw's patches on the wrong side (draws,).
    """
    ahead, behind = patches[:, : options.positives], patches[:, options.positives :]
    mean_ahead, mean_behind = ahead.mean(1), behind.mean(1)
    centred = torch.cat([ahead - mean_ahead[:, None], behind - mean_behind[:, None]], dim=1)
    weights = _within_solve(centred, mean_ahead - mean_behind, options.draw_ridge)
    midpoint = (mean_ahead + mean_behind) / 2
    bias = log(options.positives / options.negatives) - (weights * midpoint).sum(1)
    scores = (patches @ weights[..., None])[..., 0] + bias[:, None]
    wrong = torch.cat([scores[:, : options.positives] <= 0, scores[:, options.positives :] > 0], dim=1)
    solved = weights.isfinite().all(1) & bias.isfinite()
    return weights, bias, torch.where(solved, wrong.double().mean(1), torch.inf)


def _within_solve(centred: Tensor, difference: Tensor, ridge: float) -> Tensor:
    """Return (ZᵀZ/n + γI)⁻¹ m for each draw, in the smaller of M and n dimensions (Woodbury), shape (draws, M)."""
    _, n, dimension = centred.shape
    variance = centred.square().sum((1, 2)) / (n * dimension)
    # Without a ridge or without variance, use just enough for a solution to exist.
    gamma = (max(ridge, 1e-12) * variance).clamp_min(torch.finfo(centred.dtype).tiny ** 0.5)[:, None]
    if dimension <= n:
        scatter = centred.transpose(1, 2) @ centred / n
        scatter.diagonal(dim1=1, dim2=2).add_(gamma)
        solution: Tensor = torch.linalg.solve(scatter, difference)
        return solution
    inner = centred @ centred.transpose(1, 2)
    inner.diagonal(dim1=1, dim2=2).add_(n * gamma)
    projected: Tensor = torch.linalg.solve(inner, (centred @ difference[..., None])[..., 0])
    return (difference - (projected[:, None] @ centred)[:, 0]) / gamma
