"""Slow, obvious references: loops that read like the paper's sentences, in float64."""

from __future__ import annotations

from math import ceil, floor, log

import numpy as np


def patches(x, k):
    """(n, c, h, w) → list of vectors, image by image, row by row."""
    n, _, h, w = x.shape
    return [
        [x[i, :, r : r + k, q : q + k].ravel() for r in range(h - k + 1) for q in range(w - k + 1)] for i in range(n)
    ]


def covariance(vectors):
    vectors = np.asarray(vectors)
    mean = vectors.mean(0)
    total = np.zeros((len(mean), len(mean)))
    for v in vectors:
        total += np.outer(v - mean, v - mean)
    return total / len(vectors)


def convolve(x, weights, bias):
    """Cross-correlation, zero padding, same size; an even filter reaches one pixel further down and right."""
    n, _, h, w = x.shape
    d, _, k, _ = weights.shape
    before = (k - 1) // 2
    out = np.zeros((n, d, h, w)) + bias[None, :, None, None]
    for y in range(h):
        for q in range(w):
            for a in range(k):
                for b in range(k):
                    yy, xx = y + a - before, q + b - before
                    if 0 <= yy < h and 0 <= xx < w:
                        out[:, :, y, q] += x[:, :, yy, xx] @ weights[:, :, a, b].T
    return out


def second_order(maps, block, stride, z_score, diagonal):
    """(n, d, h, w) → (n, block rows, block columns, pairs): z-score each block, covariance, upper triangle."""
    n, d, h, w = maps.shape
    (r, c), (sy, sx) = block, stride
    out = []
    for i in range(n):
        grid = []
        for top in range(0, h - r + 1, sy):
            line = []
            for left in range(0, w - c + 1, sx):
                x = maps[i, :, top : top + r, left : left + c].reshape(d, r * c).T  # rc × d
                z = np.zeros_like(x)
                if z_score == "channel":
                    for ch in range(d):
                        sigma = x[:, ch].std()
                        if sigma > 0.01 * maps[i, ch].std():
                            z[:, ch] = (x[:, ch] - x[:, ch].mean()) / sigma
                elif x.std() > 1e-12:
                    z = (x - x.mean()) / x.std()
                    for ch in range(d):
                        if x[:, ch].std() <= 0.01 * maps[i, ch].std():
                            z[:, ch] = 0
                z = z - z.mean(0)
                cov = z.T @ z / (r * c)
                line.append([cov[a, b] for a in range(d) for b in range(a if diagonal else a + 1, d)])
            grid.append(line)
        out.append(grid)
    return np.array(out)


def pyramid_official(blocks, map_size, block, stride, levels, reduction):
    """PCANet's binning; empty cells left out. (n, R, C, pairs) → (n, cells·pairs)."""
    n, rows, columns, _ = blocks.shape
    cells = []
    for p in levels:
        for cy in range(1, p + 1):
            for cx in range(1, p + 1):
                members = [
                    blocks[:, a, b]
                    for a in range(rows)
                    for b in range(columns)
                    if ceil((ceil(block[0] / 2) + stride[0] * a) / (map_size[0] / p)) == cy
                    and ceil((ceil(block[1] / 2) + stride[1] * b) / (map_size[1] / p)) == cx
                ]
                if members:
                    cells.append(np.max(members, 0) if reduction == "max" else np.mean(members, 0))
    return np.stack(cells, 1).reshape(n, -1)


def pyramid_adaptive(blocks, levels, reduction):
    n, rows, columns, _ = blocks.shape
    cells = []
    for p in levels:
        for cy in range(p):
            for cx in range(p):
                part = blocks[
                    :,
                    floor(cy * rows / p) : ceil((cy + 1) * rows / p),
                    floor(cx * columns / p) : ceil((cx + 1) * columns / p),
                ]
                cells.append(part.max((1, 2)) if reduction == "max" else part.mean((1, 2)))
    return np.stack(cells, 1).reshape(n, -1)


def binary_lda(features, is_member, ridge):
    """Log-odds of membership: pooled within covariance + ridge·I, inverted outright. Returns (weights, bias)."""
    one, zero = features[is_member], features[~is_member]
    m1, m0 = one.mean(0), zero.mean(0)
    within = np.zeros((features.shape[1],) * 2)
    for rows, mean in ((one, m1), (zero, m0)):
        for f in rows:
            within += np.outer(f - mean, f - mean)
    within = within / len(features) + ridge * np.eye(features.shape[1])
    weights = np.linalg.inv(within) @ (m1 - m0)
    return weights, log(len(one) / len(zero)) - 0.5 * weights @ (m1 + m0)


