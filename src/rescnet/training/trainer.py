"""The training loop: layers added one after the other in a single forward pass (Algorithm 1).

No gradient is taken anywhere: a layer's filters come from sums over patches, its heads from sums over features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..config import ComputeOptions, NetworkConfig
from ..images_in import as_images, as_labels
from ..network import Layer, Network
from ..stages.filters import bank_of_layer, learn_filters
from ..stages.images import ValueRange, min_max_scale
from ..stages.moments import Moments
from ..stages.residual import labels_and_signs, one_hot, residual, signed_one_hot
from .devices import choose_device, choose_precision
from .heads import no_head, solve_head
from .history import History, LayerRecord, Stopwatch
from .map_store import MapStore
from .memory import Plan, memory_budget, plan_memory
from .patch_source import LayerPatches
from .split import Split
from .streaming import make_store, store_images, stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = Tensor | NDArray[Any]
    LabelledImages = tuple[Array, Array]


class Listener(Protocol):
    """Who wants to hear how training goes."""

    def planned(self, network: Network, plan: Plan) -> None:
        """Hear of the plan, once, before work starts."""

    def layer_added(self, record: LayerRecord) -> None:
        """Hear of a layer that was added."""


def train(
    images: Array,
    labels: Array,
    config: NetworkConfig,
    *,
    validation: LabelledImages | None = None,
    test: LabelledImages | None = None,
    compute: ComputeOptions | None = None,
    listener: Listener | None = None,
    start: tuple[Network, History] | None = None,
) -> tuple[Network, History]:
    """Train a network.

    Parameters
    ----------
    images : Tensor or array, shape (n, channels, height, width)
        uint8 or floating, in any range of values.
    labels : Tensor or array, shape (n,)
        Classes, counted from 0.
    config : NetworkConfig
    validation : (images, labels), optional
        Held-out training images: accuracy is followed, and patience counts, on them.
    test : (images, labels), optional
        Accuracy is recorded, and decides nothing.
    compute : ComputeOptions, optional
    listener : Listener, optional
    start : (network, history), optional
        A network to go on from: the images are sent through its layers, and new ones are added up to ``config.layers``.
        It is left as it was. On the same images and machine this ends with the network an uninterrupted run ends with.

    Returns
    -------
    network : Network
    history : History
    """
    trainer = Trainer(images, labels, config, validation, test, compute or ComputeOptions())
    if listener:
        listener.planned(trainer.network, trainer.plan)
    if start:
        trainer.go_on_from(*start)
    while not trainer.finished():
        record = trainer.add_layer()
        if listener:
            listener.layer_added(record)
    return trainer.network, trainer.history


class Trainer:
    """A network that grows; :func:`train` tells what the arguments are."""

    def __init__(
        self,
        images: Array,
        labels: Array,
        config: NetworkConfig,
        validation: LabelledImages | None,
        test: LabelledImages | None,
        compute: ComputeOptions,
    ) -> None:
        self.config, self.compute = config, compute
        self.device = choose_device(compute.device)
        self.dtype = {"float32": torch.float32, "float64": torch.float64}[compute.dtype]
        checked = as_images(images)
        checked_labels = as_labels(labels, checked)
        shape = (checked.shape[1], checked.shape[2], checked.shape[3])
        config.check_images(shape[0], shape[1:])
        if config.patience and validation is None:
            raise ValueError(
                f"patience is {config.patience} but there are no validation images: give some, or set it to 0."
            )
        self.precision = choose_precision(compute, self.device)
        half = self.precision != "exact"
        self.network = Network(config, shape, int(checked_labels.max()) + 1, half=half)
        others = {}
        for name, given in (("validation", validation), ("test", test)):
            if given is not None:
                other = as_images(given[0], shape, f"{name} images")
                others[name] = other, as_labels(given[1], other, self.network.classes, f"{name} labels")
        self.plan = plan_memory(
            config,
            shape,
            self.network.classes,
            len(checked),
            sum(len(other) for other, _ in others.values()),
            self.dtype.itemsize,
            half,
            memory_budget(compute.memory, self.device),
            self.device,
            compute.maps,
        )
        self._scratch = compute.scratch
        self._image_range: ValueRange | None = None
        self.training = self._split(checked, checked_labels)
        self.others = {name: self._split(*given) for name, given in others.items()}
        self.history = History()
        self._kept: Tensor | None = None
        if self.plan.keep_features:
            dtype = torch.float16 if half else self.dtype
            self._kept = torch.zeros(len(checked), self.plan.width, dtype=dtype, device=self.device)

    def finished(self) -> bool:
        """Return whether no layer is to be added, and note why."""
        config, history = self.config, self.history
        if len(history) and config.stop_at_zero_error and history[-1].train_accuracy == 1:
            history.stopped = "no training image is wrong"
        elif len(history) >= config.layers:
            history.stopped = f"{config.layers} layers were asked for"
        elif config.patience and "validation" in self.others and history.layers_since_best() >= config.patience:
            history.stopped = f"validation accuracy has not risen for {config.patience} layers"
        return bool(history.stopped)

    @torch.inference_mode()
    def go_on_from(self, network: Network, history: History) -> None:
        """Take over a network's layers and send all images through them."""
        if (network.image_shape, network.classes) != (self.network.image_shape, self.network.classes):
            raise ValueError(
                f"the network to go on from takes images {network.image_shape} of {network.classes} classes, these are "
                f"{self.network.image_shape} of {self.network.classes}: train anew, or give images of the same kind."
            )
        watch = Stopwatch(self.device)
        for given in network.layers:
            layer = given.to(self.device, self.dtype)
            for part, maps in self._new_maps(layer, self.training, watch):
                if self._kept is not None:
                    self._kept[part, : self.plan.features] = self.network.features(maps)
            self._update_outputs(layer, watch)
            self.network.layers.append(layer)
        self.history.records.extend(history.records)

    @torch.inference_mode()
    def add_layer(self) -> LayerRecord:
        """Learn one more layer and let all images through it."""
        number = len(self.network.layers) + 1
        watch = Stopwatch(self.device)
        with watch.time("scaling"):
            input_range = self._input_range()
        with watch.time("filters"):
            weights, bias = self._learn_filters(number, input_range)
        with watch.time("residual"):
            labels, positive = self._labels_and_signs(number)
            positive_share = float(positive.double().mean())
        rate = self.config.rate_of(number)
        headless = Layer(input_range, weights, bias, no_head(weights), rate, positive_share)
        moments = self._sum_features(headless, labels, positive, watch)
        with watch.time("heads"):
            head, ridge = solve_head(moments, self.config, self.precision)
            head = head.cut_to(self.plan.features)
            del moments
        layer = Layer(input_range, weights, bias, head, rate, positive_share)
        self._update_outputs(layer, watch)
        self.network.layers.append(layer)
        record = LayerRecord(
            layer=number,
            train_accuracy=self.training.accuracy(),
            validation_accuracy=self.others["validation"].accuracy() if "validation" in self.others else None,
            test_accuracy=self.others["test"].accuracy() if "test" in self.others else None,
            positive_share=positive_share,
            rate=rate,
            ridge=ridge,
            seconds=watch.seconds,
            peak_memory=max(watch.memory.values()),
            memory=watch.memory,
        )
        self.history.append(record)
        return record

    def _input_range(self) -> ValueRange:
        """Fit the min-max scaling of the new layer's input on the training images (stage 1)."""
        split, layers = self.training, self.network.layers
        if self._image_range is None:
            self._image_range = self._range_of(split.images)
        image_range, maps_range = self._image_range, split.maps_range
        if maps_range is None:
            return image_range.with_scope(self.config.scaling)
        low, high = (min_max_scale(end[None], layers[0].input_range)[0] for end in (image_range.low, image_range.high))
        joined = ValueRange(
            torch.cat([maps_range.low.to(self.dtype), low]), torch.cat([maps_range.high.to(self.dtype), high])
        )
        return joined.with_scope(self.config.scaling, maps=len(maps_range.low))

    def _learn_filters(self, number: int, input_range: ValueRange) -> tuple[Tensor, Tensor]:
        """Learn the filters of a layer from its input's patches (stages 2 and 3)."""
        config, split = self.config, self.training
        # A generator a layer: layer i is the same whether a run came there at once or was resumed there.
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + number)
        size = config.size_of_filter(number)
        patches = LayerPatches(
            self.network, input_range, split.maps, split.images, split.labels, size, self.plan.chunk, generator
        )
        filters = learn_filters(
            bank_of_layer(config.bank, number), patches, config.filters, generator, config.bank_options
        )
        weights = filters.weights.view(config.filters, patches.channels, size, size)
        return weights.to(self.device, self.dtype), filters.bias.to(self.device, self.dtype)

    def _labels_and_signs(self, number: int) -> tuple[Tensor, Tensor]:
        """Return the new label and sign of each training image, both (n,) (equations 6 and 7)."""
        split = self.training
        if number == 1:  # the original classes, all positive
            return split.labels, torch.ones_like(split.labels, dtype=torch.bool)
        found = [labels_and_signs(self._residuals(part)) for part in self._parts(split)]
        return torch.cat([labels for labels, _ in found]), torch.cat([positive for _, positive in found])

    def _residuals(self, part: slice) -> Tensor:
        """Return R of some training images, shape (n, C) (equation 5)."""
        split = self.training
        wanted = one_hot(split.labels[part], self.network.classes, self.dtype)
        return residual(wanted, split.output[part], self.config.ceiling)

    def _sum_features(self, layer: Layer, labels: Tensor, positive: Tensor, watch: Stopwatch) -> list[Moments]:
        """Let the training images through the layer, chunk by chunk, and add their features up (stages 4 to 7)."""
        own = self.config.sign_samples == "own" and self.config.head != "ridge"
        sums: list[Moments] = []

        def add(features: Tensor, part: slice) -> None:
            if self.config.head == "ridge":
                targets = self._residuals(part)
            else:
                targets = signed_one_hot(labels[part], positive[part], self.network.classes, self.dtype)
            if not sums:
                shift = features.mean(0, dtype=self.dtype).to(features.dtype).to(self.dtype)
                sums.extend(Moments.zeros(shift, targets.shape[1], self.compute.gram) for _ in range(2 if own else 1))
            if own:
                here = positive[part]
                sums[0].add(features[here], targets[here])
                sums[1].add(features[~here], targets[~here])
            else:
                sums[0].add(features, targets)

        for part, maps in self._new_maps(layer, self.training, watch):
            with watch.time("pooling"):
                features = self.network.features(maps)
            if self._kept is not None:
                self._kept[part, : features.shape[1]] = features
            else:
                with watch.time("moments"):
                    add(torch.nn.functional.pad(features, (0, self.plan.width - features.shape[1])), part)
        if self._kept is not None:
            with watch.time("moments"):
                for start in range(0, len(labels), self.plan.rows):
                    part = slice(start, start + self.plan.rows)
                    add(self._kept[part], part)
        return sums

    def _update_outputs(self, layer: Layer, watch: Stopwatch) -> None:
        """Add the layer's correction to every image's output (stage 8)."""
        if self._kept is not None:
            for part in self._parts(self.training):
                self._update(layer, self.training, part, self._kept[part, : self.plan.features], watch)
        else:
            assert self.training.maps is not None
            for part, maps in zip(self._parts(self.training), self.training.maps.chunks(self.plan.chunk), strict=True):
                with watch.time("pooling"):
                    features = self.network.features(maps)
                self._update(layer, self.training, part, features, watch)
        for split in self.others.values():
            for part, maps in self._new_maps(layer, split, watch):
                with watch.time("pooling"):
                    features = self.network.features(maps)
                self._update(layer, split, part, features, watch)

    def _update(self, layer: Layer, split: Split, part: slice, features: Tensor, watch: Stopwatch) -> None:
        with watch.time("update"):
            output = self.network.update(layer, split.output[part], features)
            if not bool(output.isfinite().all()):
                raise FloatingPointError(
                    f"layer {len(self.network.layers) + 1} gave NaN or infinity and was not added: raise the ridge."
                )
            split.output[part] = output

    def _new_maps(self, layer: Layer, split: Split, watch: Stopwatch) -> Iterator[tuple[slice, Tensor]]:
        """Let images through a layer: their maps are overwritten by those yielded, chunk by chunk."""
        before = split.maps
        after = self._empty_maps(split) if before is None else before
        found: ValueRange | None = None
        for part, maps_before, images in stream(self.plan.chunk, before, split.images):
            with watch.time("convolution"):
                maps = self.network.maps(layer, maps_before, images)
                after.write(part, maps)
            with watch.time("scaling"):
                here = ValueRange.of(maps)
                found = here if found is None else found.merge(here)
            yield part, maps
        split.maps, split.maps_range = after, found

    def _empty_maps(self, split: Split) -> MapStore:
        """Return memory for the maps of a split, (n, d_i, h, w); in half precision channels last, for the kernels."""
        (n, _, h, w), half = split.images.shape, self.network.half
        shape, dtype = (n, self.config.filters, h, w), torch.float16 if half else self.dtype
        return make_store(self.plan.maps_place, shape, dtype, self.device, half, self._scratch)

    def _parts(self, split: Split) -> Iterator[slice]:
        for start in range(0, len(split.images), self.plan.chunk):
            yield slice(start, min(start + self.plan.chunk, len(split.images)))

    def _range_of(self, images: MapStore) -> ValueRange:
        total: ValueRange | None = None
        for chunk in images.chunks(self.plan.chunk):
            here = ValueRange.of(chunk)
            total = here if total is None else total.merge(here)
        assert total is not None
        return ValueRange(total.low.to(self.dtype), total.high.to(self.dtype))

    def _split(self, images: Tensor, labels: Tensor) -> Split:
        output = torch.zeros(len(images), self.network.classes, dtype=self.dtype, device=self.device)
        return Split(store_images(images, self.device, self.plan.maps_place), labels.to(self.device), output)
