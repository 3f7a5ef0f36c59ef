"""Public sets made small, so that tests can write whole ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from rescnet.data.archives import PUBLIC_SETS, PublicSet


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., PublicSet]:
    """Give a public set other numbers (of images, of classes, ...) for the time of a test."""

    def change(name: str, **numbers: object) -> PublicSet:
        small = dataclasses.replace(PUBLIC_SETS[name], **numbers)
        monkeypatch.setitem(PUBLIC_SETS, name, small)
        return small

    return change
