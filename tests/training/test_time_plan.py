"""Time plan: layers, copies that pass them, and the readout."""

from __future__ import annotations

import pytest

from rescnet import NetworkConfig
from rescnet.config.defaults import default_settings
from rescnet.network.history import LayerRecord
from rescnet.network.memory import RunSizes
from rescnet.training.readout.fit import readout_operations
from rescnet.training.time_plan import TimePlan

RECORD = LayerRecord(
    2, 0.5, None, None, 0.5, 0.3, 1.0, {"filters": 6.0, "convolution": 1.0, "pooling": 2.0, "heads": 1.0}, 0
)


def best(images, **options):
    return NetworkConfig(**default_settings((3, 32, 32), images, 10, "best", True) | options)


def sizes(images, classes=10):
    return RunSizes((3, 32, 32), classes, images)


def test_copies_of_the_readout_only_pass_the_layers():
    """20 images and copies took 10 s, of which 3 s to pass."""
    plan = TimePlan.of(best(100, kernel_copies="4 shift 2"), sizes(100), RECORD, 20, 1e30)
    assert plan.layer == pytest.approx(2 * 100 * 10 / 20)  # with mirror images
    assert plan.copies == pytest.approx(4 * 2 * 100 * 3 / 20)
    assert plan.seconds(3) == pytest.approx(3 * (plan.layer + plan.copies))
    alone = TimePlan.of(best(100, kernel_copies=""), sizes(100), RECORD, 20, 1e30)
    assert alone.copies == 0 and alone.layer == plan.layer


def test_the_readout_takes_its_operations_over_the_speed():
    plan = TimePlan.of(best(500), sizes(500), RECORD, 20, 1e9)
    assert plan.readout == readout_operations(best(500), sizes(500)) / 1e9
    assert readout_operations(best(500, readout="heads"), sizes(500)) == 0
    products = 2 * 4500 * 51_192 * 3800  # of 4,500 rows with 3,800 components
    assert 3 * products < readout_operations(best(500), sizes(500)) < 5 * products
    many = readout_operations(best(5000), sizes(5000))
    assert many > 5 * 2 * 45_000 * 51_200 * 3800  # by subspace iteration
    assert readout_operations(best(5000), sizes(5000, 20)) > many  # a metric takes a product per class
