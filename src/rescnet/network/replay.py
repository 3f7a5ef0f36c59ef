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
        self._newest: _Graph | None = None  # whose memory the next one shares: they run one after the other
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
                    self._newest = None
                self._predictions[key] = None
                return predict(images)
            recorded = self._predictions[key] or self._record(predict, images, held)
            self._predictions[key] = recorded
            return recorded(images)

    def _record(self, predict: Predict, images: Tensor, held: Callable[[], Any]) -> Predict:
        """Return the prediction as a graph, or as it is if it cannot be recorded."""
        try:
            with _recording:
                self._newest = _Graph(predict, images, held, self._newest)
        except RuntimeError as error:  # e.g. out of memory
            logger.warning("a prediction could not be recorded as a CUDA graph: %s", error)
            return predict
        return self._newest


class _Graph:
    """A recorded prediction, which shares stream and memory with the one before."""

    def __init__(self, predict: Predict, images: Tensor, held: Callable[[], Any], before: _Graph | None) -> None:
        self._images = images.clone()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(images.device):
            current = torch.cuda.current_stream(images.device)
            self._stream: torch.cuda.Stream = before._stream if before else torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                predict(self._images)
            current.wait_stream(self._stream)
            pool = before._graph.pool() if before else None
            with torch.cuda.graph(self._graph, pool, self._stream, capture_error_mode="thread_local"):
                self._outputs = predict(self._images)
        self._held = predict, held()  # the graph reads their memory

    def __call__(self, images: Tensor) -> Tensor:
        """Return the outputs of images of the recorded shape."""
        with torch.cuda.device(images.device):
            self._images.copy_(images)
            self._graph.replay()
            return self._outputs.clone()
