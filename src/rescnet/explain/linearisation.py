"""Linear functions that add up to a prediction, from which its explanation is computed.

Everything adds up. The output of a class is the sum of its map plus an intercept. Layers with ridge heads are linear in
their features, so their map is a sum over pixels (:mod:`rescnet.explain.attribution`). The posterior of an LDA score is
replaced by its chord from a score of zero. A kernel readout is replaced by its mean slope between the mean training
image and this image, which is exact in the sum (integrated gradients).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from ..base.errors import DataError
from ..config.grammars import MIRROR, View
from ..network.inputs import Array, as_images
from ..network.network import Network
from ..network.readout import KernelReadout, views_of
from ..network.stack import Layer, LayerStack, Step
from ..numerics.code_kernel import code_kernel
from ..numerics.sketch import sketch
from ..stages.augment import view_images
from ..stages.convolution import rectify
from ..stages.discriminant import sigmoid_posterior
from ..stages.pooling import pooling_input
from .attribution import pixel_shares
from .explanation import Explanation, Neighbour, Numbers, Part

MOST_MAPS = 10  # classes with a map
NEIGHBOURS = 5
NODES = 24  # of the integral along the line from the mean training image


@torch.inference_mode()
def explain(
    network: Network,
    image: Array,
    class_names: Sequence[str] | None = None,
    files: Sequence[str] = (),
    maps: int = MOST_MAPS,
) -> Explanation:
    """Explain the prediction of one image (channels, height, width), in the units of the training images.

    It is computed in full precision. ``files`` are the names of the training images, if they are known. ``maps`` is the
    number of classes with a map, those with the largest outputs.
    """
    images = as_images(image if len(image.shape) == 4 else image[None], network.image_shape)
    if len(images) != 1:
        raise DataError(f"image must be one image, got {len(images)}.")
    used = network.first_layers(network.used_layers)
    used = replace(used, stack=replace(used.stack, half=False))
    outputs, readout = used.outputs(images)[0], used.readout
    shown = outputs.argsort(descending=True, stable=True)[:maps]
    names = tuple(map(str, range(network.classes)) if class_names is None else class_names)
    seen = _Views.of(used, images.to(outputs.device))
    layer_outputs = torch.stack([step.output.mean(0) for step in seen.steps])  # (layers, C)
    of_layers = seen.part(layer_outputs[-1], shown, *_linear_layers(seen, shown))
    rest, of_readout, nearest, influential = outputs - layer_outputs[-1], None, [], []
    if readout is not None:
        compared = _Compared(seen, readout)
        of_readout = seen.part(rest, shown, *compared.linear(shown))
        nearest, influential = compared.neighbours(int(shown[0]), names, files)
    return Explanation(
        images[0].cpu().numpy(),
        names,
        _numbers(outputs),
        _numbers(used.probabilities(outputs[None].cpu())[0]),
        _numbers(layer_outputs),
        tuple(shown.tolist()),
        of_layers,
        of_readout,
        tuple(nearest),
        tuple(influential),
    )


@dataclass(frozen=True)
class _Views:
    """One image in the views that a prediction is the mean of, after all layers."""

    network: Network
    changes: list[tuple[View, ...]]  # that make each view, one after the other
    steps: list[Step]  # of all views, by layer

    @staticmethod
    def of(network: Network, image: Tensor) -> _Views:
        """Pass an image (1, channels, h, w) through the layers."""
        readout, config = network.readout, network.config
        mirrors: list[tuple[View, ...]] = [(), (MIRROR,)] if readout and readout.mirrored else [()]
        own = config.views if readout is None else views_of(config, readout.mirrored)
        changes = [(view, *mirror) for view in own for mirror in mirrors]
        views = torch.cat([_change(image, change) for change in changes])
        return _Views(network, changes, list(network.stack.steps(views)))

    def part(self, outputs: Tensor, shown: Tensor, weights: list[list[Tensor]], intercept: Tensor) -> Part:
        """Return a part with these outputs (C,), which for classes shown are f·W + intercept (K,), a mean over views.

        ``weights`` are W (D, K) by layer and view.
        """
        stack, (_, *size) = self.network.stack, self.network.image_shape
        config, total = stack.config, outputs.new_zeros(len(shown), *size)
        for step, of_views in zip(self.steps, weights, strict=False):
            maps = rectify(pooling_input(step.maps, config.rectifier))
            for pooled, change, weight in zip(maps, self.changes, of_views, strict=True):
                shares = pixel_shares(
                    pooled, config.grids((size[0], size[1])), weight, config.pooling, config.matrix_log
                )
                total += _change_back(shares, change) / len(self.changes)
        return Part(_numbers(outputs), _numbers(total), _numbers(intercept))


def _linear_layers(seen: _Views, shown: Tensor) -> tuple[list[list[Tensor]], Tensor]:
    """Return W (D, K) of each layer and view, and the intercept (K,), that give Ỹ of the classes shown."""
    stack = seen.network.stack
    layers = [
        [_linear_layer(stack, layer, features, shown) for features in step.features]
        for layer, step in zip(stack.layers, seen.steps, strict=True)
    ]
    intercept = torch.stack([bias for layer in layers for _, bias in layer]).sum(0) / len(seen.changes)
    return [[weights for weights, _ in layer] for layer in layers], intercept


def _linear_layer(stack: LayerStack, layer: Layer, features: Tensor, shown: Tensor) -> tuple[Tensor, Tensor]:
    """Return W (D, K) and b (K,) of one layer: f·W + b is what it adds to Ỹ, at these features f (D,).

    A posterior g of an LDA score s is g(0) + (g(s) - g(0))/s·s; the sum over classes that divides it is kept.
    """
    config, head = stack.config, layer.head
    if config.head == "ridge":
        return layer.rate * head.weights[:, shown], layer.rate * head.bias[shown]
    scores = head.scores(features[None])
    posterior = torch.cat(stack.posteriors(scores, head.present), dim=1)[0].double()
    exact, scores = head.weights.dtype, scores[0].double()
    if config.posterior == "softmax":
        at_zero, slope = posterior * (-config.softmax_scale * scores).exp(), config.softmax_scale
    else:
        own = sigmoid_posterior(scores, torch.ones_like(head.present), config.sigmoid_scale)
        at_zero, slope = posterior * 0.5 / own, 0.5 / config.sigmoid_scale
    near = scores.abs() < 1e-6
    slopes = torch.where(near, at_zero * slope, (posterior - at_zero) / torch.where(near, 1, scores))
    share = layer.rate * layer.positive_share
    signs = slopes.new_tensor([share, share - layer.rate])[:, None]
    slopes, at_zero = (part.view(2, -1)[:, shown] * signs for part in (slopes, at_zero))
    weights, bias = head.weights.view(-1, 2, stack.classes)[:, :, shown], head.bias.view(2, -1)[:, shown]
    return (weights * slopes.to(exact)).sum(1), (at_zero.to(exact) + bias * slopes.to(exact)).sum(0)


class _Compared:
    """One image, in the m views that differ to a kernel readout, compared with the training images."""

    def __init__(self, seen: _Views, readout: KernelReadout) -> None:
        first = seen.network.layers[0].weights
        self.seen, self.readout = seen, readout
        self.ready = ready = readout.ready_for(first.device, first.dtype)
        size = readout.encoder.sketch_size
        sketches = [sketch(step.features, w, size) for step, w in zip(seen.steps, ready.encoder.weights, strict=True)]
        self.sketches = torch.cat(sketches, 1).view(-1, 1 + readout.mirrored, size * len(sketches)).mean(1)  # (m, P)
        self.codes = ready.encoder.codes(self.sketches, ready.projection, ready.lengths)
        self.kernel = code_kernel(self.codes, ready.centres, readout.scale)  # (m, N)

    def linear(self, shown: Tensor) -> tuple[list[list[Tensor]], Tensor]:
        """Return W (D, K) of each layer and view, and the intercept (K,), that give the readout's outputs."""
        readout, of_sketches = self.readout, self.ready.encoder.weights
        of_views = [self._slopes(view, shown) for view in range(len(self.sketches))]
        weights = [
            [
                torch.cat([part] * -(-len(w) // len(part)))[: len(w)] * w[:, None]
                for slopes, _ in of_views
                for part in [slopes.view(len(of_sketches), -1, len(shown))[layer]]
                for _ in range(1 + readout.mirrored)
            ]
            for layer, w in enumerate(of_sketches)
        ]
        intercept = torch.stack([constant for _, constant in of_views]).mean(0)
        if readout.correction is not None:
            plain = self.kernel @ self.ready.coefficients
            plain += self.seen.steps[-1].output.view(len(plain), -1, plain.shape[1]).mean(1)
            intercept += (readout.correction(plain) - plain).mean(0)[shown]
        return weights, intercept

    def _slopes(self, view: int, shown: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean slopes (P, K) of Σᵢ aᵢ k on the line from the mean sketch to a view's, and the rest (K,).

        At t of the line, k = exp(-s(t²‖c‖² - 2t c·cᵢ + ‖cᵢ‖²)). The mean over t is a sum over nodes of Gauss.
        """
        encoder, scale, projection = self.ready.encoder, self.readout.scale, self.ready.projection
        centres, code = self.ready.centres, self.codes.values[view]
        nodes, steps = (torch.from_numpy(each).to(code.device) for each in leggauss(NODES))
        t, steps = (nodes + 1) / 2, steps / 2
        coefficients, squares = self.ready.coefficients[:, shown].double(), centres.norms.double()
        products = (centres.values @ code).double()
        far = t[:, None] ** 2 * self.codes.norms[view].double() - 2 * t[:, None] * products + squares
        kernel = torch.exp(-scale * far.clamp_min(0))  # (nodes, N)
        own = (steps * t) @ (kernel @ coefficients)  # (K,)
        others = centres.values.T @ ((steps @ kernel)[:, None] * coefficients).to(code.dtype)  # (r, K)
        centred = self.sketches[view] - encoder.centre.to(code.dtype)
        gradient = projection @ code  # of ‖c‖²/2
        if encoder.outside:
            lengths = projection.square().sum(0)
            gradient = gradient + encoder.outside * (centred - projection @ (code / lengths))
        slopes = 2 * scale * (projection @ others - gradient[:, None] * own.to(code.dtype))
        return slopes, (-scale * squares).exp() @ coefficients - encoder.centre.to(code.dtype) @ slopes

    def neighbours(self, best: int, names: Sequence[str], files: Sequence[str]) -> list[list[Neighbour]]:
        """Return the nearest training images, and those with the largest share in the output of a class."""
        rows, centres, readout = self.seen.network.config.rows_per_image, self.ready.centres, self.readout
        nearness = self.kernel.mean(0).view(-1, rows).amax(1)
        shares = (self.kernel.mean(0) * self.ready.coefficients[:, best]).view(-1, rows).sum(1)
        lists = []
        for order in (nearness, shares.abs()):
            chosen = order.topk(min(NEIGHBOURS, len(order))).indices
            own = self.ready.coefficients[chosen * rows]
            if readout.ridge_factors is not None:
                own = own * readout.ridge_factors.to(own)[chosen * rows, None]
            # The system that was solved, (K + εW⁻¹)·a = Y - Ỹ, gives the training images' classes back.
            right = code_kernel(centres[chosen * rows], centres, readout.scale) @ self.ready.coefficients
            labels = (right + readout.ridge * own).argmax(1).tolist()
            lists.append(
                [
                    Neighbour(
                        index,
                        names[label],
                        float(nearness[index]),
                        float(shares[index]),
                        *map(str, files[index : index + 1]),
                    )
                    for index, label in zip(chosen.tolist(), labels, strict=True)
                ]
            )
        return lists


def _change(image: Tensor, changes: Sequence[View]) -> Tensor:
    """Return a view of images (n, channels, h, w)."""
    for change in changes:
        image = view_images(image, change)
    return image


def _change_back(maps: Tensor, changes: Sequence[View]) -> Tensor:
    """Return the maps (K, h, w) of a view as maps of the image: each share is added to the pixel it was taken from."""
    height, width = maps.shape[1:]
    places = torch.arange(height * width, device=maps.device).view(1, 1, height, width)
    source = _change(places, changes).flatten()
    return torch.zeros_like(maps.flatten(1)).index_add_(1, source, maps.flatten(1)).view_as(maps)


def _numbers(tensor: Tensor) -> Numbers:
    numbers: Numbers = tensor.double().cpu().numpy()
    return numbers
