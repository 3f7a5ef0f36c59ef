"""Explanations: everything adds up to the outputs, for all heads, readouts and views."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from digits import IMAGES, LABELS
from train_network import train_network

from rescnet import ComputeOptions, Config, Model, ResCNetClassifier, load, save
from rescnet.explain.linearisation import NEIGHBOURS, explain

pytestmark = pytest.mark.usefixtures("one_cpu")
DOUBLE = ComputeOptions(dtype="float64")
NEW = 300
ROOTS = {"head": "ridge", "pooling": "mean", "matrix_log": True, "rectifier": "both"}
NETWORKS = {
    "lda": {},
    "normalised": {"head": "multiclass-lda", "posterior": "normalised-sigmoid"},
    "softmax": {"head": "multiclass-lda", "posterior": "softmax"},
    "ridge of views": ROOTS | {"test_views": "shift 1"},
    "kernel": ROOTS | {"readout": "kernel"},
    "mirrored": {"readout": "kernel", "augment": "flip", "test_views": "shift 1", "loo_correction": True},
    "copies": {"readout": "kernel", "kernel_copies": "2 shift 1"},
}


@cache
def trained(name):
    config = Config("digits", **{"layers": 2, "filters": 4} | NETWORKS[name]).complete()
    return train_network(IMAGES[:80], LABELS[:80], config, compute=DOUBLE)


def network_of(name):
    return trained(name)[0]


@cache
def explained(name, index=NEW):
    return explain(network_of(name), IMAGES[index])


@pytest.mark.parametrize("name", NETWORKS)
def test_maps_and_intercepts_add_up_to_the_outputs(name):
    network = network_of(name)
    outputs = network.outputs(IMAGES[NEW : NEW + 1])[0].numpy()
    found = explained(name)

    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-12, atol=1e-12)
    assert found.shown == tuple(np.argsort(-outputs)) and found.label == str(outputs.argmax())
    assert found.maps.shape == (10, 8, 8)
    np.testing.assert_allclose(found.maps.sum((1, 2)) + found.intercept, outputs[list(found.shown)], atol=1e-11)
    np.testing.assert_allclose(sum(part.outputs for part in found.parts.values()), outputs, atol=1e-12)
    for part in found.parts.values():
        np.testing.assert_allclose(part.maps.sum((1, 2)) + part.intercept, part.outputs[list(found.shown)], atol=1e-11)


@pytest.mark.parametrize("name", ["lda", "ridge of views", "kernel"])
def test_outputs_per_layer_are_those_of_the_first_layers(name):
    network = network_of(name)
    found = explained(name)
    for layer, outputs in enumerate(found.layer_outputs, 1):
        expected = network.stack if layer == 2 else network.first_layers(layer).stack
        np.testing.assert_allclose(outputs, expected.outputs(network_input(NEW))[0].numpy(), atol=1e-12)
    answers = found.layer_outputs.argmax(1)
    assert found.changes[0] == (1, str(answers[0])) and len(found.changes) == 1 + int(answers[0] != answers[1])


def network_input(index):
    import torch

    return torch.from_numpy(IMAGES[index : index + 1])


def test_layers_and_readout_are_the_parts():
    both = explained("kernel")
    assert set(both.parts) == {"layers", "readout"}
    np.testing.assert_allclose(both.layers.outputs, both.layer_outputs[-1])
    assert set(explained("lda").parts) == {"layers"}


@pytest.mark.parametrize("name", ["kernel", "copies"])
@pytest.mark.parametrize("index", [3, 57])
def test_a_training_image_is_nearest_to_itself(name, index):
    found = explained(name, index)
    assert len(found.nearest) == len(found.influential) == NEIGHBOURS
    assert found.nearest[0].index == index and found.nearest[0].similarity > 0.99
    assert all(image.label == str(LABELS[image.index]) for image in (*found.nearest, *found.influential))
    assert [image.similarity for image in found.nearest] == sorted((i.similarity for i in found.nearest), reverse=True)


@pytest.mark.parametrize("name", ["kernel", "copies"])
def test_weighted_training_images_keep_their_class(name, monkeypatch, tmp_path):
    monkeypatch.setattr("rescnet.explain.linearisation.NEIGHBOURS", 80)
    config = Config("digits", **{"layers": 2, "filters": 4} | NETWORKS[name]).complete()
    weights = np.where(np.arange(80) % 3, 1, 1e-4)
    network, history = train_network(IMAGES[:80], LABELS[:80], config, weights=weights, compute=DOUBLE)
    save(Model(network, history, tuple("0123456789")), tmp_path / "model")
    for used in (network, load(tmp_path / "model").network):
        found = explain(used, IMAGES[NEW])
        assert [image.label for image in found.nearest] == [str(LABELS[image.index]) for image in found.nearest]


@pytest.mark.slow
def test_mirror_image_is_nearest_to_its_original():
    found, mirrored = (explain(network_of("mirrored"), image) for image in (IMAGES[5], IMAGES[5, :, :, ::-1].copy()))
    assert found.nearest[0].index == mirrored.nearest[0].index == 5


def test_shares_of_training_images_add_up_to_the_readout(monkeypatch):
    monkeypatch.setattr("rescnet.explain.linearisation.NEIGHBOURS", 80)
    found = explain(network_of("copies"), IMAGES[NEW])
    assert sorted(image.index for image in found.influential) == list(range(80))
    total = sum(image.share for image in found.influential)
    assert total == pytest.approx(found.readout.outputs[found.shown[0]], abs=1e-10)


def test_map_follows_the_mirrored_image():
    """A view's map is drawn on the image itself: with mirrored views both images have mirrored maps."""
    network = network_of("ridge of views").averaged_over("flip")
    found, mirrored = (explain(network, image) for image in (IMAGES[NEW], IMAGES[NEW, :, :, ::-1].copy()))
    np.testing.assert_allclose(found.maps, mirrored.maps[:, :, ::-1], atol=1e-12)
    assert np.abs(found.maps - mirrored.maps).max() > 1e-4


