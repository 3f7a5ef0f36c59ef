"""Predictions of few images on a GPU as CUDA graphs.

A single image is too little work for a GPU: it waits for the launch of each operation. A graph records the operations
of a prediction once, and launches all of them together afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import Any

import torch
from torch import Tensor

MOST_IMAGES = 16  # of a prediction that is recorded: with more, the GPU is busy
MOST_GRAPHS = 32

Predict = Callable[[Tensor], Tensor]
logger = logging.getLogger(__name__)
_recording = Lock()  # of all networks: one graph is recorded at a time


class Replays:
    """Recorded predictions by key. A key is recorded at its second use, since recording takes as long as predicting."""

    def __init__(self) -> None:
        self._predictions: dict[Any, Predict | None] = {}
        self._pool: Any = None  # of memory, which all graphs share: they run one after the other
        self._lock = Lock()  # threads would overwrite each other's images

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without the graphs, which belong to this process."""
        return Replays, ()

    def outputs(self, key: Any, predict: Predict, images: Tensor, held: Callable[[], Any] = lambda: None) -> Tensor:
        """Return ``predict(images)``.

        The key must stand for the function, and for the shape and type of the images. ``held`` returns caches of the
        function, which a graph keeps, since it reads their memory.
        """
        with self._lock:
            if key not in self._predictions:
                if len(self._predictions) == MOST_GRAPHS:
                    self._predictions.clear()
                    self._pool = None
                self._predictions[key] = None
                return predict(images)
            recorded = self._predictions[key] or self._record(predict, images, held)
            self._predictions[key] = recorded
            return recorded(images)

    def _record(self, predict: Predict, images: Tensor, held: Callable[[], Any]) -> Predict:
        """Return the prediction as a graph, or as it is if it cannot be recorded."""
        try:
            with _recording:
                graph = _Graph(predict, images, held, self._pool)
        except RuntimeError as error:  # e.g. out of memory
            logger.warning("a prediction could not be recorded as a CUDA graph: %s", error)
            return predict
        self._pool = graph.pool
        return graph


class _Graph:
    """A recorded prediction."""

    def __init__(self, predict: Predict, images: Tensor, held: Callable[[], Any], pool: Any) -> None:
        self._images = images.clone()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(images.device):
            stream = torch.cuda.Stream(images.device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream(images.device))
            with torch.cuda.stream(stream):
                predict(self._images)
            torch.cuda.current_stream(images.device).wait_stream(stream)
            with torch.cuda.graph(self._graph, pool, stream, capture_error_mode="thread_local"):
                self._outputs = predict(self._images)
        self._held = predict, held()  # the graph reads their memory
        self.pool = self._graph.pool()

    def __call__(self, images: Tensor) -> Tensor:
        """Return the outputs of images of the recorded shape."""
        with torch.cuda.device(images.device):
            self._images.copy_(images)
            self._graph.replay()
            return self._outputs.clone()
