"""Augmentation: flipped, shifted, rotated and recoloured copies of images.

:class:`~rescnet.config.grammars.Augmentation` names the changes. Each copy is described by a row of numbers, its
*change*, drawn once from a seed. The copy itself is computed whenever it is needed and never stored.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.grammars import Augmentation

FLIP, DOWN, RIGHT, TURN, CONTRAST, COLOUR = range(6)  # columns of a change; from COLOUR on, one per channel


def draw_changes(augmentation: Augmentation, images: int, copies: int, channels: int, seed: int) -> Tensor:
    """Draw the changes of all images and their copies, shape (images, 1 + copies, numbers); the first is no change.

    All images are drawn from one seed, so each process takes the rows of its own shard.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = 2 * torch.rand(images, copies, COLOUR + channels, generator=generator) - 1
    changes = torch.zeros(images, 1 + copies, COLOUR + channels)
    changes[:, 1::2, FLIP] = float(augmentation.flip)
    if augmentation.shift:
        reach = 2 * augmentation.shift + 1
        places = ((drawn[..., DOWN : RIGHT + 1] + 1) / 2 * reach).floor().clamp_max(reach - 1) - augmentation.shift
        changes[:, 1:, DOWN : RIGHT + 1] = places
    changes[:, 1:, TURN] = augmentation.rotate / 180 * pi * drawn[..., TURN]
    changes[:, 1:, CONTRAST:] = augmentation.jitter * drawn[..., CONTRAST:]
    return changes


def changes_of_views(views: list[tuple[bool, int, int]], channels: int) -> Tensor:
    """Return views as changes, shape (1, views, numbers)."""
    changes = torch.zeros(1, len(views), COLOUR + channels)
    changes[0, :, : RIGHT + 1] = torch.tensor(views, dtype=torch.float32)
    return changes


def view_images(images: Tensor, view: tuple[bool, int, int]) -> Tensor:
    """Return one view of images (n, channels, height, width): :func:`change_images` with one change for all."""
    flip, down, right = view
    height, width = images.shape[2:]
    if flip:
        images = images.flip(3)
    if down:
        images = images[:, :, (torch.arange(height, device=images.device) - down).clamp(0, height - 1)]
    if right:
        images = images[:, :, :, (torch.arange(width, device=images.device) - right).clamp(0, width - 1)]
    return images


def mean_of_views(output: Tensor, views: int) -> Tensor:
    """Return the mean over views (n, classes) of outputs (views·n, classes), one view after the other."""
    return output.reshape(views, -1, output.shape[1]).mean(0)


def change_images(images: Tensor, changes: Tensor) -> Tensor:
    """Apply to each image (n, channels, height, width) its change (n, numbers), in the type of the images.

    Integer images are rounded and clipped to 0 to 255.
    """
    _, _, height, width = images.shape
    changes = changes.to(images.device)
    rows = torch.arange(height, device=images.device) - changes[:, DOWN, None].long()  # (n, height)
    columns = torch.arange(width, device=images.device)
    columns = torch.where(changes[:, FLIP, None] > 0, width - 1 - columns, columns)
    columns = columns - torch.where(changes[:, FLIP, None] > 0, -1, 1) * changes[:, RIGHT, None].long()
    which = torch.arange(len(images), device=images.device)[:, None, None]
    # Indexing around the channel axis moves it to the end: (n, height, width, channels).
    moved = images[which, :, rows.clamp(0, height - 1)[:, :, None], columns.clamp(0, width - 1)[:, None]]
    moved = moved.permute(0, 3, 1, 2)
    turned, coloured = bool((changes[:, TURN] != 0).any()), bool((changes[:, CONTRAST:] != 0).any())
    if not turned and not coloured:
        return moved
    dtype = images.dtype if images.is_floating_point() else torch.float32
    changed = moved.to(dtype)
    if turned:
        changed = _turn(changed, changes[:, TURN].to(dtype))
    if coloured:
        mean = changed.double().mean((1, 2, 3), keepdim=True).to(dtype)
        contrast = 1 + changes[:, CONTRAST, None, None, None].to(dtype)
        strength = 1 + changes[:, COLOUR:, None, None].to(dtype)
        same = (changes[:, CONTRAST:] == 0).all(1)[:, None, None, None]
        changed = torch.where(same, changed, ((changed - mean) * contrast + mean) * strength)
    return changed if images.is_floating_point() else changed.round().clamp(0, 255).to(images.dtype)


def _turn(images: Tensor, angles: Tensor) -> Tensor:
    """Rotate each image about its centre by its angle in radians; the border is repeated."""
    _, _, height, width = images.shape
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    matrix = torch.stack(
        [torch.stack([cos, -sin * height / width, zero], 1), torch.stack([sin * width / height, cos, zero], 1)], 1
    )
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    turned = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return torch.where((angles != 0)[:, None, None, None], turned, images)
