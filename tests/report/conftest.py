from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from one_cpu import one_thread_only
from train_network import train_network

from rescnet import Model, NetworkConfig
from rescnet.data import Dataset, ImageSet
from rescnet.report import write_report
from rescnet.report.evaluation import evaluate, evaluation_images


@pytest.fixture(autouse=True)
def on_one_thread_only():
    with one_thread_only():
        yield


@pytest.fixture(scope="session")
def dataset(blobs):
    images, labels = blobs
    names = ("ant", "bee", "cat", "dog", "elk", "fox")
    parts = np.split(np.arange(len(images)), [120, 170])
    train_set, validation, test = (ImageSet(images[part], labels[part].astype(np.int64), names) for part in parts)
    return Dataset("blobs", train_set, validation, test)


@pytest.fixture(scope="session")
def model(dataset):
    config = NetworkConfig(
        layers=5, filters=6, block_sizes=(4,), block_stride=2, pyramid=(2, 1), ridge=0.5, stop_at_zero_error=False
    )
    splits = {
        name: (part.images, part.labels) for name, part in vars(dataset).items() if name in ("validation", "test")
    }
    with one_thread_only():
        network, history = train_network(dataset.train.images, dataset.train.labels, config, **splits)
    about = {"dataset": "blobs", "device": "a small machine", "versions": {"rescnet": "0.1.0"}}
    return Model(network, history, dataset.class_names, about)


@pytest.fixture(scope="session")
def evaluation(model, dataset):
    with one_thread_only():
        return evaluate(model, *evaluation_images(model, dataset))


@pytest.fixture
def report_data(tmp_path):
    """Write a report and return the data in its page."""

    def read(*arguments: Any, **options: Any) -> dict[str, Any]:
        model, *rest = arguments
        page = write_report(model, tmp_path / "data.html", *rest, overwrite=True, **options)
        return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])

    return read
