"""Learn one layer: filters from sums over patches, heads from sums over features (Algorithm 1).

No gradient is taken anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..base.errors import ConfigError, DataError, NumericalError
from ..config.compute import ComputeOptions
from ..config.grammars import Augmentation
from ..config.network import NetworkConfig
from ..config.option import OptionError, check_unchanged
from ..network.device import choose_device, choose_precision
from ..network.history import History, LayerRecord, layers_to_use
from ..network.memory import memory_budget
from ..network.network import Network
from ..network.stack import Layer, LayerStack
from ..numerics.linear_algebra import with_zeros
from ..stages.augment import changes_of_views, draw_changes
from ..stages.filters import BankOptions, GreyPatches, layer_generator, learn_filters
from ..stages.images import ValueRange, min_max_scale
from ..stages.moments import Moments
from .data import TrainingData
from .heads import FeatureSums, Targets, no_head, solve_on_rank0
from .layer_patches import LayerInput, LayerPatches
from .memory_plan import plan_run
from .readout.fit import Collected
from .readout.sketches import Sketches
from .stopwatch import Stopwatch
from .stores import AugmentedImages, MapStore, make_store, store_images
from .stream import ImageStream
from .workers import Workers


class Trainer:
    """Adds layers to a network, one at a time; ``others`` are the streams of validation and test images."""

    def __init__(self, config: NetworkConfig, data: TrainingData, compute: ComputeOptions, workers: Workers) -> None:
        self.config, self.workers = config, workers
        self.device = choose_device(compute.device) if workers.count == 1 else workers.device
        self.dtype = {"float32": torch.float32, "float64": torch.float64}[compute.dtype]
        self.precision = choose_precision(compute, self.device)
        half = self.precision != "exact"
        self.plan = plan_run(config, data, compute, self.device, workers)
        self.readout_budget = memory_budget(compute.max_memory, self.device)
        self.stack = LayerStack(config, data.image_shape, data.classes, half=half)
        self.network, self.history = Network(self.stack), History()
        self._scratch = compute.scratch
        self._image_range: ValueRange | None = None
        self.training = self._training_stream(data)
        self.others = {name: self._evaluation_stream(name, *pair) for name, pair in data.others.items()}
        self.sketches = self._empty_sketches()
        self._kept_features: Tensor | None = None
        if self.plan.keep_features:
            shape, dtype = (len(self.training.labels), self.plan.width), torch.float16 if half else self.dtype
            self._kept_features = torch.zeros(shape, dtype=dtype, device=self.device)

    def collected(self) -> Collected:
        """Return what the readout needs, once all layers are learned."""
        outputs = {name: stream.output for name, stream in {"training": self.training, **self.others}.items()}
        return Collected(self.sketches, outputs, self.readout_budget, self.workers)

    @torch.inference_mode()
    def add_layer(self) -> LayerRecord:
        """Learn one more layer and pass all images through it."""
        number = len(self.stack.layers) + 1
        watch = Stopwatch(self.device)
        with watch.time("scaling"):
            input_range = self._input_range(number)
        with watch.time("residual"):
            targets = Targets.of(number, self.training, self.config)
            positive_share = targets.positive_share(len(self._labels), self.workers)
        with watch.time("filters"):
            weights, bias = self._learn_filters(number, input_range)
        rate = self.config.rate_of(number)
        headless = Layer(input_range, weights, bias, no_head(weights), rate, positive_share)
        moments = self._sum_features(headless, targets, watch)
        if self.sketches:
            self.sketches.finish_sums(self.workers)
        with watch.time("heads"):
            head, ridge = solve_on_rank0(moments, self.config, self.precision, self.plan.features, self.workers)
            del moments
        layer = replace(headless, head=head)
        self._update_outputs(layer, watch)
        self.stack.layers.append(layer)
        accuracies = {name: stream.accuracy(self.workers) for name, stream in self.others.items()}
        record = LayerRecord(
            layer=number,
            train_accuracy=self.training.accuracy(self.workers),
            validation_accuracy=accuracies.get("validation"),
            test_accuracy=accuracies.get("test"),
            positive_share=positive_share,
            rate=rate,
            ridge=ridge,
            seconds=watch.seconds,
            peak_memory=max(watch.memory.values()),
            memory=watch.memory,
        )
        self.history.records.append(record)
        self.network.used_layers = layers_to_use(self.config, self.history)
        return record

    @torch.inference_mode()
    def resume_from(self, network: Network, history: History) -> None:
        """Take over a network's layers and pass all images through them."""
        if (network.image_shape, network.classes) != (self.stack.image_shape, self.stack.classes):
            raise DataError(
                f"images must be of shape {network.image_shape} and {network.classes} classes to continue the network, "
                f"got {self.stack.image_shape} and {self.stack.classes}."
            )
        check_unchanged(network.config, self.config, ("layers",), "All layers share it: train a new network.")
        if len(network.layers) > self.config.layers:
            rule = f"must be at least the {len(network.layers)} of the network to continue, got {self.config.layers}."
            raise OptionError("layers", rule)
        if len(history) != len(network.layers):
            raise ConfigError(
                f"history must have {len(network.layers)} records, one per layer of the network, got {len(history)}."
            )
        watch = Stopwatch(self.device)
        for given in network.layers:
            layer = given.to(self.device, self.dtype)
            for part, maps in self._advance(layer, self.training, watch):
                if self._kept_features is not None or self.sketches:
                    self._keep(part, self.stack.features(maps))
            if self.sketches:
                self.sketches.finish_sums(self.workers)
            self._update_outputs(layer, watch)
            self.stack.layers.append(layer)
        self.history.records.extend(history.records)
        self.network.used_layers = layers_to_use(self.config, self.history)

    def _input_range(self, number: int) -> ValueRange:
        """Fit the min-max scaling of the new layer's input on the training images (stage 1)."""
        stream = self.training
        if self._image_range is None:
            self._image_range = self.workers.reduce_range(stream.image_range(self.dtype))
        image_range = self._image_range
        if stream.maps_range is None or self.config.place_in_stack(number) == 1:
            return image_range.with_scope(self.config.scaling)
        maps_range = self.workers.reduce_range(stream.maps_range)
        first = self.stack.layers[0].input_range
        low, high = (min_max_scale(end[None], first)[0] for end in (image_range.low, image_range.high))
        joined = ValueRange(maps_range.low.to(self.dtype), maps_range.high.to(self.dtype)).beside(ValueRange(low, high))
        return joined.with_scope(self.config.scaling, maps=len(maps_range.low))

    def _learn_filters(self, number: int, input_range: ValueRange) -> tuple[Tensor, Tensor]:
        """Learn the filters of a layer from its input's patches (stages 2 and 3)."""
        config, stream = self.config, self.training
        generator = layer_generator(config.seed, number)
        size = config.size_of_filter(number)
        maps = stream.maps if config.place_in_stack(number) > 1 else None
        layer_input = LayerInput(self.stack, input_range, maps, stream.images, stream.chunk)
        patches = LayerPatches(layer_input, self._labels, size, self.workers, self._shard, self._weights)
        bank, options = config.bank_of(number), BankOptions.of(config)
        if config.is_grey(number):
            grey = GreyPatches(patches, self.stack.image_shape[0])
            filters = grey.in_colour(learn_filters(bank, grey, config.filters, generator, options))
        else:
            filters = learn_filters(bank, patches, config.filters, generator, options)
        weights = filters.weights.view(config.filters, patches.channels, size, size).to(self.device, self.dtype)
        bias = filters.bias.to(self.device, self.dtype)
        self.workers.broadcast(weights, bias)  # another kind of machine may differ in the last bit
        return weights, bias

    def _sum_features(self, layer: Layer, targets: Targets, watch: Stopwatch) -> Moments:
        """Pass the training images through the layer, chunk by chunk, and sum their features (stages 4 to 7)."""
        sums = FeatureSums(targets, self.workers, self.plan.by_rows)
        for part, maps in self._advance(layer, self.training, watch):
            features = self._features(maps, watch)
            self._keep(part, features)
            if self._kept_features is None:
                with watch.time("moments"):
                    sums.add(with_zeros(features, self.plan.width), part)
        with watch.time("moments"):
            if self._kept_features is not None:
                for start in range(0, len(self._kept_features), self.plan.rows):
                    part = slice(start, start + self.plan.rows)
                    sums.add(self._kept_features[part], part)
            return sums.reduce_to_rank0()

    def _keep(self, part: slice, features: Tensor) -> None:
        """Keep some training images' features until the outputs are updated, if there is room, and their spread."""
        if self._kept_features is not None:
            self._kept_features[part, : self.plan.features] = features
        if self.sketches:
            self.sketches.add(features, self.workers)

    def _update_outputs(self, layer: Layer, watch: Stopwatch) -> None:
        """Add the layer's correction to every image's output (stage 8)."""
        finite = []  # asked at the end, so that a GPU need not wait for the answer after each chunk
        if self._kept_features is not None:
            for part in self.training.parts(self._chunks_updated_together):
                finite.append(self._update(layer, self.training, part, self._kept_features[part], watch))
        else:
            assert self.training.maps is not None
            for part, maps in zip(self.training.parts(), self.training.maps.chunks(self.training.chunk), strict=True):
                finite.append(self._update(layer, self.training, part, self._features(maps, watch), watch))
        for stream in self.others.values():
            for part, maps in self._advance(layer, stream, watch):
                finite.append(self._update(layer, stream, part, self._features(maps, watch), watch))
        if not bool(torch.stack(finite).all()):
            raise NumericalError(f"layer {len(self.stack.layers) + 1} has NaN or infinite outputs. Raise the ridge.")

    @property
    def _chunks_updated_together(self) -> int:
        """Chunks of kept features per update: several on a GPU, where small operations wait for their launch.

        A sketch takes three copies in float32, 12 bytes per number; the rows of the plan take 4 in half precision.
        """
        return max(1, self.plan.rows // (4 * self.training.chunk)) if self.device.type == "cuda" else 1

    def _features(self, maps: Tensor, watch: Stopwatch) -> Tensor:
        with watch.time("pooling"):
            return self.stack.features(maps)

    def _update(self, layer: Layer, stream: ImageStream, part: slice, features: Tensor, watch: Stopwatch) -> Tensor:
        """Update the outputs of a chunk, and return whether they are finite, a bool; if not, they stay as they were."""
        with watch.time("update"):
            before = stream.output[part]
            output = self.stack.update(layer, before, features)
            finite = output.isfinite().all()
            stream.output[part] = torch.where(finite, output, before)
            if self.sketches:
                self.sketches.put(stream.name, part, features[:, : self.plan.features], stream.per_image)
        return finite

    def _advance(self, layer: Layer, stream: ImageStream, watch: Stopwatch) -> Iterator[tuple[slice, Tensor]]:
        """Pass a stream through a layer: yield its new maps chunk by chunk."""
        empty = None
        if stream.maps is None:
            (n, _, h, w), half = stream.images.shape, self.stack.half
            shape, dtype = (n, self.config.filters, h, w), torch.float16 if half else self.dtype
            # Channels last in half precision, for the kernels.
            empty = make_store(self.plan.maps_place, shape, dtype, self.device, half, self._scratch)
        return stream.advance(self.stack, layer, watch, empty)

    def _empty_sketches(self) -> Sketches | None:
        """Return memory for the sketches that a kernel readout is fitted to, of the streams that have what it needs."""
        if not self.config.has_kernel:
            return None
        augmentation, mirrored = Augmentation.parse(self.config.augment), self.config.mirrors_kernel
        streams = {}
        if not self.config.augment.strip() or (mirrored and not augmentation.is_random):
            streams["training"] = len(self.training.labels) // self.training.per_image
        if self.plan.sketches.of_others:
            streams |= {name: len(stream.labels) for name, stream in self.others.items()}
        return Sketches(self.config, self.stack.image_shape, streams, self.device, self.plan.sketches)

    def _training_stream(self, data: TrainingData) -> ImageStream:
        """Return this process's shard of the training images, with its copies."""
        config, (channels, _, _) = self.config, data.image_shape
        per_image, shard = config.copies_per_image, self.workers.shard(len(data.images), "training images")
        self._labels = data.labels.repeat_interleave(per_image)  # of all processes
        self._shard = slice(shard.start * per_image, shard.stop * per_image)
        self._weights: Tensor | None = None
        if (weights := data.relative_weights) is not None:
            self._weights = weights.repeat_interleave(per_image)
        changes = None
        if per_image > 1:
            augmentation = Augmentation.parse(config.augment)
            changes = draw_changes(augmentation, len(data.images), config.copies, channels, config.seed)[shard]
        images = store_images(data.images[shard], self.device, self.plan.maps_place, data.file)
        stream = self._stream("training", images, data.labels[shard], changes)
        if self._weights is not None:
            stream.weights = self._weights[self._shard].to(self.device, self.dtype)
        return stream

    def _evaluation_stream(self, name: str, images: Tensor, labels: Tensor) -> ImageStream:
        """Return this process's shard of the validation or test images, in all their views."""
        views, shard = self.config.views, self.workers.shard(len(images), f"{name} images")
        changes = changes_of_views(views, images.shape[1]) if len(views) > 1 else None
        store = store_images(images[shard], self.device, self.plan.maps_place)
        return replace(self._stream(name, store, labels[shard], changes), averaged=True)

    def _stream(self, name: str, images: MapStore, labels: Tensor, changes: Tensor | None) -> ImageStream:
        """Return a stream of images, each with its copies or views if there are changes (n or 1, copies, numbers)."""
        per_image = 1
        if changes is not None:
            images, per_image = AugmentedImages(images, changes), changes.shape[1]
        labels = labels.to(self.device).repeat_interleave(per_image)
        output = torch.zeros(len(labels), self.stack.classes, dtype=self.dtype, device=self.device)
        return ImageStream(name, images, labels, output, max(1, self.plan.chunk // per_image) * per_image, per_image)
