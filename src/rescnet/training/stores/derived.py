"""Images that are made when they are asked for, from others that are kept: copies, prepared ones."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ...stages.patches import gather_patches
from .store import MapStore

TAKEN_AT_A_TIME = 1024  # images single patches are gathered from


class MadeImages(MapStore):
    """A store that only reads: to take a patch of an image, the whole image is made."""

    @abstractmethod
    def take(self, image: Tensor) -> Tensor:
        """Return some images on the device, shape (samples, channels, h, w)."""

    def write(self, part: slice, maps: Tensor) -> None:
        """Refuse: images are read only."""
        raise TypeError("images are not written to.")

    def patches(self, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Make the images named, and take a patch of each."""
        image = image.cpu()
        found = []
        for start in range(0, max(1, len(image)), TAKEN_AT_A_TIME):
            some = slice(start, start + TAKEN_AT_A_TIME)
            made = self.take(image[some])
            where = torch.arange(len(made), device=self.device)
            found.append(gather_patches(made, size, where, row[some].to(self.device), column[some].to(self.device)))
        return torch.cat(found)
