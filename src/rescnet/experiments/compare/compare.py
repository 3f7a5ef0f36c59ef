"""Train several models on the same images and measure each in the same way."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...config.compute import ComputeOptions
from ...data import Dataset, ImageSet
from ...data.archives import PUBLIC_SETS
from ...data.splits import stratified_split
from ...network.device import choose_device
from ...training.stopwatch import PeakMemory, trim_heap
from .candidates import Contestant
from .published import published_accuracy


@dataclass(frozen=True)
class Row:
    """One model's line in the table.

    Attributes
    ----------
    model : str
        Its name, with the options given over its preset.
    accuracy : float or None
        Share of images that are right, the mean over splits; None if it failed.
    deviation : float or None
        Standard deviation over splits, None for a single one.
    seconds, predict_seconds : float
        To learn, and to predict the images it is measured on; means over splits.
    cpu_seconds : float
        Processor time of learning, all cores together: on a busy machine the fairer figure.
    peak_memory : int
        Bytes of the process, or of the GPU's memory.
    model_bytes : int
    published : float or None
        As its paper has it, on the same set's test images.
    error : str
        Why it failed, if it did.
    config : dict
    """

    model: str
    accuracy: float | None = None
    deviation: float | None = None
    seconds: float = 0.0
    predict_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    model_bytes: int = 0
    published: float | None = None
    error: str = ""
    config: dict[str, Any] | None = None


def compare_models(
    dataset: Dataset, contestants: list[Contestant], held_out: float, splits: int, seed: int, compute: ComputeOptions
) -> Iterator[Row]:
    """Yield the row of each model as it is done.

    Parameters
    ----------
    dataset : Dataset
    contestants : list of Contestant
    held_out : float
        Share of the training images that models are measured on; 0: the test images are.
    splits : int
        Random choices of those held out: seeds ``seed``, ``seed + 1``, …
    seed : int
        Of splits and models.
    compute : ComputeOptions
    """
    classes = len(dataset.class_names)
    configs = [contestant.configure(dataset.name, dataset.shape, classes, seed) for contestant in contestants]
    for contestant, config in zip(contestants, configs, strict=True):
        yield _measure(dataset, contestant, config, held_out, splits, seed, compute)


def split_of(dataset: Dataset, held_out: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Return the images to learn from and those to measure on."""
    train = dataset.train
    if not held_out:
        assert dataset.test is not None
        return train, dataset.test
    kept, held = stratified_split(train.labels, held_out, seed)
    names = train.class_names
    return (
        ImageSet(train.images[kept], train.labels[kept], names),
        ImageSet(train.images[held], train.labels[held], names),
    )


def _is_partial(dataset: Dataset) -> bool:
    """Return whether a public set lacks training images, so that published figures are no comparison."""
    public = PUBLIC_SETS.get(dataset.name)
    return public is not None and len(dataset.train) < public.n_train


def _give_memory_back() -> None:
    """Return freed memory to the system: what one model left is not the next one's peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim_heap()


def _measure(
    dataset: Dataset,
    contestant: Contestant,
    config: Any,
    held_out: float,
    splits: int,
    seed: int,
    compute: ComputeOptions,
) -> Row:
    memory = PeakMemory(choose_device(compute.device))
    accuracies, seconds, predict_seconds, cpu_seconds, size, peak = [], [], [], [], 0, 0
    for number in range(splits):
        train, test = split_of(dataset, held_out, seed + number)
        _give_memory_back()
        memory.reset()
        start, processor = time.perf_counter(), time.process_time()
        try:
            fitted = contestant.fit(config, train.images, train.labels, compute)
        except (ValueError, ArithmeticError, MemoryError, RuntimeError) as error:  # the others' turn comes all the same
            said = str(error).splitlines()[0] if str(error) else "it is out of memory"
            return Row(contestant.label, error=said, config=config.to_dict())
        if memory.device.type == "cuda":
            torch.cuda.synchronize(memory.device)
        learnt = time.perf_counter()
        cpu_seconds.append(time.process_time() - processor)
        predicted = fitted.predict(test.images).cpu().numpy()
        done = time.perf_counter()
        accuracies.append(float((predicted == test.labels).mean()))
        seconds.append(learnt - start)
        predict_seconds.append(done - learnt)
        peak, size = max(peak, memory.bytes()), fitted.size
        del fitted
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return Row(
        contestant.label,
        accuracy=float(np.mean(accuracies)),
        deviation=float(np.std(accuracies)) if splits > 1 else None,
        seconds=float(np.mean(seconds)),
        predict_seconds=float(np.mean(predict_seconds)),
        cpu_seconds=float(np.mean(cpu_seconds)),
        peak_memory=peak,
        model_bytes=size,
        published=None if held_out or _is_partial(dataset) else published_accuracy(contestant.name, dataset.name),
        config=config.to_dict(),
    )
