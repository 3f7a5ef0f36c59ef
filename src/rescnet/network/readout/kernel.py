"""Kernel readout: Gaussian-kernel ridge regression on short codes of the images.

The layers' heads are linear in their own features. The readout compares an image with every training image by a code
of all layers' features, and interpolates in that metric the residual Y - Ỹ that the layers leave. The model holds codes
and coefficients; it holds no training image. Beyond the paper.

Features F of a layer become a sketch (:mod:`rescnet.numerics.sketch`). The sketches of all layers, P numbers, are
centred and multiplied by a matrix (P, r): their principal components, partly whitened, and with many images a learned
metric of them. That is the code. If mirror images are the same class, the mean sketch of both is used, so both have the
same code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ...config.grammars import MIRROR, View
from ...config.network import NetworkConfig
from ...fused import sketch_features
from ...numerics.code_kernel import Codes, code_kernel
from ...numerics.linear_algebra import product
from ...numerics.threads import in_threads
from ...stages.augment import mean_of_views, view_images
from ...stages.moments import column_squares
from ..stack import LayerStack
from .loo_correction import LeaveOneOutCorrection

ENTRIES = 2**28  # of the kernel at a time
TOGETHER = 256  # images that are projected together: the projection is read once for all


@dataclass(frozen=True, eq=False)
class Quantised:
    """A matrix of eight-bit integers with a step per column: entry (i, k) is ``integers[i, k] * steps[k]``."""

    integers: Tensor  # int8, (n, r)
    steps: Tensor  # (r,)

    @staticmethod
    def of(matrix: Tensor, largest: Tensor | None = None) -> Quantised:
        """Round a matrix (n, r); ``largest`` (r,) are the largest absolute values of its columns."""
        largest = matrix.abs().amax(0) if largest is None else largest
        steps = (largest / 127).clamp_min(torch.finfo(torch.float32).tiny)
        return Quantised((matrix / steps).round_().clamp_(-127, 127).to(torch.int8), steps)

    def values(self, dtype: torch.dtype) -> Tensor:
        """Return the matrix in a floating type, shape (n, r)."""
        values = self.integers.to(dtype)
        return values.mul_(self.steps.to(dtype))

    def to(self, device: torch.device) -> Quantised:
        """Return it on a device."""
        return Quantised(self.integers.to(device), self.steps.to(device))


@dataclass(frozen=True, eq=False)
class Encoder:
    """The map from an image's features to its code.

    Attributes
    ----------
    weights : Tensor, shape (layers, D)
        w of each layer's sketch.
    centre : Tensor, shape (P,)
        Mean of the training images' sketches.
    projection : Quantised, shape (P, r)
    mirrored : bool
        True if a sketch is the mean of an image's own and its mirror image's, so that both have one code.
    outside : float
        Weight of the part of a sketch that no component describes; it is added to the squared distances. Components
        that are as many as the training images describe those completely, but not new ones, which would look too near.
    """

    weights: Tensor
    centre: Tensor
    projection: Quantised
    mirrored: bool
    outside: float = 0.0

    @property
    def sketch_size(self) -> int:
        """Numbers per layer of a sketch."""
        return len(self.centre) // len(self.weights)

    def codes(self, sketches: Tensor, projection: Tensor, lengths: Tensor | None = None) -> Codes:
        """Return the codes of sketches (n, P), by the projection in the type to compute in.

        ``lengths`` (r,) are :func:`lengths_of` the projection, if they are known: they cost as much as many images.
        """
        centred = sketches - self.centre.to(sketches)
        if projection.dtype == torch.float16:
            codes = Codes.of(product(centred.half(), projection).half())
        else:
            codes = Codes.of(centred.to(projection.dtype) @ projection)
        if not self.outside:
            return codes
        wide = codes.norms.dtype  # the components are orthogonal, times a factor each
        lengths = lengths_of(projection) if lengths is None else lengths
        inside = (codes.values.to(wide) / lengths).square().sum(1)
        rest = (centred.to(wide).square().sum(1) - inside).clamp_min(0)
        return Codes(codes.values, codes.norms + self.outside * rest)

    def to(self, device: torch.device) -> Encoder:
        """Return it on a device."""
        return replace(
            self,
            weights=self.weights.to(device),
            centre=self.centre.to(device),
            projection=self.projection.to(device),
        )


def lengths_of(projection: Tensor) -> Tensor:
    """Return the length of each component of a projection (P, r), in single precision at least."""
    wide = torch.float32 if projection.dtype == torch.float16 else projection.dtype
    return column_squares(projection, wide).sqrt()


@dataclass(frozen=True)
class _Ready:
    """The tensors of a readout on one device, in the types to compute in."""

    device: torch.device
    dtype: torch.dtype
    encoder: Encoder
    projection: Tensor
    lengths: Tensor | None  # of the components, if codes need them
    centres: Codes
    coefficients: Tensor
    correction: LeaveOneOutCorrection | None


@dataclass(frozen=True, eq=False)
class KernelReadout:
    """A fitted kernel readout.

    Attributes
    ----------
    encoder : Encoder
    codes : Quantised, shape (N, r)
        Codes of the training images.
    coefficients : Tensor, shape (N, classes)
        Those of Y - Ỹ; the layers' Ỹ is added to the outputs.
    scale : float
        s of the kernel (:mod:`rescnet.numerics.code_kernel`).
    ridge : float
        The ε used: more than the option's where the factorisation failed.
    correction : LeaveOneOutCorrection, optional
        Applied to the outputs last.
    temperature : float, optional
        Of the softmax that turns outputs into probabilities, fitted to leave-one-out outputs.
    ridge_factors : Tensor, shape (N,), optional
        Factors of ε, if training images had weights: the mean weight divided by each row's own.
    """

    encoder: Encoder
    codes: Quantised
    coefficients: Tensor
    scale: float
    ridge: float
    correction: LeaveOneOutCorrection | None = None
    temperature: float | None = None
    ridge_factors: Tensor | None = None
    _ready: _Ready | None = field(default=None, init=False, repr=False, compare=False)

    @torch.inference_mode()
    def outputs(self, stack: LayerStack, images: Tensor) -> Tensor:
        """Return the outputs (n, classes) of images (n, channels, height, width), averaged over the test views."""
        first = stack.layers[0].weights
        ready = self._on(first.device, torch.float16 if stack.half and first.is_cuda else first.dtype)
        size = max(1, min(stack.chunk // (1 + self.mirrored), ENTRIES // len(self)))
        together = min(max(size, TOGETHER), max(1, ENTRIES // len(self)))
        return torch.cat([self._outputs(stack, part, ready, size) for part in torch.split(images, together)])

    def forward(self, stack: LayerStack, images: Tensor) -> Tensor:
        """Return the outputs of one chunk of images on the CPU; nothing is cached, so that it can be exported."""
        return self._outputs(stack, images, self.ready_for(images.device, torch.float32), None)

    def _outputs(self, stack: LayerStack, images: Tensor, ready: _Ready, size: int | None) -> Tensor:
        """Return the outputs of images that pass the layers ``size`` at a time, or all, and are projected together."""
        views = views_of(stack.config, self.encoder.mirrored)
        seen = torch.cat([view_images(images, view) for view in views]) if len(views) > 1 else images
        of_sketch = ready.encoder.weights, self.encoder.sketch_size, self.mirrored
        sketches, output = (
            sketches_in_chunks(stack, seen, *of_sketch, size) if size else sketches_of(stack, seen, *of_sketch)
        )
        outputs = self.corrected(output, ready.encoder.codes(sketches, ready.projection, ready.lengths), ready)
        return outputs if len(views) == 1 else mean_of_views(outputs, len(views))

    def corrected(self, output: Tensor, codes: Codes, ready: _Ready) -> Tensor:
        """Return the outputs (n, classes) of images with these codes, from the layers' Ỹ (n, classes)."""
        outputs = output + code_kernel(codes, ready.centres, self.scale) @ ready.coefficients
        return outputs if ready.correction is None else ready.correction(outputs)

    def predict_codes(self, output: Tensor, codes: Codes) -> Tensor:
        """Return the outputs (n, classes) of images that have passed through the layers already."""
        ready = self._on(codes.values.device, codes.values.dtype)
        size = max(1, ENTRIES // len(self))
        starts = range(0, len(codes), size)
        return torch.cat([self.corrected(output[i : i + size], codes[i : i + size], ready) for i in starts])

    def _on(self, device: torch.device, dtype: torch.dtype) -> _Ready:
        """Return the tensors on a device, from the cache if they are there."""
        ready = self._ready
        if ready is not None and (ready.device, ready.dtype) == (device, dtype):
            return ready
        object.__setattr__(self, "_ready", None)  # make room first
        ready = self.ready_for(device, dtype)
        object.__setattr__(self, "_ready", ready)
        return ready

    def ready_for(self, device: torch.device, dtype: torch.dtype) -> _Ready:
        """Return the tensors on a device, in a type to compute in."""
        encoder = self.encoder.to(device)
        wide = torch.float32 if dtype == torch.float16 else dtype
        projection = encoder.projection.values(dtype)
        return _Ready(
            device,
            dtype,
            replace(encoder, weights=encoder.weights.to(wide)),
            projection,
            lengths_of(projection) if encoder.outside else None,
            Codes.of(self.codes.to(device).values(dtype)),
            self.coefficients.to(device, wide),
            None if self.correction is None else self.correction.to(device, wide),
        )

    @property
    def cached(self) -> object:
        """The tensors of the last prediction, on its device."""
        return self._ready

    def learned(self) -> list[Tensor]:
        """Return all tensors of the readout."""
        encoder, correction = self.encoder, self.correction
        quantised = [tensor for pair in (encoder.projection, self.codes) for tensor in (pair.integers, pair.steps)]
        of_correction = [] if correction is None else [correction.centres, correction.coefficients]
        return [encoder.weights, encoder.centre, *quantised, self.coefficients, *of_correction]

    @property
    def mirrored(self) -> bool:
        """True if the kernel treats an image and its mirror image as equal."""
        return self.encoder.mirrored

    def __len__(self) -> int:
        """Return N, the number of training images and their copies."""
        return len(self.coefficients)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: all but the cache."""
        return {name: value for name, value in vars(self).items() if name != "_ready"}


def sketches_of(stack: LayerStack, images: Tensor, weights: Tensor, size: int, mirrored: bool) -> tuple[Tensor, Tensor]:
    """Return the sketches (n, P) of images, and the layers' Ỹ (n, classes).

    ``weights`` (layers, D) are those of the sketches, and ``size`` is the number of sums per layer. Both results are
    means over an image and its mirror image if ``mirrored``.
    """
    seen = torch.cat([images, view_images(images, MIRROR)]) if mirrored else images
    of_layers, output = [], torch.empty(0)
    for layer_weights, step in zip(weights, stack.steps(seen), strict=True):
        of_layers.append(sketch_features(step.features, layer_weights, size))
        output = step.output
    sketches = torch.cat(of_layers, dim=1)
    return (mean_of_views(sketches, 2), mean_of_views(output, 2)) if mirrored else (sketches, output)


def sketches_in_chunks(
    stack: LayerStack, images: Tensor, weights: Tensor, size: int, mirrored: bool, chunk: int
) -> tuple[Tensor, Tensor]:
    """Return the result of :func:`sketches_of` for images that pass the layers ``chunk`` at a time.

    On a CPU each thread takes some of the images through all layers.
    """
    at_once = chunk if weights.is_cuda else max(1, chunk // torch.get_num_threads())

    def both(some: Tensor) -> Tensor:
        parts = (sketches_of(stack, part, weights, size, mirrored) for part in torch.split(some, at_once))
        return torch.cat([torch.cat(part, dim=1) for part in parts])

    joined, numbers = in_threads(both, images.to(weights.device)), size * len(weights)
    return joined[:, :numbers].to(weights.dtype), joined[:, numbers:].clone()  # a view would keep all sketches


def views_of(config: NetworkConfig, mirrored: bool) -> list[View]:
    """Return the test views that differ to the readout: no mirrored ones if the kernel treats them as equal."""
    return [view for view in config.views if not (mirrored and view[0])]
