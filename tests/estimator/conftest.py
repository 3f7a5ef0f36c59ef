from __future__ import annotations

import digits as all_digits
import pytest


@pytest.fixture(scope="session")
def digits():
    """Four classes of digits as images (n, 8, 8), half of them to train on: 360 and 360."""
    chosen = all_digits.LABELS < 4
    images, labels = all_digits.IMAGES[chosen, 0].astype(float), all_digits.LABELS[chosen]
    return (images[:360], labels[:360]), (images[360:], labels[360:])
