"""Small versions of the public data sets, so that tests can write complete ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from rescnet.data.archives import PUBLIC_SETS, PublicSet


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., PublicSet]:
    """Change numbers of a public data set (images, classes, ...) during a test."""

    def change(name: str, **numbers: object) -> PublicSet:
        small = dataclasses.replace(PUBLIC_SETS[name], **numbers)
        monkeypatch.setitem(PUBLIC_SETS, name, small)
        return small

    return change
