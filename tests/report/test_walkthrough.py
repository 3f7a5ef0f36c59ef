"""What the page shows of one layer is what the network computes, whatever its options."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from report.test_writing import data_of

from rescnet import NetworkConfig, train
from rescnet.report import write_report
from rescnet.report.first_layer import layer_numbers

Image = pytest.importorskip("PIL.Image")


def test_both_signs_of_a_map_are_shown_as_they_are_pooled(model, dataset, tmp_path):
    config = NetworkConfig(
        layers=1,
        filters=3,
        block_sizes=(4,),
        block_stride=2,
        pyramid=(2, 1),
        rectifier="both",
        pooling="mean",
        pyramid_bins="adaptive",
        matrix_root=True,
    )
    network, history = train(dataset.train.images, dataset.train.labels, config)
    data = data_of(write_report(model.having(network=network, history=history), tmp_path / "both.html", dataset))
    assert (data["layer"]["rectifier"], data["layer"]["pooled_maps"], data["layer"]["matrix_root"]) == ("both", 6, True)
    content = base64.b64decode(data["walk"]["correlations"].split(",")[1])
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=int)
    assert picture.shape[0] == picture.shape[1]
    assert picture.shape[0] % 6 == 0  # six maps, each with its row


def test_the_filters_of_grey_stacks_are_told(blobs):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = NetworkConfig(
        layers=2, filters=4, block_sizes=(6,), block_stride=2, pyramid=(2, 1), stack_depth=1, grey_stack_every=2,
        grey_filter_size=5, stop_at_zero_error=False,
    )  # fmt: skip
    network, _ = train(images, labels, config)
    assert layer_numbers(network)["grey_size"] == 5
    assert layer_numbers(network.first_layers(1))["grey_size"] == 0  # the grey layer is not there
