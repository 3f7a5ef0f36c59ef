"""Codes from sketches: their principal components, partly whitened.

With λ_k the variance of component k, a code holds component k times λ_k^(-p/2). p = 0 keeps all distances, p = 1 makes
all components equal. The components are those of the dominant subspace of Σ x xᵀ. For few images they are computed from
the products of the images with each other. For many they are found by subspace iteration, which takes products with the
sketches alone, summed over chunks and workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import torch
from torch import Tensor

from ...config.network import NetworkConfig
from ...network.memory import too_little
from ...network.readout.kernel import Encoder, Quantised, lengths_of
from ...numerics.code_kernel import Codes
from ...numerics.linear_algebra import add_single_gram_, eigen, product
from ...numerics.sketch import sketch_size
from ...stages.images import ValueRange
from ..workers import Workers

WHITENING = 0.25  # p
ITERATIONS = 2  # of the subspace
ROWS = 8192  # images at a time
LEAST_VARIANCE = 1e-6  # of a component, relative to the largest
LEAST_VARIANCE_OF_FEW = 1e-5  # the same from products of images, whose rounding is of the largest
DECOMPOSED = 10_000  # rows whose products a CPU decomposes in less time than it finds a subspace of 3,800 components


class SketchRows:
    """Sketches of this worker's images (n, P), about the mean over all workers' images.

    ``first`` is the number of the first row among those of all workers, and ``images`` the number of all.
    """

    def __init__(self, rows: Tensor, first: int, images: int, device: torch.device, workers: Workers) -> None:
        self._rows, self._first, self._images = rows, first, images
        self._device, self._workers = device, workers
        self._products: Tensor | None = None
        self.centre = torch.zeros(rows.shape[1], device=device)
        total = torch.zeros_like(self.centre)
        for chunk in self.chunks():
            total += chunk.sum(0)
        workers.all_reduce(total)
        self.centre = total / images

    def chunks(self) -> Iterator[Tensor]:
        """Yield the centred sketches, chunk by chunk, each (n, P), float32."""
        for start in range(0, len(self._rows), ROWS):
            yield self.at(slice(start, start + ROWS))

    def at(self, which: slice | Tensor) -> Tensor:
        """Return the centred sketches of some images, (n, P), float32."""
        found: Tensor = self._rows[which].to(self._device).float()
        return found - self.centre

    def components(self, size: int, seed: int, memory: float = inf) -> Tensor:
        """Return the first ``size`` components times λ^(-p/2), shape (P, r); r is less if the others do not vary.

        Products are decomposed only if that takes at most ``memory`` bytes, or if there are no fewer components.
        """
        fits = self._device.type == "cpu" and decomposition_bytes(self._images, len(self.centre)) <= memory
        if size == self._images or (fits and decomposes(self._images, len(self.centre), size)):
            return self._components_of_few(size)
        basis = _orthonormal(self._drawn(size, seed).T)
        for _ in range(ITERATIONS):
            found = torch.zeros_like(basis)
            for chunk in self.chunks():
                found += _product(chunk.T, _product(chunk, basis))
            self._workers.all_reduce(found)
            basis = _orthonormal(found)
        within = torch.zeros(basis.shape[1], basis.shape[1], device=self._device)
        for chunk in self.chunks():
            projected = _product(chunk, basis)
            within += projected.T @ projected
        self._workers.all_reduce(within)
        variances, vectors = eigen(within / self._images)
        kept = variances > LEAST_VARIANCE * variances[-1].clamp_min(torch.finfo(torch.float32).tiny)
        scale = variances[kept].pow(-WHITENING / 2)
        components: Tensor = basis @ (vectors[:, kept] * scale)
        return components.flip(1)

    def _components_of_few(self, size: int) -> Tensor:
        """Return the components of few images, from the products of the images with each other, shape (P, r)."""
        rows = self._drawn(self._images, 0)  # all, in order
        variances, vectors = eigen((self.products(rows) / self._images).double())
        kept = variances > LEAST_VARIANCE_OF_FEW * variances[-1].clamp_min(torch.finfo(torch.float32).tiny)
        variances, vectors = variances[kept][-size:], vectors[:, kept][:, -size:]
        scale = variances.pow(-WHITENING / 2) / (self._images * variances).sqrt()
        return _product(rows.T, (vectors * scale).float()).flip(1)

    def products(self, rows: Tensor | None = None) -> Tensor:
        """Return the products of all workers' images with each other, (images, images); for few images."""
        if self._products is None:
            rows = self._drawn(self._images, 0) if rows is None else rows
            self._products = _product(rows, rows.T) if rows.is_cuda else _gram(rows)
        return self._products

    def _drawn(self, size: int, seed: int) -> Tensor:
        """Return the sketches of ``size`` training images drawn at random from those of all workers, (size, P)."""
        if size == self._images == len(self._rows):
            return self.at(slice(None))
        drawn = torch.randperm(self._images, generator=torch.Generator().manual_seed(seed))[:size].sort().values
        mine = (drawn >= self._first) & (drawn < self._first + len(self._rows))
        found = torch.zeros(size, len(self.centre), device=self._device)
        if bool(mine.any()):
            found[mine.to(self._device)] = self.at((drawn[mine] - self._first).to(self._rows.device))
        self._workers.all_reduce(found)
        return found

    def codes(self, projection: Quantised) -> Quantised:
        """Return the codes of all workers' images, (images, r)."""
        matrix = projection.values(torch.float32)
        found = torch.cat([_product(chunk, matrix) for chunk in self.chunks()])
        ends = self._workers.reduce_range(ValueRange(found.amin(0), found.amax(0)))
        own = Quantised.of(found, torch.maximum(ends.high, -ends.low))
        integers = own.integers.new_zeros(self._images, found.shape[1])
        integers[self._first : self._first + len(found)] = own.integers
        self._workers.all_reduce(integers)
        return Quantised(integers, own.steps)


