"""Small images with six classes, for tests that train."""

from __future__ import annotations

import numpy as np


def gratings():
    """Six classes of 12×12 colour images: oriented gratings with noise. Returns images uint8 (n, 3, 12, 12), labels."""
    rng = np.random.default_rng(5)
    labels = np.arange(240) % 6
    y, x = np.mgrid[:12, :12]
    angle = labels[:, None, None] * np.pi / 6
    wave = np.sin(1.3 * (np.cos(angle) * x + np.sin(angle) * y) + rng.uniform(0, 6, (240, 1, 1)))
    images = 128 + 50 * wave[:, None] + rng.normal(0, 45, (240, 3, 12, 12))
    return images.clip(0, 255).astype(np.uint8), labels
