from __future__ import annotations

import digits as all_digits
import pytest


@pytest.fixture(scope="session")
def digits():
    """Four classes of digits as images (n, 8, 8): 240 to train on, and 120 others."""
    chosen = all_digits.LABELS < 4
    images, labels = all_digits.IMAGES[chosen, 0].astype(float), all_digits.LABELS[chosen]
    return (images[:240], labels[:240]), (images[360:480], labels[360:480])
