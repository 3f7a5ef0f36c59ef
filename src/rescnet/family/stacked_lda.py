"""Stacked-LDA as a classifier (appendices A.1 and A.2): many small discriminants, then an LDA of their outputs.

"Another LDA can then be applied to the output of the first LDA to classify them back using the original classes." The
discriminants are those of the filter bank, drawn from whole samples instead of patches. In the paper, the second layer
sees the posteriors of the first: sigmoids of log-odds. In many dimensions, 34 samples are separated with log-odds of
hundreds, and posteriors become zeros and ones. We divide the scores of each discriminant by their standard deviation
first; this is our reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..stages.discriminant import LinearHead, fit_head, one_vs_rest_lda
from ..stages.filters import find_bank
from ..stages.moments import Moments
from .config import FamilyConfig
from .patches import StagePatches

ROWS = 4096  # samples per chunk


@dataclass(frozen=True)
class StackedLDA:
    """Two layers of LDA."""

    weights: Tensor  # first layer, (discriminants, M): its scores have unit variance over the training samples
    bias: Tensor  # (discriminants,)
    head: LinearHead  # second layer, on the posteriors of the first

    def scores(self, samples: Tensor) -> Tensor:
        """Return log-odds of each class for samples (n, M), shape (n, classes)."""
        return self.head.scores(first_posteriors(samples, self.weights, self.bias))

    def to(self, device: torch.device) -> StackedLDA:
        """Return the classifier on a device."""
        return StackedLDA(self.weights.to(device), self.bias.to(device), self.head.to(device))


def first_posteriors(samples: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Return the posteriors of the first layer, shape (n, discriminants)."""
    return torch.sigmoid(torch.addmm(bias, samples, weights.T))


def fit_lda(
    chunks: Iterable[tuple[Tensor, Tensor]], classes: int, ridge: float, kind: type[Moments] = Moments
) -> LinearHead:
    """Fit a one-vs-rest LDA to chunks of features (n, D) and labels (n,), of which sums of this kind are held."""
    moments: Moments | None = None
    for features, labels in chunks:
        if moments is None:
            moments = kind.zeros(features.mean(0), classes)
        moments.add(features, torch.nn.functional.one_hot(labels, classes).to(features))
    assert moments is not None
    head, _ = fit_head(moments, one_vs_rest_lda, ridge)
    return head


def fit_stacked_lda(
    samples: Tensor, labels: Tensor, classes: int, config: FamilyConfig, generator: torch.Generator
) -> StackedLDA:
    """Learn both layers from samples (n, M) and their labels (n,)."""
    count, n = config.discriminants, len(samples)
    whole = samples[:, :, None, None]  # images of one pixel, which is their only patch
    source = StagePatches(lambda index: whole[index], labels.cpu(), 1, (samples.shape[1], 1, 1), 1, "plain", n)
    drawn = find_bank("stacked-lda")(source, count, generator, config.bank_options)
    weights, bias = (part.to(samples.device, samples.dtype) for part in (drawn.weights, drawn.bias))
    total, square = samples.new_zeros(count).double(), samples.new_zeros(count).double()
    for part in torch.split(samples, ROWS):
        scores = torch.addmm(bias, part, weights.T).double()
        total, square = total + scores.sum(0), square + scores.square().sum(0)
    variance = square / n - (total / n).square()
    scale = torch.where(variance > 0, variance.clamp_min(1e-12).rsqrt(), 0).to(samples.dtype)
    weights, bias = weights * scale[:, None], bias * scale
    parts = zip(torch.split(samples, ROWS), torch.split(labels, ROWS), strict=True)
    chunks = ((first_posteriors(part, weights, bias), part_labels) for part, part_labels in parts)
    return StackedLDA(weights, bias, fit_lda(chunks, classes, config.ridge))
