"""Network and history of a model that was trained; the start may be such a pair too."""

from __future__ import annotations

import numpy as np

from rescnet import Model, train


def train_network(images, labels=None, config=None, *, start=None, **settings):
    if start is not None and not isinstance(start, Model):
        start = Model(*start, np.arange(start[0].classes))
    model = train(images, labels, config, start=start, **settings)
    return model.network, model.history
