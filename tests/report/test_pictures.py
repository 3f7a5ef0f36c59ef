from __future__ import annotations

import io
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from rescnet.report.pictures import (
    NEGATIVE,
    POSITIVE,
    STRONGEST,
    ZERO,
    data_uri,
    diverging,
    draw_filters,
    input_names,
    stretched,
    thumbnail,
)


def decode(uri):
    assert uri.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(b64decode(uri.partition(",")[2]))))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (4, 3, 3), (32, 32, 3)])
def test_png(shape):
    pixels = np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(decode(data_uri(pixels)), pixels)


def test_thumbnails():
    bytes_image = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    np.testing.assert_array_equal(thumbnail(bytes_image, 0, 1), bytes_image.transpose(1, 2, 0))
    grey = thumbnail(np.array([[[-1.0, 0.0, 1.0]]]), -1, 1)
    np.testing.assert_array_equal(grey, [[0, 128, 255]])
    large = np.zeros((1, 300, 200), np.uint8)
    large[:, 150:] = 90
    small = thumbnail(large, 0, 1, max_side=128)
    assert small.shape == (100, 66) and set(np.unique(small)) == {0, 90}
    np.testing.assert_array_equal(thumbnail(np.full((1, 2, 2), 7.0), 7, 7), np.zeros((2, 2)))


def test_colours():
    coloured = diverging(np.array([[-2.0, 0.0, 2.0]]), 2.0)
    np.testing.assert_array_equal(coloured[0], [NEGATIVE, ZERO, POSITIVE])
    np.testing.assert_array_equal(stretched(np.array([[2.0, 4.0]])), [[128, 255]])


def test_first_layer_filters(model):
    drawn = draw_filters(model.network)[0]
    assert drawn["as_image"] and [group["bank"] for group in drawn["groups"]] == ["pca", "stacked-lda"]
    tiles = [tile for group in drawn["groups"] for tile in group["tiles"]]
    assert len(tiles) == 6
    for tile, weights in zip(tiles, model.network.layers[0].weights.numpy(), strict=True):
        expected = 127.5 + 127.5 * weights / abs(weights).max()
        np.testing.assert_allclose(decode(tile["picture"]), expected.transpose(1, 2, 0), atol=0.51)


def test_deeper_filters(model):
    drawn = draw_filters(model.network)[2]
    names = input_names(model.network, 3)
    assert names == ["map 1", "map 2", "map 3", "map 4", "map 5", "map 6", "red", "green", "blue"]
    tiles = [tile for group in drawn["groups"] for tile in group["tiles"]]
    weights = model.network.layers[2].weights.numpy()
    for tile, own in zip(tiles, weights, strict=True):
        norms = np.sqrt((own**2).sum((1, 2)))
        strongest = np.argsort(-norms)[:STRONGEST]
        assert f"strongest on {names[strongest[0]]} ({norms[strongest[0]]:.2f})" in tile["caption"]
        slices = decode(tile["picture"])
        assert slices.shape == (18, 4 * 18 + 3 * 3, 3)
        np.testing.assert_array_equal(slices[3, 3], diverging(own[strongest[0]], abs(own[strongest]).max())[0, 0])
    share = (weights[:, 6:] ** 2).sum() / (weights**2).sum()
    assert drawn["input_weights"]["image_share"] == pytest.approx(share)


@pytest.mark.parametrize(("layers", "drawn"), [(1, [1]), (2, [1, 2]), (5, [1, 2, 3, 5])])
def test_layers_drawn(model, layers, drawn):
    assert [layer["layer"] for layer in draw_filters(model.network.first_layers(layers))] == drawn