def decomposes(rows: int, numbers: int, size: int) -> bool:
    """Return whether a CPU finds ``size`` components of ``rows`` sketches (P = ``numbers``) best from their products.

    Eigenvectors of the products are computed in float64. They take the time of some 10 N³ operations of products.
    """
    by_products = rows * numbers * (rows + 2 * size) + 10 * rows**3
    return rows <= min(DECOMPOSED, numbers) and by_products < subspace_operations(rows, numbers, size)


def decomposition_bytes(rows: int, numbers: int) -> int:
    """Return the bytes that decomposing the products of ``rows`` sketches takes.

    Sketches twice; products in float32, and in float64 with their eigenvectors and LAPACK's workspace of two matrices.
    """
    return 8 * rows * numbers + (4 + 4 * 8) * rows**2


def decomposition_operations(rows: int, numbers: int, size: int) -> int:
    """Return the operations of the products of ``rows`` sketches, of their eigenvectors, and of the components."""
    return rows * numbers * (rows + 2 * size) + eigenvector_operations(rows)


def eigenvector_operations(rows: int) -> int:
    """Return the time of eigenvectors in float64, in operations; small matrices are far slower than products."""
    return 3 * rows**3 + 50_000 * rows**2


def check_components(config: NetworkConfig, rows: int, size: tuple[int, int], budget: int) -> None:
    """Raise TooLittleMemoryError if the components of a readout, one per row, of images (h, w), cannot be computed."""
    numbers = config.layers * sketch_size(config, size)
    needed = decomposition_bytes(rows, numbers)
    if rows <= min(config.readout_size, numbers) and needed > budget:
        what = f"for {rows:,} components of a readout, one per image"
        raise too_little(needed, what, budget, "use a smaller readout_size")


def subspace_operations(rows: int, numbers: int, size: int) -> int:
    """Return the operations that find ``size`` components of ``rows`` sketches (P = ``numbers``) by iteration."""
    return (4 * ITERATIONS + 2) * rows * numbers * size + (12 * ITERATIONS + 14) * numbers * size**2


def codes_of(encoder: Encoder, rows: Tensor, offset: Tensor, dtype: torch.dtype) -> Codes:
    """Return the codes of images from their sketches (n, P) less the ``offset`` (P,)."""
    projection, found = encoder.projection.values(dtype), []
    lengths = lengths_of(projection) if encoder.outside else None
    for some in torch.split(rows, ROWS):
        found.append(encoder.codes(some.to(offset.device).float() + offset, projection, lengths))
    return Codes(torch.cat([codes.values for codes in found]), torch.cat([codes.norms for codes in found]))


def _orthonormal(matrix: Tensor) -> Tensor:
    """Return an orthonormal basis of the columns of a matrix (P, r), by two Cholesky factors in float64."""
    found = matrix.double()
    for _ in range(2):
        gram = found.T @ found
        gram.diagonal().add_(1e-12 * gram.diagonal().sum().clamp_min(1e-300))
        factor, info = torch.linalg.cholesky_ex(gram)
        if int(info):
            basis: Tensor = torch.linalg.qr(matrix).Q
            return basis
        found = torch.linalg.solve_triangular(factor, found.T, upper=False).T
    return found.to(matrix.dtype).contiguous()


def _gram(rows: Tensor) -> Tensor:
    """Return the products of rows (N, P) with each other, (N, N), of which half are computed."""
    found = rows.new_zeros(len(rows), len(rows))
    add_single_gram_(found, rows.T)
    return found.tril_().add_(found.tril(-1).T)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b``, float32; on a GPU in half precision with float32 sums."""
    return product(a.half(), b.half()) if a.is_cuda else a @ b
