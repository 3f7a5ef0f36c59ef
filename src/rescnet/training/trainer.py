"""A network that grows by one layer after the other, in a single forward pass (Algorithm 1).

No gradient is taken anywhere: a layer's filters come from sums over patches, its heads from sums over features.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.shared_options import check_shared
from ..network.depth import depth_to_use, reason_to_stop
from ..network.device import choose_device, choose_precision
from ..network.history import History, LayerRecord
from ..network.inputs import as_images, as_labels
from ..network.memory import memory_budget
from ..network.network import Layer, Network
from ..stages.augment import Augmentation, changes_of_views
from ..stages.filters import GreyPatches, learn_filters
from ..stages.images import ValueRange, min_max_scale
from ..stages.moments import Moments
from ..stages.preparation import Preparation
from .distributed.workers import Workers
from .draws import Draws
from .feature_sums import FeatureSums
from .fit_readout import check_readout
from .heads import no_head, solve_on_first
from .held_out_step import choose_step
from .layer_patches import LayerPatches
from .memory_plan import plan_memory
from .prepared import PreparedImages, learn_preparation
from .stopwatch import Stopwatch
from .stores.augmented import AugmentedImages
from .stores.make import file_of, make_store, store_images
from .stores.store import MapStore
from .stream import Split
from .targets import Targets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = Tensor | NDArray[Any]
    LabelledImages = tuple[Array, Array]


class Trainer:
    """A network that grows; :func:`rescnet.training.train.train` tells what the arguments are."""

    def __init__(
        self,
        images: Array,
        labels: Array,
        config: NetworkConfig,
        validation: LabelledImages | None,
        test: LabelledImages | None,
        compute: ComputeOptions,
        workers: Workers | None = None,
    ) -> None:
        self.config, self.compute = config, compute
        self.workers = workers or Workers()
        self.device = choose_device(compute.device) if self.workers.count == 1 else self.workers.device
        self.dtype = {"float32": torch.float32, "float64": torch.float64}[compute.dtype]
        checked = as_images(images)
        checked_labels = as_labels(labels, checked)
        shape = (checked.shape[1], checked.shape[2], checked.shape[3])
        config.check_images(shape[0], shape[1:])
        if config.patience and validation is None:
            raise ValueError(
                f"patience is {config.patience} but there are no validation images: give some, or set it to 0."
            )
        if config.step == "held-out" and validation is None:
            raise ValueError("step is 'held-out' but there are no validation images: give some, or set it to 'fixed'.")
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
            -(-len(checked) // self.workers.count) * config.copies_of_each,
            -(-sum(len(other) for other, _ in others.values()) // self.workers.count) * len(config.views),
            self.dtype.itemsize,
            half,
            memory_budget(compute.memory, self.device, self.workers.on_this_machine),
            self.device,
            compute.maps,
            compute.gram,
            self.workers.on_this_machine,
            self.workers.count == 1,
        )
        check_readout(
            config,
            shape,
            len(checked),
            sum(len(other) for other, _ in others.values()),
            self.dtype.itemsize,
            half,
            self.device,
            memory_budget(compute.memory, self.device),
            self.workers,
        )
        self._scratch = compute.scratch
        self._image_range: ValueRange | None = None
        self._preparation: Preparation | None = None
        copies, mine = config.copies_of_each, self.workers.share_of(len(checked), "training images")
        self._labels, self._images = checked_labels.repeat_interleave(copies), len(checked) * copies
        self._mine = slice(mine.start * copies, mine.stop * copies)
        changes = None
        if copies > 1:
            augmentation = Augmentation.parse(config.augment)
            changes = augmentation.draw(len(checked), config.copies, shape[0], config.seed)[mine]
        self.training = self._split(checked[mine], checked_labels[mine], file_of(images), changes)
        self.others = {}
        views = changes_of_views(config.views, shape[0]) if len(config.views) > 1 else None
        for name, (other, other_labels) in others.items():
            part = self.workers.share_of(len(other), f"{name} images")
            self.others[name] = self._split(other[part], other_labels[part], None, views)
            self.others[name].averaged = True
        self.history = History()
        self._kept: Tensor | None = None
        if self.plan.keep_features:
            dtype = torch.float16 if half else self.dtype
            self._kept = torch.zeros(len(self.training.labels), self.plan.width, dtype=dtype, device=self.device)

    def finished(self) -> bool:
        """Return whether no layer is to be added, and note why."""
        self.history.stopped = self.history.stopped or reason_to_stop(self.config, self.history)
        return bool(self.history.stopped)

    @torch.inference_mode()
    def go_on_from(self, network: Network, history: History) -> None:
        """Take over a network's layers and send all images through them."""
        if (network.image_shape, network.classes) != (self.network.image_shape, self.network.classes):
            raise ValueError(
                f"the network to go on from takes images {network.image_shape} of {network.classes} classes, these are "
                f"{self.network.image_shape} of {self.network.classes}: train anew, or give images of the same kind."
            )
        check_shared(network.config, self.config, "train anew", {})
        watch = Stopwatch(self.device)
        if network.layers:
            self._prepare_images(network.layers[0].preparation)
        for given in network.layers:
            layer = given.to(self.device, self.dtype)
            for part, maps in self._new_maps(layer, self.training, watch):
                if self._kept is not None:
                    self._kept[part, : self.plan.features] = self.network.features(maps)
            self._update_outputs(layer, watch)
            self.network.layers.append(layer)
        self.history.records.extend(history.records)
        self.network.depth = depth_to_use(self.config, self.history)

    @torch.inference_mode()
    def add_layer(self) -> LayerRecord:
        """Learn one more layer and let all images through it."""
        number = len(self.network.layers) + 1
        watch = Stopwatch(self.device)
        if number == 1 and self.config.prepares_images:
            self._prepare_images(self._learn_preparation())
        with watch.time("scaling"):
            input_range = self._input_range(number)
        with watch.time("residual"):
            targets = Targets.of(number, self.training, self.config, self.workers)
            positive_share = self.workers.total(int(targets.positive.sum())) / self._images
            draws = Draws.of(number, targets, self._labels, self.workers, self._mine)
        with watch.time("filters"):
            weights, bias = self._learn_filters(number, input_range, draws)
        rate = self.config.rate_of(number)
        headless = Layer(input_range, weights, bias, no_head(weights), rate, positive_share)
        moments = self._sum_features(headless, targets, watch)
        with watch.time("heads"):
            head, ridge = solve_on_first(moments, self.config, self.precision, self.plan.features, self.workers, number)
            del moments
        layer = replace(headless, head=head, preparation=self._preparation if number == 1 else None)
        corrections = None
        if self.config.step == "held-out":
            held_out = self.others["validation"]
            new_maps = self._new_maps(layer, held_out, watch)
            layer, corrections = choose_step(self.network, layer, held_out, new_maps, watch, self.workers)
        self._update_outputs(layer, watch, corrections)
        self.network.layers.append(layer)
        accuracies = {name: split.accuracy(self.workers) for name, split in self.others.items()}
        record = LayerRecord(
            layer=number,
            train_accuracy=self.training.accuracy(self.workers),
            validation_accuracy=accuracies.get("validation"),
            test_accuracy=accuracies.get("test"),
            positive_share=positive_share,
            rate=layer.rate,
            ridge=ridge,
            seconds=watch.seconds,
            peak_memory=max(watch.memory.values()),
            memory=watch.memory,
        )
        self.history.append(record)
        self.network.depth = depth_to_use(self.config, self.history)
        return record

    def let_go(self) -> None:
        """Give back the memory of maps and sums; no layer can be added afterwards."""
        self.others.clear()
        self._kept = None
        del self.training

    def _learn_preparation(self) -> Preparation:
        """Learn what images go through before the first layer."""
        found = self.workers.widest(self.training.image_range(self.dtype))
        first = self._mine.start
        return learn_preparation(self.training.images, found, self.config, self.workers, first, self._images)

    def _prepare_images(self, preparation: Preparation | None) -> None:
        """Let images through the preparation from now on."""
        if preparation is None:
            return
        self._preparation = preparation.to(self.device, self.dtype)
        for split in (self.training, *self.others.values()):
            split.images = PreparedImages(split.images, self._preparation)

    def _input_range(self, number: int) -> ValueRange:
        """Fit the min-max scaling of the new layer's input on the training images (stage 1)."""
        split, layers = self.training, self.network.layers
        if self._image_range is None:
            self._image_range = self.workers.widest(split.image_range(self.dtype))
        image_range = self._image_range
        if split.maps_range is None or self.config.place_in_stack(number) == 1:
            return image_range.with_scope(self.config.scaling)
        maps_range = self.workers.widest(split.maps_range)
        low, high = (min_max_scale(end[None], layers[0].input_range)[0] for end in (image_range.low, image_range.high))
        joined = ValueRange(maps_range.low.to(self.dtype), maps_range.high.to(self.dtype)).beside(ValueRange(low, high))
        return joined.with_scope(self.config.scaling, maps=len(maps_range.low))

    def _learn_filters(self, number: int, input_range: ValueRange, draws: Draws) -> tuple[Tensor, Tensor]:
        """Learn the filters of a layer from its input's patches (stages 2 and 3)."""
        config, split = self.config, self.training
        # A generator a layer: layer i is the same whether a run came there at once or was resumed there.
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + number)
        size, place = config.size_of_filter(number), config.place_in_stack(number)
        patches = LayerPatches(
            self.network,
            input_range,
            split.maps if place > 1 else None,
            split.images,
            draws.labels,
            size,
            split.chunk,
            generator,
            self.workers,
            self._mine,
            draws.weights,
            config.dilation_of(number),
        )
        bank, how = config.bank_of(number), (config.filters, generator, config.bank_options)
        if config.is_grey(number):
            grey = GreyPatches(patches, self.network.image_shape[0])
            filters = grey.in_colour(learn_filters(bank, grey, *how))
        else:
            filters = learn_filters(bank, patches, *how)
        weights = filters.weights.view(config.filters, patches.channels, size, size).to(self.device, self.dtype)
        bias = filters.bias.to(self.device, self.dtype)
        self.workers.send_from_first(weights, bias)  # those of another kind of machine may differ in the last bit
        return weights, bias

    def _sum_features(self, layer: Layer, targets: Targets, watch: Stopwatch) -> list[Moments]:
        """Let the training images through the layer, chunk by chunk, and add their features up (stages 4 to 7)."""
        sums = FeatureSums(targets, self.workers, self.compute.gram, self.plan.by_rows)
        for part, maps in self._new_maps(layer, self.training, watch):
            with watch.time("pooling"):
                features = self.network.features(maps)
            if self._kept is not None:
                self._kept[part, : features.shape[1]] = features
            else:
                with watch.time("moments"):
                    sums.add(torch.nn.functional.pad(features, (0, self.plan.width - features.shape[1])), part)
        with watch.time("moments"):
            if self._kept is not None:
                for start in range(0, len(self._kept), self.plan.rows):
                    part = slice(start, start + self.plan.rows)
                    sums.add(self._kept[part], part)
            return sums.on_first()

    def _update_outputs(self, layer: Layer, watch: Stopwatch, corrections: Tensor | None = None) -> None:
        """Add the layer's correction to every image's output (stage 8); the validation images' may be known already."""
        if self._kept is not None:
            for part in self.training.parts():
                self._update(layer, self.training, part, self._kept[part, : self.plan.features], watch)
        else:
            assert self.training.maps is not None
            for part, maps in zip(self.training.parts(), self.training.maps.chunks(self.training.chunk), strict=True):
                with watch.time("pooling"):
                    features = self.network.features(maps)
                self._update(layer, self.training, part, features, watch)
        for name, split in self.others.items():
            if name == "validation" and corrections is not None:
                everything = slice(0, len(corrections))
                self._change(split, everything, split.ahead(everything) + layer.rate * corrections)
                continue
            for part, maps in self._new_maps(layer, split, watch):
                with watch.time("pooling"):
                    features = self.network.features(maps)
                self._update(layer, split, part, features, watch)

    def _update(self, layer: Layer, split: Split, part: slice, features: Tensor, watch: Stopwatch) -> None:
        with watch.time("update"):
            self._change(split, part, self.network.update(layer, split.ahead(part), features))

    def _change(self, split: Split, part: slice, output: Tensor) -> None:
        if not bool(output.isfinite().all()):
            raise FloatingPointError(
                f"layer {len(self.network.layers) + 1} gave NaN or infinity and was not added: raise the ridge."
            )
        split.change(part, output)

    def _new_maps(self, layer: Layer, split: Split, watch: Stopwatch) -> Iterator[tuple[slice, Tensor]]:
        """Let a split through a layer: yields its new maps chunk by chunk."""
        empty = self._empty_maps(split) if split.maps is None else None
        return split.through(self.network, layer, watch, empty)

    def _empty_maps(self, split: Split) -> MapStore:
        """Return memory for the maps of a split, (n, d_i, h, w); in half precision channels last, for the kernels."""
        (n, _, h, w), half = split.images.shape, self.network.half
        shape, dtype = (n, self.config.filters, h, w), torch.float16 if half else self.dtype
        return make_store(self.plan.maps_place, shape, dtype, self.device, half, self._scratch)

    def _split(self, images: Tensor, labels: Tensor, file: mmap.mmap | None, changes: Tensor | None) -> Split:
        """Return this worker's images on their way, each with its copies if there are changes (n or 1, copies, …)."""
        store = store_images(images, self.device, self.plan.maps_place, file)
        copies = 1
        if changes is not None:
            store, copies = AugmentedImages(store, changes), changes.shape[1]
        labels = labels.to(self.device).repeat_interleave(copies)
        output = torch.zeros(len(labels), self.network.classes, dtype=self.dtype, device=self.device)
        before = torch.zeros_like(output) if self.config.momentum else None
        chunk = max(1, self.plan.chunk // copies) * copies
        return Split(store, labels, output, chunk, copies, before=before, momentum=self.config.momentum)
