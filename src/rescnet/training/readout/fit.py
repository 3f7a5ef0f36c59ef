"""Fit of a readout after the layers, and its accuracies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ...config.grammars import Augmentation
from ...errors import NumericalError
from ...network.history import ReadoutRecord
from ...network.network import Network
from ...network.readout import Encoder, KernelReadout, Quantised, sketches_in_chunks
from ...network.readout.kernel import TOGETHER
from ...numerics.code_kernel import Codes, kernel_scale, median_squared_distance
from ...stages.augment import change_images, draw_changes
from ...stages.residual import one_hot
from ..data import TrainingData
from ..distributed.workers import Workers
from .cross_validation import FOLDS, MOST_ROWS, judge
from .encoder import SketchRows, codes_of, decomposition_bytes
from .iterative import LARGEST_TILE, KernelProducts, Progress, check_least_memory, landmarks_for, solve_iteratively
from .metric import learned_metric
from .sketches import Sketches
from .system import Solution, exact_bytes, ridge_for, solve_exactly

METRIC_FROM = 5000  # training images: with fewer, a learned metric is no better
COPIED_AT_ONCE = 1000  # images that are changed together, as floating point numbers


@dataclass(frozen=True)
class Collected:
    """Sketches, outputs of the last layer and the memory budget, which a trainer leaves for the readout."""

    sketches: Sketches | None
    outputs: dict[str, Tensor]
    budget: int
    workers: Workers


@dataclass(frozen=True)
class _Images:
    """Some of this worker's images."""

    sketches: Tensor  # (n, P), less the offset
    output: Tensor  # Ỹ, (n, classes)


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
        images, per_image, classes = self._training_images(), self.config.rows_per_image, self.network.classes
        labels = self._own(self.data.labels).repeat_interleave(per_image).to(self.device)
        total = self.workers.sum_int(len(labels))
        own = self._place_of(len(labels))
        rows = SketchRows(images.sketches, own.start, total, self.device, self.workers)
        size = min(self.config.readout_size, total, len(self.offset))
        components = rows.components(size, self.config.seed, self.budget)
        outside = float(components.square().sum(0).median()) if size == total and components.numel() else 0.0
        projection = self._shared(components)
        targets = one_hot(labels, classes, images.output.dtype)
        right = targets.new_zeros(total, 2 * classes)
        right[own] = torch.cat([targets, targets - images.output], dim=1)
        self.workers.all_reduce(right)
        targets = right[:, :classes]
        codes, centres, scale = self._codes(rows, projection)
        with_metric = len(self.data.images) >= METRIC_FROM
        solution = self._solve(centres, targets if with_metric else right, scale, progress, start)
        columns, blocks = solution.columns[:, :classes], solution.blocks
        few = FOLDS * per_image <= total <= MOST_ROWS and decomposition_bytes(total, len(self.offset)) <= self.budget
        products = rows.products() if few and not with_metric else None
        if with_metric:
            metric = learned_metric(centres, columns, scale, self.config.seed)
            projection = self._shared(components @ metric.to(components))
            del components, codes, centres
            outside = 0.0  # these components are not orthogonal
            codes, centres, scale = self._codes(rows, projection)
            solution = self._solve(centres, right[:, classes:], scale, progress, start, solution)
        factors = self._ridge_factors(targets)
        how = products, size, solution.ridge, factors
        correction, temperature, accuracy = judge(self.config, targets, columns, blocks, *how)
        cpu = torch.device("cpu")
        readout = KernelReadout(
            Encoder(self.weights, rows.centre + self.offset, projection, self.config.mirrors_kernel, outside).to(cpu),
            codes.to(cpu),
            solution.columns[:, -classes:].contiguous().cpu(),
            scale,
            solution.ridge,
            correction,
            temperature,
            None if factors is None else factors.cpu(),
        )
        return readout, solution, accuracy if scale > 0 else None  # codes that do not differ tell nothing of an image

    def _shared(self, components: Tensor) -> Quantised:
        """Return components (P, r) rounded, those of rank 0: other machines may differ in the last bit."""
        found = Quantised.of(components)
        self.workers.broadcast(found.integers, found.steps)
        return found

    def _codes(self, rows: SketchRows, projection: Quantised) -> tuple[Quantised, Codes, float]:
        """Return the codes of all training images, the same in the type to compute in, and s of their kernel."""
        codes = rows.codes(projection)
        values = Codes.of(codes.values(self.dtype))
        return codes, values, kernel_scale(self.config.kernel_width, median_squared_distance(values))

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
        """Solve the system exactly on rank 0, and broadcast the solution."""
        failure: ArithmeticError | None = None
        per_image = self.config.rows_per_image
        columns, facts = torch.zeros_like(right), torch.zeros(2, dtype=torch.float64, device=self.device)
        blocks = right.new_zeros(diagonal * len(right) // per_image, per_image, per_image)
        if self.workers.is_rank0:
            try:
                found = solve_exactly(
                    codes, right, scale, ridge, per_image if diagonal else 0, self._ridge_factors(right)
                )
                columns = found.columns.contiguous()
                blocks = blocks if found.blocks is None else found.blocks
                facts = facts.new_tensor([1, found.ridge])
            except ArithmeticError as error:  # the other ranks must not wait
                failure = error
        self.workers.broadcast(facts)
        if not bool(facts[0]):
            raise failure or NumericalError("rank 0 could not fit the readout. See its message.")
        self.workers.broadcast(columns, blocks)
        return Solution(columns, blocks if diagonal else None, float(facts[1]))

    def _ridge_factors(self, like: Tensor) -> Tensor | None:
        """Return 1/w of each row, in the type of a tensor; None if all weights are 1."""
        weights = self.data.relative_weights
        return None if weights is None else (1 / weights).repeat_interleave(self.config.rows_per_image).to(like)

    def _training_images(self) -> _Images:
        """Return this worker's training images, each followed by its copies."""
        pictures = self._own(self.data.images)
        if "training" in self._rows:
            output = self._outputs["training"].view(len(pictures), -1, self.network.classes).mean(1)
            found = _Images(self._rows["training"], output)
        else:
            found = self._pass([pictures])
        if self.config.rows_per_image == 1:
            return found
        sizes = len(pictures), self.config.rows_per_image, -1
        sketches, outputs = (part[:, None].expand(sizes).clone() for part in (found.sketches, found.output))
        del found
        for number, copy in enumerate(map(self._pass, self._copies()), start=1):
            sketches[:, number], outputs[:, number] = copy.sketches, copy.output
        return _Images(sketches.flatten(0, 1), outputs.flatten(0, 1))

    def _pass(self, pictures: Iterable[Tensor]) -> _Images:
        """Pass images through the layers, given some at a time."""
        stack, mirrored = self.network.stack, self.config.mirrors_kernel
        found, outputs, chunk = [], [], max(1, stack.chunk // (1 + mirrored))
        for some in pictures:
            for part in torch.split(some, max(chunk, TOGETHER)):
                sketches, output = sketches_in_chunks(stack, part, self.weights, self.size, mirrored, chunk)
                found.append((sketches - self.offset).to(self._sketch_dtype))
                outputs.append(output)
        return _Images(torch.cat(found), torch.cat(outputs))

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

    def _place_of(self, rows: int) -> slice:
        """Return the place of this worker's rows among those of all workers."""
        counts = torch.zeros(self.workers.count, dtype=torch.int64, device=self.device)
        counts[self.workers.rank] = rows
        self.workers.all_reduce(counts)
        first = int(counts[: self.workers.rank].sum())
        return slice(first, first + rows)
