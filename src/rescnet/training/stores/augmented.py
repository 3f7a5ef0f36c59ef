"""Images and their copies as one store: copies are made when a chunk is asked for, and are never kept."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ...stages.augment import change_images
from .derived import MadeImages
from .store import MapStore


class AugmentedImages(MadeImages):
    """Each image followed by its copies.

    Parameters
    ----------
    images : MapStore, shape (n, d, h, w)
    changes : Tensor, shape (n or 1, copies, numbers)
        What each copy is like; the image itself, unchanged, is the first of them.
    """

    def __init__(self, images: MapStore, changes: Tensor) -> None:
        n, d, h, w = images.shape
        self.copies = changes.shape[1]
        super().__init__((n * self.copies, d, h, w), images.dtype, images.device)
        self._images, self._changes = images, changes.expand(n, -1, -1)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield images with all their copies; ``size`` is a multiple of the copies."""
        if size % self.copies:
            raise ValueError(f"chunks of {size} do not hold whole sets of {self.copies} copies.")
        start = 0
        for images in self._images.chunks(size // self.copies):
            changes = self._changes[start : start + len(images)].flatten(0, 1)
            start += len(images)
            yield change_images(images.repeat_interleave(self.copies, 0), changes)

    def take(self, image: Tensor) -> Tensor:
        """Return whole copies, on the device."""
        image = image.cpu()
        whole = self._images.take(image // self.copies)
        return change_images(whole, self._changes[image // self.copies, image % self.copies])
