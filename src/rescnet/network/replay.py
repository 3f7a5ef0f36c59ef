"""Predictions of few images on a GPU as CUDA graphs.

A single image is a hundred thousand times too little work for a GPU: it waits for the launch of each operation. A graph
records the operations of a prediction once, and launches all of them together afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import torch
from torch import Tensor

MOST_IMAGES = 16  # of a prediction that is recorded: with more, the GPU is busy
MOST_GRAPHS = 32

Predict = Callable[[Tensor], Tensor]


class Replays:
    """Recorded predictions by key. A key is recorded at its second use, since recording takes as long as predicting."""

    def __init__(self) -> None:
        self._predictions: dict[Any, Predict | None] = {}
        self._lock = Lock()  # threads would overwrite each other's images

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without the graphs, which belong to this process."""
        return Replays, ()

    def outputs(self, key: Any, predict: Predict, images: Tensor) -> Tensor:
        """Return ``predict(images)``; the key must stand for the function, and the shape and type of the images."""
        with self._lock:
            if key not in self._predictions:
                if len(self._predictions) == MOST_GRAPHS:
                    self._predictions.clear()
                self._predictions[key] = None
                return predict(images)
            recorded = self._predictions[key] or _record(predict, images)
            self._predictions[key] = recorded
            return recorded(images)


def _record(predict: Predict, images: Tensor) -> Predict:
    """Return the prediction as a graph, or as it is if a graph cannot hold it, e.g. copies from the host."""
    try:
        return _Graph(predict, images)
    except RuntimeError:
        return predict


class _Graph:
    """A recorded prediction."""

    def __init__(self, predict: Predict, images: Tensor) -> None:
        self._predict = predict  # keeps the tensors that the graph reads
        self._images = images.clone()
        self._graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(images.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(images.device))
        with torch.cuda.stream(stream):
            predict(self._images)
        torch.cuda.current_stream(images.device).wait_stream(stream)
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._outputs = predict(self._images)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the outputs of images of the recorded shape."""
        self._images.copy_(images)
        self._graph.replay()
        return self._outputs.clone()
