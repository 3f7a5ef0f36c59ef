"""Algorithm 1 on one page: the paper's network, learned layer by layer from the residual of the layers before.

Made of the functions of :mod:`rescnet.stages` alone, in float64, with all images in memory. It is here to be read, and
to test :func:`rescnet.train` by, which learns the same network in chunks, on several machines, and in less time. What
goes beyond the paper is left out. Numbers in brackets are the paper's equations::

    N, C, L      images, classes, layers             X, O, F    input, maps and features of a layer
    λ, α         ceiling, learning rate              W, B       its filters and their constants
    σ, β         scales of sigmoid and softmax       R, T, s    residual, new label, sign
    d, k, γ      filters, their side, ridge          Y, Ỹ       one-hot labels, output
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .config.network import NetworkConfig
from .config.option import OptionError
from .stages.convolution import convolve
from .stages.discriminant import HEADS, LinearHead, fit_head, posteriors
from .stages.filters import BankOptions, layer_generator, learn_filters
from .stages.images import ValueRange, concatenate, min_max_scale
from .stages.moments import Moments
from .stages.patches import ImagePatches
from .stages.pooling import pool_features
from .stages.residual import compensate, labels_and_signs, one_hot, residual, signed_one_hot

PAPER = {
    "head": ("lda", "multiclass-lda"),
    "stack_depth": (0,),
    "grey_stack_every": (0,),
    "rectifier": ("relu",),
    "matrix_log": (False,),
    "augment": ("",),
    "test_views": ("",),
    "readout": ("heads",),
}


class Layer(NamedTuple):
    """Everything that one layer has learned."""

    span: ValueRange  # of the input X, which is scaled to [0, 1]
    W: Tensor  # (d, c, k, k)
    B: Tensor  # (d,)
    LDA: LinearHead  # C classifiers of positive samples, then C of negative ones
    α: float
    share: float  # n_p/N; n_n/N is the rest


def train(images: Tensor, labels: Tensor, config: NetworkConfig) -> tuple[list[Layer], Tensor]:
    """Learn a network (Algorithm 1).

    Parameters
    ----------
    images : Tensor, shape (N, channels, height, width)
    labels : Tensor of int64, shape (N,)
        Classes from 0 to C - 1.
    config : NetworkConfig
        The paper's options only.

    Returns
    -------
    layers : list of Layer
        They end early if there is no training error and ``stop_at_zero_error`` is set.
    Ỹ : Tensor, shape (N, C)
        Output of the last layer for the training images; the class of an image is where it is largest.
    """
    for name, values in PAPER.items():
        if getattr(config, name) not in values:
            raise OptionError(name, f"must be {' or '.join(map(repr, values))}, got {getattr(config, name)!r}.")
    N, C, L, λ, γ = len(images), int(labels.max()) + 1, config.layers, config.ceiling, config.ridge
    Y = one_hot(labels, C, torch.float64)
    T, s = labels, torch.ones(N, dtype=torch.bool)  # of layer 1: the classes, all positive
    Ỹ, O, image = torch.zeros_like(Y), None, images.double()
    layers: list[Layer] = []
    for i in range(1, L + 1):
        if i > 1:
            R = residual(Y, Ỹ, λ)  # (5)
            T, s = labels_and_signs(R)  # (6), (7), (9), (10)
        X = concatenate(O, image)  # section 2.3.1
        span = ValueRange.of(X).with_scope(config.scaling, maps=0 if O is None else config.filters)
        X = min_max_scale(X, span)  # section 3.2.1
        image = X if O is None else image
        W, B = filters(X, labels, i, config)
        O = convolve(X, W, B)  # (2), (15)
        F = features(O, config)
        sums = Moments.zeros(F.mean(0), 2 * C)
        sums.add(F, signed_one_hot(T, s, C, F.dtype))
        LDA, _ = fit_head(sums, HEADS[config.head], γ)
        α, share = config.rate_of(i), int(s.sum()) / N  # (13)
        layers.append(Layer(span, W, B, LDA, α, share))
        Ỹ = corrected(Ỹ, F, layers[-1], config)
        if config.stop_at_zero_error and bool((Ỹ.argmax(1) == labels).all()):
            break
    return layers, Ỹ


def predict(images: Tensor, layers: list[Layer], config: NetworkConfig) -> Tensor:
    """Return the output Ỹ of a network for any images (n, channels, height, width), shape (n, C)."""
    Ỹ, O, image = torch.zeros(len(images), len(layers[0].LDA.bias) // 2).double(), None, images.double()
    for layer in layers:
        X = min_max_scale(concatenate(O, image), layer.span)
        image = X if O is None else image
        O = convolve(X, layer.W, layer.B)
        Ỹ = corrected(Ỹ, features(O, config), layer, config)
    return Ỹ


def filters(X: Tensor, labels: Tensor, i: int, config: NetworkConfig) -> tuple[Tensor, Tensor]:
    """Learn W (d, c, k, k) and B (d,) of layer i from its input X (N, c, h, w): (1), (3), (14), Algorithm 2."""
    patches = ImagePatches(X, labels, config.size_of_filter(i))
    generator, options = layer_generator(config.seed, i), BankOptions.of(config)
    learned = learn_filters(config.bank_of(i), patches, config.filters, generator, options)
    return learned.weights.view(-1, patches.channels, patches.size, patches.size), learned.bias


def features(O: Tensor, config: NetworkConfig) -> Tensor:
    """Return F (n, D): maps O (n, d, h, w), rectified, second-order pooled, and in a pyramid (section 2.3.2)."""
    return pool_features(O, config.grids((O.shape[2], O.shape[3])), "channel", False, config.pooling)


def corrected(Ỹ: Tensor, F: Tensor, layer: Layer, config: NetworkConfig) -> Tensor:
    """Return Ỹ⁽ⁱ⁾ (n, C) from Ỹ⁽ⁱ⁻¹⁾ and the features F of layer i (section 2.3.3)."""
    scores, (σ, β) = layer.LDA.scores(F), (config.sigmoid_scale, config.softmax_scale)
    Ỹ_p, Ỹ_n = posteriors(scores, layer.LDA.present, config.posterior, σ, β)  # (4), (12)
    return compensate(Ỹ, layer.α, layer.share, Ỹ_p, 1 - layer.share, Ỹ_n)  # (8), (11)
