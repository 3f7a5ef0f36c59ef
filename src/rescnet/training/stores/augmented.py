"""Images with their copies or views as one store: copies are computed per chunk and never kept."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ...stages.augment import change_images
from ...stages.patches import gather_patches
from .store import MapStore

TAKEN_AT_A_TIME = 1024  # images that single patches are gathered from


class AugmentedImages(MapStore):
    """Each image followed by its copies; read-only.

    Parameters
    ----------
    images : MapStore, shape (n, d, h, w)
    changes : Tensor, shape (n or 1, copies, numbers)
        Change of each copy; the first one is the unchanged image.
    """

    def __init__(self, images: MapStore, changes: Tensor) -> None:
        n, d, h, w = images.shape
        self.copies = changes.shape[1]
        super().__init__((n * self.copies, d, h, w), images.dtype, images.device)
        self._images, self._changes = images, changes.expand(n, -1, -1)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield images with all their copies; ``size`` is a multiple of the copies."""
        if size % self.copies:
            raise ValueError(f"chunk size must be a multiple of {self.copies} copies, got {size}.")
        start = 0
        for images in self._images.chunks(size // self.copies):
            changes = self._changes[start : start + len(images)].flatten(0, 1)
            start += len(images)
            yield change_images(images.repeat_interleave(self.copies, 0), changes)

    def write(self, part: slice, maps: Tensor) -> None:
        """Raise an error: images are read-only."""
        raise TypeError("images are read-only.")

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Compute the named copies and cut a patch out of each."""
        image = image.cpu()
        found = []
        for start in range(0, max(1, len(image)), TAKEN_AT_A_TIME):
            some = slice(start, start + TAKEN_AT_A_TIME)
            made = self.take(image[some])
            where = torch.arange(len(made), device=self.device)
            found.append(gather_patches(made, size, where, row[some].to(self.device), column[some].to(self.device)))
        return torch.cat(found)

    def take(self, image: Tensor) -> Tensor:
        """Return whole copies, on the device."""
        image = image.cpu()
        whole = self._images.take(image // self.copies)
        return change_images(whole, self._changes[image // self.copies, image % self.copies])
