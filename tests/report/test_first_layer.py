"""The sizes and pictures of one layer agree with the network, for other options too."""

from __future__ import annotations

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from train_network import train_network

from rescnet import NetworkConfig
from rescnet.report.first_layer import layer_sizes

Image = pytest.importorskip("PIL.Image")


def test_maps_of_both_signs(model, dataset, report_data):
    config = NetworkConfig(
        layers=1,
        filters=3,
        block_sizes=(4,),
        block_stride=2,
        pyramid=(2, 1),
        rectifier="both",
        pooling="mean",
        pyramid_bins="adaptive",
        matrix_log=True,
    )
    network, history = train_network(dataset.train.images, dataset.train.labels, config)
    data = report_data(replace(model, network=network, history=history), dataset)
    assert (data["layer"]["rectifier"], data["layer"]["pooled_maps"], data["layer"]["matrix_log"]) == ("both", 6, True)
    content = base64.b64decode(data["first_layer"]["correlations"].split(",")[1])
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=int)
    assert picture.shape[0] == picture.shape[1]
    assert picture.shape[0] % 6 == 0  # one row per map


def test_cells_of_each_block_size(blobs):
    config = NetworkConfig(layers=1, filters=4, block_sizes=(4, 8), block_stride=2, pyramid=(2, 1))
    network, _ = train_network(blobs[0][:60], blobs[1][:60], config)
    sizes = layer_sizes(network)
    assert sizes["cells"] == [5, 5] and sizes["blocks"] == [[5, 5], [3, 3]]
    assert sizes["features"] == sum(sizes["cells"]) * sizes["pairs"]


def test_grey_filter_size(blobs):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = NetworkConfig(
        layers=2, filters=4, block_sizes=(6,), block_stride=2, pyramid=(2, 1), stack_depth=1, grey_stack_every=2,
        stop_at_zero_error=False,
    )  # fmt: skip
    network, _ = train_network(images, labels, config)
    assert layer_sizes(network)["grey_size"] == 7 and layer_sizes(network)["stack_depth"] == 1
    assert layer_sizes(network.first_layers(1))["grey_size"] == 0  # without the grey layer