def residual_step(labels, output, ceiling):
    """New label and sign of each image (equations 5 to 7)."""
    new, signs = [], []
    for label, row in zip(labels, output, strict=True):
        r = [ceiling * (c == label) - row[c] for c in range(len(row))]
        worst = max(range(len(r)), key=lambda c: abs(r[c]))
        new.append(worst)
        signs.append(1 if r[worst] >= 0 else -1)
    return np.array(new), np.array(signs)


def lda_correction(features, labels, output, number, config):
    """Correction of a layer with one-vs-rest LDA heads, fitted to the first images; (n, classes)."""
    n, correction = len(labels), np.zeros_like(output)
    targets, signs = (labels, np.ones(n, int)) if number == 1 else residual_step(labels, output[:n], config.ceiling)
    spread = features[:n].std(0)
    features = features[:, spread > 1e-12] / spread[spread > 1e-12]
    for sign in (1, -1):
        posterior = np.zeros_like(output)
        for c in range(output.shape[1]):
            member = (targets == c) & (signs == sign)
            if member.any():
                weights, bias = binary_lda(features[:n], member, config.ridge)
                posterior[:, c] = 1 / (1 + np.exp(-(features @ weights + bias) / config.sigmoid_scale))
        if config.posterior == "normalised-sigmoid" and posterior.any():
            posterior /= posterior.sum(1, keepdims=True)
        correction += sign * np.mean(signs == sign) * posterior
    return correction


def ridge_correction(features, labels, output, number, config):
    """Ridge regression of the first images' residuals; (n, classes)."""
    n = len(labels)
    residuals = config.ceiling * np.eye(output.shape[1])[labels] - output[:n]
    spread = features[:n].std(0)
    z = (features - features[:n].mean(0))[:, spread > 1e-12] / spread[spread > 1e-12]
    scatter = sum(np.outer(row, row) for row in z[:n]) / n
    cross = sum(np.outer(row, r) for row, r in zip(z[:n], residuals, strict=True)) / n
    return z @ np.linalg.inv(scatter + config.ridge * np.eye(len(scatter))) @ cross + residuals.mean(0)


def network_outputs(images, labels, network, new):
    """Outputs after every layer, each (n, classes), of the training images and then the new ones.

    Filters are those of the network. Heads are fitted again, each with an inverted matrix, so they check the trainer's.
    """

    def scaled(x):
        return (x - x[: len(images)].min()) / (x[: len(images)].max() - x[: len(images)].min())

    config = network.config
    correct = ridge_correction if config.head == "ridge" else lda_correction
    block, stride = (config.block_sizes[0],) * 2, (config.block_stride,) * 2
    picture = scaled(np.concatenate([images, new]).astype(np.float64))
    maps, output, outputs = None, np.zeros((len(picture), network.classes)), []
    for number, layer in enumerate(network.layers, 1):
        x = picture
        if number > 1 and not (config.stack_depth and (number - 1) % config.stack_depth == 0):
            parts = (maps, picture) if config.scaling == "global" else (scaled(maps), picture)
            x = np.concatenate(parts, 1)
            x = scaled(x) if config.scaling == "global" else x
        maps = convolve(x, layer.weights.numpy(), layer.bias.numpy())
        blocks = second_order(np.maximum(maps, 0), block, stride, "channel", False)
        features = pyramid_official(blocks, maps.shape[2:], block, stride, config.pyramid, "max")
        output = output + config.rate_of(number) * correct(features, labels, output, number, config)
        outputs.append(output)
    return outputs


def code_histograms(maps, bits, block, stride, zero=1e-5):
    """PCANet's output: (n, groups·bits, h, w) → (n, groups, block rows, block columns, 2^bits); above zero is 1."""
    n, channels, h, w = maps.shape
    groups, (r, c), (sy, sx) = channels // bits, block, stride
    out = np.zeros((n, groups, (h - r) // sy + 1, (w - c) // sx + 1, 2**bits))
    for i in range(n):
        for g in range(groups):
            code = np.zeros((h, w), int)
            for bit in range(bits):
                code += 2 ** (bits - 1 - bit) * (maps[i, g * bits + bit] > zero)
            for a, top in enumerate(range(0, h - r + 1, sy)):
                for b, left in enumerate(range(0, w - c + 1, sx)):
                    for value in code[top : top + r, left : left + c].ravel():
                        out[i, g, a, b, value] += 1
    return out
