from __future__ import annotations

import pytest
from one_cpu import one_cpu_only
from saving.tiny_model import make_model, noise

from rescnet.saving import save_model


@pytest.fixture(scope="module", autouse=True)
def one_cpu():
    """Use no GPU and one thread: networks this small are slower with more."""
    with one_cpu_only():
        yield


@pytest.fixture(scope="session")
def images():
    return noise()


@pytest.fixture(scope="session")
def model():
    with one_cpu_only():
        return make_model()


@pytest.fixture
def saved(model, tmp_path):
    save_model(tmp_path / "model", model)
    return tmp_path / "model"