def test_model_names_classes_and_files():
    network, history = trained("kernel")
    files = [f"{number}.png" for number in range(80)]
    model = Model(network, history, tuple("abcdefghij"), {"training_files": files})
    found = model.explain(IMAGES[3:4])
    assert found.label == model.predict(IMAGES[3:4])[0]
    assert found.nearest[0].file == "3.png" and str(found.nearest[0]) == "3.png"
    text = repr(found)
    assert text.startswith("Explanation\n") and f"  {found.label} " in text and "3.png" in text
    assert "The readout corrects the layers' output" in text
    assert pickle.loads(pickle.dumps(found)).label == found.label


def test_estimator_explains_one_image():
    classifier = ResCNetClassifier(n_layers=1, config=Config("digits", filters=4), random_state=0)
    classifier.fit(IMAGES[:60, 0], LABELS[:60])
    found = classifier.explain(IMAGES[NEW, 0])
    assert found.label == str(classifier.predict(IMAGES[NEW : NEW + 1, 0])[0])
    np.testing.assert_array_equal(classifier.explain(IMAGES[NEW : NEW + 1, 0].reshape(1, -1)).maps, found.maps)
    with pytest.raises(ValueError, match="image must be one image, got 2"):
        classifier.explain(IMAGES[:2, 0])


def test_refuses_other_images():
    network = network_of("lda")
    with pytest.raises(ValueError, match="image must be one image, got 2"):
        explain(network, IMAGES[:2])
    with pytest.raises(ValueError, match="must have shape"):
        explain(network, np.zeros((1, 9, 9)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lda", "kernel"])
def test_plot(name):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    figure = explained(name).plot()
    _, *maps = figure.subfigs[0].axes
    assert len(maps) == 3 and len(figure.subfigs[1].axes) == (2 if name != "lda" else 1)
    np.testing.assert_array_equal(maps[0].images[1].get_array(), explained(name).maps[0])
    figure.canvas.draw()
    matplotlib.pyplot.close(figure)
