"""A network rebuilt by the loops of tests/naive.py from the filters it has learnt, with the options beyond the paper.

Heads are fitted anew, one inverted matrix each, so they check the trainer's own.
"""

from __future__ import annotations

import naive
import numpy as np

ACTIVATIONS = {"none": lambda x: x, "relu": lambda x: np.where(x > 0, x, 0), "abs": np.abs, "tanh": np.tanh}


def scaled(x):
    return (x - x.min()) / (x.max() - x.min())


def convolve(x, weights, bias, dilation=1):
    """Return same-size maps, tap by tap: a tap looks at the image shifted, zero outside."""
    (n, _, h, w), k = x.shape, weights.shape[-1]
    span = (k - 1) * dilation + 1
    padded = np.pad(x, ((0, 0), (0, 0), ((span - 1) // 2, span // 2), ((span - 1) // 2, span // 2)))
    maps = np.tile(bias[None, :, None, None], (n, 1, h, w)).astype(np.float64)
    for i in range(k):
        for j in range(k):
            top, left = i * dilation, j * dilation
            maps += np.einsum("nchw,dc->ndhw", padded[:, :, top : top + h, left : left + w], weights[:, :, i, j])
    return maps


def features_of(maps, config):
    block, stride = (config.block_size,) * 2, (config.block_stride,) * 2
    blocks = naive.second_order(np.maximum(maps, 0), block, stride, "channel", False)
    return naive.pyramid_official(blocks, maps.shape[2:], block, stride, config.pyramid, "max")


def lda_corrections(features, labels, output, number, config):
    """Return what a layer with LDA heads would add at rate 1, shape (n, classes)."""
    targets, signs = labels, np.ones(len(labels), int)
    if number > 1:
        targets, signs = naive.residual_step(labels, output, config.ceiling)
    correction = np.zeros_like(output)
    for sign in (1, -1):
        for c in range(output.shape[1]):
            member = (targets == c) & (signs == sign)
            if member.any():
                weights, bias = naive.binary_lda(features, member, config.ridge)
                posterior = 1 / (1 + np.exp(-(features @ weights + bias) / config.sigmoid_scale))
                correction[:, c] += sign * np.mean(signs == sign) * posterior
    return correction


def naive_flow(images, labels, network):
    """Return the outputs after every layer, each (n, classes)."""
    config = network.config
    picture = scaled(images.astype(np.float64))
    maps, outputs = None, [np.zeros((len(images), network.classes))]
    for number, layer in enumerate(network.layers, 1):
        x = picture
        if maps is not None and not (config.restart_every and (number - 1) % config.restart_every == 0):
            x = np.concatenate([scaled(ACTIVATIONS[config.activation](maps)), picture], 1)
        maps = convolve(x, layer.weights.numpy(), layer.bias.numpy())
        features = features_of(maps, config)
        spread = features.std(0)
        features = features[:, spread > 1e-12] / spread[spread > 1e-12]
        correction = lda_corrections(features, labels, outputs[-1], number, config)
        outputs.append(outputs[-1] + config.rate_of(number) * correction)
    return outputs[1:]
