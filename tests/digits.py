"""scikit-learn's digits: images uint8 (1797, 1, 8, 8), and labels."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

_DIGITS = load_digits()
IMAGES, LABELS = _DIGITS.images[:, None].astype(np.uint8), _DIGITS.target
