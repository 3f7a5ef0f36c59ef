"""Fit of a readout after the layers, and its accuracies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ...config.grammars import Augmentation
from ...config.network import NetworkConfig
from ...network.history import ReadoutRecord
from ...network.memory import RunSizes, readout_rows
from ...network.network import Network
from ...network.readout import Encoder, KernelReadout, Quantised, sketches_in_chunks
from ...network.readout.kernel import TOGETHER
from ...numerics.code_kernel import Codes, kernel_scale, median_squared_distance
from ...numerics.sketch import sketch_size
from ...stages.augment import change_images, draw_changes
from ...stages.residual import one_hot
from ..data import TrainingData
from ..workers import Workers
from .cross_validation import FOLDS, MOST_ROWS, folds_operations, judge
from .encoder import (
    SketchRows,
    codes_of,
    decomposes,
    decomposition_bytes,
    decomposition_operations,
    subspace_operations,
)
from .iterative import LARGEST_TILE, KernelProducts, Progress, check_least_memory, landmarks_for, solve_iteratively
from .metric import learned_metric, metric_operations
from .sketches import Sketches
from .system import Solution, exact_bytes, ridge_for, solve_exactly, system_operations

METRIC_FROM = 5000  # training images: with fewer, a learned metric is no better
COPIED_AT_ONCE = 1000  # images that are changed together, as floating point numbers


@dataclass(frozen=True)
class Collected:
    """Sketches, outputs of the last layer and the memory budget, which a trainer leaves for the readout."""

    sketches: Sketches | None
    outputs: dict[str, Tensor]
    budget: int
    workers: Workers


@torch.inference_mode()
def fit_readout(
    network: Network,
    data: TrainingData,
    collected: Collected,
    progress: Progress | None = None,
    start: Tensor | None = None,
) -> ReadoutRecord:
    """Fit the readout of a network's layers up to its depth, on the images that the layers were learned from.

    ``start`` is the solution that an interrupted fit had found (:data:`Progress`). With a metric the system is solved
    twice, and the columns of the second solution follow those of the first.
    """
    began, used = perf_counter(), network.first_layers(network.used_layers)
    if network.layers[0].weights.is_cuda:
        torch.cuda.empty_cache()
    fit = CodeFit(used, data, collected)
    network.readout, found, loo_accuracy = fit.solve(progress, start)
    right = {name: fit.accuracy(name, network.readout) for name in data.others}
    return ReadoutRecord(
        layers=len(used.layers),
        images=len(data.images),
        ridge=found.ridge,
        steps=found.steps,
        residual=found.residual,
        loo_accuracy=loo_accuracy,
        validation_accuracy=right.get("validation"),
        test_accuracy=right.get("test"),
        seconds=perf_counter() - began,
    )


class CodeFit:
    """The fit of a kernel readout on codes."""

    def __init__(self, network: Network, data: TrainingData, collected: Collected) -> None:
        assert collected.sketches is not None
        self.network, self.data, self.workers, self.budget = network, data, collected.workers, collected.budget
        self.config, layers = network.config, len(network.layers)
        first = network.layers[0].weights
        self.device = first.device
        self.dtype = torch.float16 if network.half and first.is_cuda else first.dtype
        sketches = collected.sketches
        self.size, self._sketch_dtype = sketches.size, sketches.dtype
        self.weights = torch.stack(sketches.weights[:layers])
        self.offset = torch.cat(sketches.offsets[:layers])
        whole = layers == len(sketches.weights)  # else the outputs are those of more layers
        self._rows = {name: rows[:, : len(self.offset)] for name, rows in sketches.rows.items()} if whole else {}
        self._outputs = collected.outputs

    def solve(
        self, progress: Progress | None = None, start: Tensor | None = None
    ) -> tuple[KernelReadout, Solution, float | None]:
        """Fit encoder, coefficients and correction; also return the leave-one-out accuracy, if it is known.

        All workers return the same.
        """
        rows, right = self._system()
        total, targets = len(right), right[:, : self.network.classes]
        size = min(self.config.readout_size, total, len(self.offset))
        components = rows.components(size, self.config.seed, self.budget)
        with_metric = len(self.data.images) >= METRIC_FROM
        projection, codes, centres, scale = self._encode(rows, components)
        solution = self._solve(centres, targets if with_metric else right, scale, progress, start)
        columns, blocks = solution.columns[:, : self.network.classes], solution.blocks
        outside, products = 0.0, None
        if with_metric:  # components are no longer orthogonal
            components = components @ learned_metric(centres, columns, scale, self.config.seed).to(components)
            del codes, centres
            projection, codes, centres, scale = self._encode(rows, components)
            residuals = right[:, self.network.classes :]
            solution = self._solve(centres, residuals, scale, progress, start, solution)
        else:
            if size == total and components.numel():
                outside = float(components.square().sum(0).median())
            few = FOLDS * self.config.rows_per_image <= total <= MOST_ROWS
            if few and decomposition_bytes(total, len(self.offset)) <= self.budget:
                products = rows.products()
        factors = self._ridge_factors(targets)
        correction, temperature, accuracy = judge(
            self.config, targets, columns, blocks, products, size, solution.ridge, factors
        )
        cpu = torch.device("cpu")
        readout = KernelReadout(
            Encoder(self.weights, rows.centre + self.offset, projection, self.config.mirrors_kernel, outside).to(cpu),
            codes.to(cpu),
            solution.columns[:, -self.network.classes :].contiguous().cpu(),
            scale,
            solution.ridge,
            correction,
            temperature,
            None if factors is None else factors.cpu(),
        )
        return readout, solution, accuracy if scale > 0 else None  # codes that do not differ tell nothing of an image

    def _system(self) -> tuple[SketchRows, Tensor]:
        """Return this worker's sketches, and the right sides of all workers' rows (N, 2C): classes, and residuals."""
        sketches, output = self._training_images()
        per_image, images = self.config.rows_per_image, self.workers.shard(len(self.data.labels))
        own = slice(images.start * per_image, images.stop * per_image)
        labels = self.data.labels[images].repeat_interleave(per_image).to(self.device)
        targets = one_hot(labels, self.network.classes, output.dtype)
        right = targets.new_zeros(len(self.data.labels) * per_image, 2 * self.network.classes)
        right[own] = torch.cat([targets, targets - output], dim=1)
        self.workers.all_reduce(right)
        return SketchRows(sketches, own.start, len(right), self.device, self.workers), right

    def _encode(self, rows: SketchRows, components: Tensor) -> tuple[Quantised, Quantised, Codes, float]:
        """Return rounded components (P, r), the codes of all training images, also in the type to compute in, and s.

        The components are those of rank 0: other machines may differ in the last bit.
        """
        projection = Quantised.of(components)
        self.workers.broadcast(projection.integers, projection.steps)
        codes = rows.codes(projection)
        values = Codes.of(codes.values(self.dtype))
        return projection, codes, values, kernel_scale(self.config.kernel_width, median_squared_distance(values))

    def accuracy(self, name: str, readout: KernelReadout) -> float:
        """Return the fraction of validation or test images that are classified correctly."""
        pictures, labels = (self._own(whole) for whole in self.data.others[name])
        if name in self._rows:
            codes = codes_of(readout.encoder.to(self.device), self._rows[name], self.offset, self.dtype)
            outputs = readout.predict_codes(self._outputs[name], codes)
        else:
            outputs = readout.outputs(self.network.stack, pictures)
        right = int((outputs.argmax(1).cpu() == labels.cpu()).sum())
        return self.workers.sum_int(right) / len(self.data.others[name][1])

    def _solve(
        self,
        codes: Codes,
        right: Tensor,
        scale: float,
        progress: Progress | None,
        start: Tensor | None,
        first: Solution | None = None,
    ) -> Solution:
        """Solve the system for right sides (N, K); after a ``first`` solution no leave-one-out outputs are needed."""
        diagonal = first is None
        config, workers, ridge = self.config, self.workers, ridge_for(len(codes), self.config.kernel_ridge)
        room = self.budget - codes.values.nbytes - 4 * right.nbytes
        if exact_bytes(len(codes), right.itemsize) <= room:
            return self._solve_on_rank0(codes, right, scale, ridge, diagonal)
        free = check_least_memory(config, len(codes), right.shape[1], right.itemsize, self.budget)
        landmarks = landmarks_for(len(codes), free)
        tile = min(LARGEST_TILE, free // (2 * 3 * right.itemsize))
        products = KernelProducts(codes, scale, max(ridge, 1e-6), workers, tile, self._ridge_factors(right))
        if first is not None and first.start is not None:
            before, tell = first.start, progress
            start = None if start is None else start[:, before.shape[1] :]
            progress = tell and (lambda steps, residual, x: tell(steps, residual, torch.cat([before, x], dim=1)))
        probe = diagonal and config.rows_per_image == 1  # the block of an image and its copies is not estimated
        return solve_iteratively(products, right, landmarks, config.seed, probe, progress, start)

    def _solve_on_rank0(self, codes: Codes, right: Tensor, scale: float, ridge: float, diagonal: bool) -> Solution:
        """Solve the system exactly on rank 0."""
        per_image = self.config.rows_per_image
        blocks = right.new_zeros(diagonal * len(right) // per_image, per_image, per_image)
        used = torch.zeros(1, dtype=torch.float64, device=self.device)

        def solve() -> tuple[Tensor, ...]:
            factors = self._ridge_factors(right)
            found = solve_exactly(codes, right, scale, ridge, per_image if diagonal else 0, factors)
            return found.columns, blocks if found.blocks is None else found.blocks, used.new_tensor([found.ridge])

        columns, blocks, used = self.workers.from_rank0(solve, (torch.zeros_like(right), blocks, used))
        return Solution(columns, blocks if diagonal else None, float(used))

    def _ridge_factors(self, like: Tensor) -> Tensor | None:
        """Return 1/w of each row, in the type of a tensor; None if all weights are 1."""
        weights = self.data.relative_weights
        return None if weights is None else (1 / weights).repeat_interleave(self.config.rows_per_image).to(like)

    def _training_images(self) -> tuple[Tensor, Tensor]:
        """Return sketches (n, P), less the offset, and outputs (n, C) of this worker's images, each with its copies."""
        pictures, per_image = self._own(self.data.images), self.config.rows_per_image
        if "training" in self._rows:
            output = self._outputs["training"].view(len(pictures), -1, self.network.classes).mean(1)
            first = self._rows["training"], output
        else:
            first = self._pass([pictures])
        if per_image == 1:
            return first
        sketches, outputs = (part[:, None].expand(-1, per_image, -1).clone() for part in first)
        del first
        for number, copies in enumerate(self._copies(), start=1):
            sketches[:, number], outputs[:, number] = self._pass(copies)
        return sketches.flatten(0, 1), outputs.flatten(0, 1)

    def _pass(self, pictures: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        """Pass images through the layers, given some at a time."""
        stack, mirrored = self.network.stack, self.config.mirrors_kernel
        found, outputs, chunk = [], [], max(1, stack.chunk // (1 + mirrored))
        for some in pictures:
            for part in torch.split(some, max(chunk, TOGETHER)):
                sketches, output = sketches_in_chunks(stack, part, self.weights, self.size, mirrored, chunk)
                found.append((sketches - self.offset).to(self._sketch_dtype))
                outputs.append(output)
        return torch.cat(found), torch.cat(outputs)

    def _copies(self) -> Iterator[Iterator[Tensor]]:
        """Yield the first copy of each of this worker's training images, then the second and so on; some at a time."""
        (copies, augmentation), images = Augmentation.parse_copies(self.config.kernel_copies), self.data.images
        changes = self._own(draw_changes(augmentation, len(images), copies, images.shape[1], self.config.seed))
        for number in range(1, 1 + copies):
            parts = (torch.split(whole, COPIED_AT_ONCE) for whole in (self._own(images), changes[:, number]))
            yield (change_images(some, theirs) for some, theirs in zip(*parts, strict=True))

    def _own(self, whole: Tensor) -> Tensor:
        """Return this worker's shard of images, labels or changes."""
        return whole[self.workers.shard(len(whole))]


def readout_operations(config: NetworkConfig, sizes: RunSizes) -> float:
    """Return the operations of :func:`fit_readout` on ``sizes.train`` images, in float32; float64 counts twice."""
    if not config.has_kernel:
        return 0.0
    rows, numbers = readout_rows(config, sizes.train), config.layers * sketch_size(config, sizes.image_shape[1:])
    size = min(config.readout_size, rows, numbers)
    codes = 2 * rows * numbers * size + system_operations(rows, size)
    if sizes.train >= METRIC_FROM:
        codes = 2 * codes + metric_operations(rows, sizes.classes, size)
    if size < rows and not decomposes(rows, numbers, size):
        return codes + subspace_operations(rows, numbers, size)
    return codes + decomposition_operations(rows, numbers, size) + folds_operations(rows, size)
