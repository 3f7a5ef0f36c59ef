"""A network rebuilt by the loops of tests/naive.py from the filters it has learnt, with the options beyond the paper.

Heads are fitted anew, one inverted matrix each, so they check the trainer's own.
"""

from __future__ import annotations

import naive
import numpy as np

ACTIVATIONS = {"none": lambda x: x, "relu": lambda x: np.where(x > 0, x, 0), "abs": np.abs, "tanh": np.tanh}


def scaled(x, fitted):
    return (x - fitted.min()) / (fitted.max() - fitted.min())


def framed(x, k, dilation, border):
    """Return images with what lies around them, so that filters of k taps leave maps of the size of x."""
    span = (k - 1) * dilation + 1
    frame = (0, 0), (0, 0), ((span - 1) // 2, span // 2), ((span - 1) // 2, span // 2)
    return np.pad(x, frame, mode="edge" if border == "edge" else "constant")


def convolve(padded, weights, bias, dilation=1):
    """Return maps of framed images, tap by tap: a tap looks at the image shifted."""
    (n, _, height, width), k = padded.shape, weights.shape[-1]
    h, w = height - (k - 1) * dilation, width - (k - 1) * dilation
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
    """Return what a layer with LDA heads, fitted to the first images, would add at rate 1, shape (n, classes)."""
    n = len(labels)
    targets, signs = labels, np.ones(n, int)
    if number > 1:
        targets, signs = naive.residual_step(labels, output[:n], config.ceiling)
    spread = features[:n].std(0)
    features = features[:, spread > 1e-12] / spread[spread > 1e-12]
    correction = np.zeros_like(output)
    for sign in (1, -1):
        posterior = np.zeros_like(output)
        for c in range(output.shape[1]):
            member = (targets == c) & (signs == sign)
            if member.any():
                weights, bias = naive.binary_lda(features[:n], member, ridge_of(number, config))
                posterior[:, c] = 1 / (1 + np.exp(-(features @ weights + bias) / config.sigmoid_scale))
        if config.posterior == "normalised-sigmoid" and posterior.any():
            posterior /= posterior.sum(1, keepdims=True)
        correction += sign * np.mean(signs == sign) * posterior
    return correction


def ridge_corrections(features, labels, output, number, config):
    """Return the weighted regression of the first images' residuals, shape (n, classes)."""
    n = len(labels)
    residuals = config.ceiling * np.eye(output.shape[1])[labels] - output[:n]
    weights = np.ones(n)
    if number > 1:
        norms = np.sqrt((residuals**2).sum(1))
        weights = np.array([1 - config.margin_weights + config.margin_weights * r / norms.mean() for r in norms])
    mean = np.average(features[:n], 0, weights)
    spread = np.sqrt(np.average((features[:n] - mean) ** 2, 0, weights))
    z = (features - mean)[:, spread > 1e-12] / spread[spread > 1e-12]
    scatter = sum(w * np.outer(row, row) for w, row in zip(weights, z[:n], strict=True)) / n
    cross = sum(w * np.outer(row, r) for w, row, r in zip(weights, z[:n], residuals, strict=True)) / n
    solution = np.linalg.inv(scatter + ridge_of(number, config) * np.eye(len(scatter))) @ cross
    return z @ solution + np.average(residuals, 0, weights)


def ridge_of(number, config):
    return config.ridge * config.ridge_growth ** (number - 1)


def best_step(output, labels, correction, config):
    """Return the α in [0, 1] that brings outputs + α·corrections nearest to λY, found by trying."""
    wanted = config.ceiling * np.eye(output.shape[1])[labels]
    steps = np.linspace(0, 1, 100_001)
    a, b, c = (correction**2).sum(), ((wanted - output) * correction).sum(), ((wanted - output) ** 2).sum()
    return steps[np.argmin(a * steps**2 - 2 * b * steps + c)]


def naive_flow(images, labels, network, held_out):
    """Return the outputs after every layer, each (n + held out, classes): of images learnt from, then the others."""
    config, n = network.config, len(images)
    raw = np.concatenate([images, held_out[0]]).astype(np.float64)
    picture = scaled(raw, raw[:n])
    corrections_of = ridge_corrections if config.head == "ridge" else lda_corrections
    maps, outputs = None, [np.zeros((len(raw), network.classes))] * 2
    for number, layer in enumerate(network.layers, 1):
        alone = maps is None or (config.stack_depth and (number - 1) % config.stack_depth == 0)
        dilation = 1 if alone else config.dilation
        how = layer.weights.shape[-1], dilation, config.border
        x = framed(picture, *how)
        if not alone:
            activated = ACTIVATIONS[config.activation](maps)
            if config.border == "zero-before-scaling":
                first = scaled(framed(activated, *how), activated[:n])
            else:
                first = framed(scaled(activated, activated[:n]), *how)
            x = np.concatenate([first, x], 1)
        maps = convolve(x, layer.weights.numpy(), layer.bias.numpy(), dilation)
        start = outputs[-1] + config.momentum * (outputs[-1] - outputs[-2])
        correction = corrections_of(features_of(maps, config), labels, start, number, config)
        rate = config.rate_of(number)
        if config.step == "held-out":
            rate *= best_step(start[n:], held_out[1], correction[n:], config)
        outputs.append(start + rate * correction)
    return outputs[2:]
