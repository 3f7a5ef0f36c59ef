"""A classifier by the names of its parameters and of options, which go into its ``config``."""

from __future__ import annotations

import inspect

from rescnet import Config, ResCNetClassifier

PARAMETERS = set(inspect.signature(ResCNetClassifier).parameters)


def classifier_with(preset=None, **given):
    options = {name: given.pop(name) for name in given.keys() - PARAMETERS}
    return ResCNetClassifier(**given, config=Config(preset, **options))
