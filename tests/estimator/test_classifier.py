"""The estimator against scikit-learn's own checks, and its parameters and methods."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from estimator.small import classifier_with
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import rescnet
from rescnet import Config, NetworkConfig, ResCNetClassifier
from rescnet.config.option import options_of
from rescnet.data.splits import stratified_split
from rescnet.estimator.configuration import PARAMETERS
from rescnet.network.history import StopReason
from rescnet.network.inputs import InputWarning
from rescnet.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"preset": "paper", "n_layers": 3, "filters": 8, "random_state": 0, "stop_at_zero_error": False}


def small(**parameters):
    return classifier_with(**(SMALL | parameters))


@pytest.fixture(scope="module")
def fitted(digits):
    return small().fit(*digits[0])


# Draws of stacked-LDA filters follow the order of the images, which the first check shuffles. The second one expects
# weights of 10,000,000 to 1 to outvote two columns: 8 drawn filters pass, 20 find what separates single rows.
NOT_OF_DRAWS = ("check_sample_weight_equivalence_on_dense_data", "check_class_weight_classifiers")


# Small networks, because the checks train a hundred times.
@pytest.mark.slow
@parametrize_with_checks(
    [ResCNetClassifier(n_layers=1, config=Config(filters=4))],
    expected_failed_checks=lambda _: {NOT_OF_DRAWS[0]: "filters are drawn"},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("check", NOT_OF_DRAWS)
def test_checks_of_weights_without_draws(check):
    getattr(estimator_checks, check)("ResCNetClassifier", classifier_with("paper", n_layers=2, bank="dct"))


def test_many_classes_get_settings_for_many():
    images = np.random.default_rng(0).random((48, 16, 16))
    for classes, head, posterior in ((10, "lda", "sigmoid"), (12, "multiclass-lda", "normalised-sigmoid")):
        config = small(n_layers=1).fit(images, np.arange(48) % classes).model_.network.config
        assert (config.head, config.posterior) == (head, posterior)


@pytest.mark.slow
def test_every_layout_of_the_same_images_gives_the_same_network(blobs):
    images, labels = blobs[0][:120], blobs[1][:120]  # (n, 3, 12, 12)
    last = images.transpose(0, 2, 3, 1)
    cases = [
        (images, {}),
        (last, {}),
        (images, {"channels": "first"}),
        (last, {"channels": "last"}),
        (images.reshape(120, -1), {"image_shape": (3, 12, 12)}),
        (last.reshape(120, -1), {"image_shape": [12, 12, 3]}),
        (np.asfortranarray(last), {}),
        (torch.as_tensor(images), {}),
        (last.tolist(), {}),
    ]
    outputs = []
    for X, parameters in cases:
        classifier = small(n_layers=1, **parameters).fit(X, labels)
        assert classifier.model_.network.image_shape == (3, 12, 12)
        assert classifier.n_features_in_ == 432
        outputs.append(classifier.decision_function(X))
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], atol=1e-9)


def test_fitted_on_images_it_takes_rows_and_back(digits, fitted):
    _, (images, _) = digits
    rows = images.reshape(len(images), -1)
    np.testing.assert_array_equal(fitted.predict(rows), fitted.predict(images))
    from_rows = small().fit(digits[0][0].reshape(240, -1), digits[0][1])
    np.testing.assert_array_equal(from_rows.predict(images), fitted.predict(images))


def test_two_channels_need_a_rule(digits):
    (images, labels), _ = digits
    two = np.stack([images, images.transpose(0, 2, 1)], 1)  # (n, 2, 8, 8)
    with pytest.raises(ValueError, match=r"channels must be 'first' or 'last' for images of shape \(2, 8, 8\)"):
        small().fit(two, labels)
    assert small(n_layers=1, channels="first").fit(two, labels).model_.network.image_shape == (2, 8, 8)


def test_ambiguous_channels_are_last(digits):
    images = np.random.default_rng(0).random((20, 3, 9, 4))
    assert small(n_layers=1).fit(images, np.arange(20) % 2).model_.network.image_shape == (
        4,
        9,
        9,
    )  # 3 rows three times over
    assert small(n_layers=1, channels="first").fit(images, np.arange(20) % 2).model_.network.image_shape == (3, 9, 8)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (np.array(["ant", "bee", "cat", "dog"]), "U"),
        (np.array(["ant", "bee", "cat", "dog"], dtype=object), "O"),
        (np.array([-7, 3, 40, 1000]), "i"),
        (np.array([0.0, 1.0, 5.0, 9.0]), "f"),
    ],
    ids=["text", "objects", "numbers", "floats"],
)
def test_labels_of_any_type(names, kind, digits, fitted):
    (images, labels), (test, _) = digits
    classifier = small(n_layers=1).fit(images, names[labels])
    np.testing.assert_array_equal(classifier.classes_, names)
    predicted = classifier.predict(test)
    assert predicted.dtype.kind == kind
    np.testing.assert_array_equal(predicted, names[next(fitted.staged_predict(test))])


@pytest.mark.parametrize("hand_over", [lambda classifier: classifier, lambda classifier: classifier.model_])
def test_a_fitted_classifier_becomes_a_model_folder(digits, fitted, tmp_path, hand_over):
    _, (test, _) = digits
    rescnet.save(hand_over(fitted), tmp_path / "model")
    model = rescnet.load(tmp_path / "model")
    assert model.class_names == tuple(map(str, fitted.classes_))
    assert model.about["preprocessing"] | {"pixels": "float64", "low": 0.0, "height": 8} == model.about["preprocessing"]
    outputs = model.network.outputs(test.reshape(-1, 1, 8, 8)).numpy()
    np.testing.assert_allclose(outputs, fitted.decision_function(test), atol=1e-5)


def test_two_classes(digits):
    (images, labels), (test, truth) = digits
    classifier = small().fit(images, labels % 2 == 1)
    decision, chances = classifier.decision_function(test), classifier.predict_proba(test)
    assert decision.shape == (len(test),)
    assert classifier.predict(test).dtype == bool
    np.testing.assert_array_equal(decision > 0, classifier.predict(test))
    odds = np.log(chances[:, 1] / chances[:, 0])
    assert np.array_equal(np.argsort(decision), np.argsort(odds))  # both rank the images alike
    assert classifier.score(test, truth % 2 == 1) > 0.9


def test_methods_agree(digits, fitted):
    _, (test, truth) = digits
    chances, outputs = fitted.predict_proba(test), fitted.decision_function(test)
    np.testing.assert_allclose(chances.sum(1), 1)
    assert chances.min() >= 0
    np.testing.assert_array_equal(fitted.classes_[chances.argmax(1)], fitted.predict(test))
    np.testing.assert_array_equal(outputs, fitted.model_.network.outputs(test[:, None]).numpy())
    assert fitted.score(test, truth) == np.mean(fitted.predict(test) == truth) > 0.9


def test_an_image_that_no_class_claims_has_probabilities_that_agree_with_its_prediction(digits):
    """With so few training images all outputs of many an image are next to zero, and one of them is the largest."""
    (images, labels), (test, truth) = digits
    classifier = ResCNetClassifier(1, config="paper", dtype="float32", random_state=0).fit(images[:60], labels[:60])
    outputs, chances = classifier.decision_function(test), classifier.predict_proba(test)
    unclaimed = outputs.max(1) < 1e-6
    assert 0.05 < unclaimed.mean() < 0.5 and outputs.max(1).min() > 0
    np.testing.assert_array_equal(classifier.classes_[chances.argmax(1)], classifier.predict(test))
    loss = log_loss(truth[unclaimed], chances[unclaimed], labels=classifier.classes_)
    assert loss < 0.9 * np.log(10)


def test_stages_end_with_the_prediction_and_follow_the_layers(digits, fitted):
    _, (test, _) = digits
    stages, chances = list(fitted.staged_predict(test)), list(fitted.staged_predict_proba(test))
    assert len(stages) == len(chances) == fitted.n_layers_ == len(fitted.model_.history) == 3
    for layer, (labels, chance) in enumerate(zip(stages, chances, strict=True), 1):
        np.testing.assert_array_equal(
            labels, fitted.classes_[fitted.model_.network.predict_indices(test[:, None], layer).numpy()]
        )
        np.testing.assert_array_equal(labels, fitted.classes_[chance.argmax(1)])
    np.testing.assert_array_equal(stages[-1], fitted.predict(test))
    np.testing.assert_array_equal(chances[-1], fitted.predict_proba(test))


def test_views_are_an_argument_of_prediction(digits, fitted):
    images = digits[1][0][:50]
    X = images.reshape(-1, 64)
    mirrored = (fitted.decision_function(images) + fitted.decision_function(images[:, :, ::-1])) / 2
    np.testing.assert_allclose(fitted.decision_function(X, views="flip"), mirrored, atol=1e-9)
    np.testing.assert_allclose(fitted.model_.outputs(images[:, None], views="flip"), mirrored, atol=1e-9)
    assert np.array_equal(fitted.predict(X, views="flip"), mirrored.argmax(1))
    assert np.array_equal(fitted.predict(X, views=""), fitted.predict(X))
    with pytest.raises(ValueError, match=r"test_views must be a list of changes, e\.g\. .*, got 'mirrored'"):
        fitted.predict(X, views="mirrored")


def test_no_setting_of_a_fitted_classifier_changes_its_answers(digits, fitted):
    X = digits[1][0][:20]
    changed = copy.deepcopy(fitted).set_params(config__test_views="flip", n_layers=1, readout="kernel", quality="fast")
    np.testing.assert_array_equal(changed.decision_function(X), fitted.decision_function(X))


@pytest.mark.slow
def test_chunks_do_not_show(digits, fitted, monkeypatch):
    _, (test, _) = digits
    whole, stages = fitted.predict_proba(test), list(fitted.staged_predict_proba(test))
    monkeypatch.setattr("rescnet.network.stack.chunk_size", lambda *_: 7)
    np.testing.assert_allclose(fitted.predict_proba(test), whole, atol=1e-12)
    np.testing.assert_allclose(list(fitted.staged_predict_proba(test)), stages, atol=1e-12)


@pytest.mark.slow
def test_warm_start_is_one_long_run(digits, fitted):
    (images, labels), (test, _) = digits
    grown = small(n_layers=1, warm_start=True, random_state=np.random.RandomState(4)).fit(images, labels)
    seed = grown.model_.network.config.seed
    first = grown.model_.network
    grown.set_params(n_layers=3).fit(images, labels)
    long = small(random_state=seed).fit(images, labels)
    assert [record.layer for record in grown.model_.history] == [1, 2, 3]
    assert grown.n_layers_ == 3
    assert len(first.layers) == 1  # the first fit's network is unchanged
    np.testing.assert_array_equal(grown.decision_function(test), long.decision_function(test))
    grown.fit(images, labels)
    np.testing.assert_array_equal(grown.decision_function(test), long.decision_function(test))


def test_warm_start_needs_the_same_images_and_options(digits):
    (images, labels), _ = digits
    grown = small(n_layers=2, warm_start=True).fit(images, labels)
    cases = [
        ({"n_layers": 1}, images, labels, "n_layers must be at least 2 with warm_start, got 1"),
        (
            {"config__block_sizes": [3]},
            images,
            labels,
            r"block_sizes must stay \(\d,\), got \(3,\)\. All layers share it",
        ),
        ({"config__filters": 9}, images, labels, "filters must stay 8, got 9"),
        ({"config__posterior": "softmax"}, images, labels, "posterior must stay 'sigmoid', got 'softmax'"),
        ({}, images[:, 1:], labels, r"X must hold images of shape \(8, 8\) with warm_start, got \(7, 8\)"),
        ({}, images, labels + 1, r"y must have the classes \[0, 1, 2, 3\] with warm_start, got \[1, 2, 3, 4\]"),
        ({"n_iter_no_change": 2}, images, labels, "patience must be 0 without validation images"),
    ]
    for parameters, X, y, message in cases:
        changed = copy.deepcopy(grown).set_params(**({"n_layers": 3} | parameters))
        before = changed.model_
        with pytest.raises(ValueError, match=message):
            changed.fit(X, y)
        assert changed.model_ is before
    assert clone(grown).set_params(n_layers=1).fit(images, labels).n_layers_ == 1


def test_options_that_a_prediction_reads_are_fixed_by_the_layers():
    """A warm start may not change them. ``test_views`` may change: all layers are trained by then."""
    config = NetworkConfig
    geometry = config.features, config.grids, config.keeps_diagonal.fget, config.pooled_maps.fget
    source = "".join(map(inspect.getsource, (rescnet.network.stack, *geometry)))
    read = {name for name in options_of(config) if re.search(rf"\b(config|self)\.{name}\b", source)}
    assert {"pooling", "head", "block_sizes", "matrix_log"} <= read
    for name in read - {"layers"}:  # LayerStack.layers
        assert options_of(config)[name].metadata["fixed_by"] == "layers", name


def test_early_stopping_predicts_with_the_best_depth(digits):
    (images, labels), (test, _) = digits
    classifier = small(n_layers=30, n_iter_no_change=2, validation_fraction=0.25).fit(images, labels)
    history = classifier.model_.history
    assert history.stopped is StopReason.PATIENCE
    assert len(classifier.model_.network.layers) == len(history) < 30
    assert classifier.n_layers_ == history.best_layer() == len(history) - 2
    np.testing.assert_array_equal(
        classifier.predict(test), classifier.model_.network.predict_indices(test[:, None], classifier.n_layers_).numpy()
    )
    assert len(list(classifier.staged_predict(test))) == classifier.n_layers_
    _, held = stratified_split(labels, 0.25, seed=0)
    first = classifier.model_.network.predict_indices(images[held][:, None], layers=1).numpy()
    assert history[0].validation_accuracy == np.mean(first == labels[held])
    assert small(n_layers=1).fit(images, labels).model_.history[0].validation_accuracy is None


def test_refit_uses_all_images_to_the_best_depth(digits):
    (images, labels), (test, _) = digits
    chosen = small(n_layers=30, n_iter_no_change=2, validation_fraction=0.25).fit(images, labels).n_layers_
    again = small(n_layers=30, n_iter_no_change=2, validation_fraction=0.25, refit=True).fit(images, labels)
    plain = small(n_layers=chosen).fit(images, labels)
    assert again.n_layers_ == len(again.model_.history) == chosen
    np.testing.assert_array_equal(again.decision_function(test), plain.decision_function(test))
    with pytest.raises(ValueError, match=r"^refit must not be used with a time_limit or with layers to start from"):
        small(refit=True, time_limit=60).fit(images, labels)
    with pytest.raises(ValueError, match="refit must be used with validation images, "):
        small(refit=True).fit(images, labels)


def test_a_warm_start_that_adds_nothing_says_why(digits):
    (images, labels), _ = digits
    stopping = {"n_iter_no_change": 1, "validation_fraction": 0.25, "warm_start": True}
    classifier = small(n_layers=30, **stopping).fit(images, labels)
    classifier.n_layers = 40
    said = r"no layer was added: .* of 40, and the validation accuracy no longer rises\. Use a greater n_iter_no_change"
    with pytest.warns(InputWarning, match=said):
        classifier.fit(images, labels)


def test_a_saved_classifier_comes_back_with_its_layout_and_labels(digits, fitted, tmp_path):
    """Ready to predict, score, be put into a pipeline, and be fitted again."""
    (images, labels), (test, truth) = digits
    names = np.array([10, 20, 30, 40])
    classifier = small(n_layers=1).fit(images, names[labels])
    rescnet.save(classifier, tmp_path / "saved")
    model = rescnet.load(tmp_path / "saved")
    again = ResCNetClassifier.from_model(model)
    rows = test.reshape(len(test), -1)
    assert model.predict(test).dtype == classifier.predict(test).dtype
    for X in (test, rows):
        np.testing.assert_array_equal(model.predict(X), classifier.predict(X))
        np.testing.assert_array_equal(again.decision_function(X), classifier.decision_function(X))
    assert make_pipeline(again).score(test, names[truth]) == model.score(test, names[truth]) > 0.7
    fitted_again = clone(again).fit(images, names[labels])
    np.testing.assert_array_equal(fitted_again.predict(test), classifier.predict(test))


def test_random_state(digits):
    (images, labels), (test, _) = digits
    images, labels = images[:80], labels[:80]

    def outputs(random_state):
        return small(n_layers=1, random_state=random_state).fit(images, labels).decision_function(test)

    np.testing.assert_array_equal(outputs(3), outputs(3))
    np.testing.assert_array_equal(outputs(np.random.RandomState(3)), outputs(np.random.RandomState(3)))
    assert not np.array_equal(outputs(3), outputs(4))
    assert not np.array_equal(outputs(None), outputs(None))
    assert small(n_layers=1, random_state=3).fit(images, labels).model_.network.config.seed == 3


def test_every_parameter_and_option_reaches_the_configuration(digits):
    given = {"n_layers": 2, "n_iter_no_change": 5, "augment": "flip", "readout": "kernel", "random_state": 11}
    assert set(given) == set(PARAMETERS.values())
    (images, labels), _ = digits
    options = Config(pooling="mean", filters=6, ridge=0.3, block_sizes=[5], test_views="flip")
    classifier = ResCNetClassifier(**given, config=options, dtype="float32").fit(images, labels)
    config = classifier.model_.network.config
    for key, name in PARAMETERS.items():
        assert getattr(config, key) == given[name], name
    assert (config.pooling, config.filters, config.ridge, config.block_sizes) == ("mean", 6, 0.3, (5,))
    assert classifier.model_.network.layers[0].weights.dtype == torch.float32
    assert classifier.decision_function(images).dtype == np.float32


def test_presets_and_sizes():
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 3
    large = small(n_layers=1).fit(rng.integers(0, 256, (24, 20, 32)).astype(np.uint8), labels)
    assert (large.model_.network.config.block_sizes, large.model_.network.config.block_stride) == ((10,), 2)
    assert large.model_.network.layers[0].weights.dtype == torch.float32
    preset = small(n_layers=1, preset="mnist", bank="pca").fit(rng.random((24, 28, 28)), labels)
    assert preset.model_.network.config.block_sizes == Config("mnist").complete().block_sizes
    tiny = small(n_layers=1).fit(rng.random((24, 5)), labels)
    assert tiny.image_shape_ == (1, 5)
    assert tiny.model_.network.image_shape == (1, 8, 10)
    # One column of zeros and ones, the same in every class: no draw separates classes, which is no error.
    small(n_layers=1).fit((np.arange(300) // 3 % 2)[:, None], np.arange(300) % 3)


BAD = {
    "no square": ({}, r"image_shape must be set for rows of 65 columns, .*image_shape=\(height", (20, 65)),
    "flat colour": ({}, r"image_shape must be set for rows of 3072 columns, .*image_shape=\(32, 32, 3\)", (20, 3072)),
    "other image_shape": (
        {"image_shape": (9, 9)},
        r"image_shape must match X of shape \(20, 64\), got \(9, 9\), 81 numbers",
        (20, 64),
    ),
    "image_shape of images": ({"image_shape": (9, 9)}, r"image_shape must match X of shape \(20, 8, 8\)"),
    "image_shape of text": (
        {"image_shape": "8x8"},
        r"image_shape must be two or three sides, e\.g\. .*, got '8x8'",
        (20, 64),
    ),
    "image_shape of one": ({"image_shape": 64}, r"image_shape must be two or three sides, e\.g\. .*, got 64", (20, 64)),
    "image_shape of halves": (
        {"image_shape": (8.5, 8)},
        r"image_shape must be two or three sides, e\.g\. .*, got \(8.5, 8\)",
        (20, 64),
    ),
    "five axes": ({}, r"X must be images .*, got shape \(20, 2, 2, 2, 2\)\. Reshape your data", (20, 2, 2, 2, 2)),
    "channels": ({"channels": "middle"}, "channels must be auto, first or last, got 'middle'"),
    "layers": ({"n_layers": 0}, "^n_layers must be between 1 and 99999, got 0"),
    "layers as text": ({"n_layers": "3"}, "^n_layers must be a number, got '3'"),
    "filters": ({"filters": 2.5}, "^filters must be a whole number, got 2.5"),
    "head": ({"head": "lad"}, "^head must be one of .*, got 'lad'. Did you mean 'lda'"),
    "block": ({"block_sizes": [9]}, "block_sizes must be at most 8 on images of 8×8, got 9"),
    "preset": ({"preset": "mnits"}, "preset must be one of .*, got 'mnits'. Did you mean 'mnist'"),
    "preset too large": ({"preset": "cifar10"}, "block_sizes must be at most 8 on images of 8×8, got 16"),
    "options": ({"poolin": "max"}, "names must be known, got 'poolin' in Config. Did you mean 'pool"),
    "layers twice": ({"config": Config(layers=3)}, "^n_layers must be given once, got 1, and 3 in config.$"),
    "config dict": ({"config": {"ridge": 1}}, "^config must be a rescnet.Config or the name of a preset, got dict.$"),
    "class weight": (
        {"class_weight": "heavy"},
        "^class_weight must be 'balanced', a dict by class, or None, got 'heavy'.$",
    ),
    "class weight of no class": ({"class_weight": {7: 2}}, "^class_weight must name classes of y, got 7.$"),
    "negative class weight": ({"class_weight": {0: -1}}, "^class_weight must be finite and at least 0, got -1.$"),
    "no class weight": ({"class_weight": {0: 0, 1: 0}}, "^class_weight must not all be zero.$"),
    "one class has no weight": ({"class_weight": {0: 0}}, "^y must have at least two classes, got one"),
    "no readout": (
        {"preset": "paper", "loo_correction": True},
        "loo_correction must be used with readout 'kernel', got readout 'heads'",
    ),
    "patience": ({"n_iter_no_change": 0}, "^n_iter_no_change must be at least 1, or None to add all layers, got 0"),
    "fraction": (
        {"n_iter_no_change": 1, "validation_fraction": 1.5},
        "validation_fraction must be between 0 and 1, got 1.5",
    ),
    "device": ({"device": "gpuu"}, "device must be auto, cpu, cuda or cuda:0, got 'gpuu'"),
    "too little memory": ({"max_memory": 1000}, "max_memory must be at least .* for this network .*, got 1 kB"),
    "precision": ({"precision": "rough"}, "precision must be one of .*, got 'rough'"),
    "random state": ({"random_state": "seven"}, "'seven' cannot be used to seed"),
}  # parameters, message, and the shape of X if it is not (20, 8, 8)


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused_in_one_sentence(name):
    parameters, message, *shape = BAD[name]
    X = np.random.default_rng(0).random(*(shape or [(20, 8, 8)]))
    with pytest.raises(ValueError, match=message) as error:
        make = ResCNetClassifier if "config" in parameters else classifier_with
        make(**({"n_layers": 1} | parameters)).fit(X, np.arange(20) % 2)
    assert "\n" not in str(error.value)


def test_grey_images_may_have_an_axis_of_channels(digits, fitted):
    test = digits[1][0]
    expected = fitted.decision_function(test)
    for axis in (1, 3):
        np.testing.assert_array_equal(fitted.decision_function(np.expand_dims(test, axis)), expected)


def test_bad_images_and_labels(digits, fitted):
    (images, labels), (test, _) = digits
    broken = test.copy()
    broken[17, 3, 3] = np.nan
    with pytest.raises(ValueError, match="X must have finite pixels, got NaN or infinity, first in image 17"):
        fitted.predict(broken)
    with pytest.raises(
        ValueError, match=r"X must hold images of shape \(8, 8\), as ResCNetClassifier was fitted on, got \(8, 7\)"
    ):
        fitted.predict(test[:, :, 1:])
    with pytest.raises(ValueError, match=r"X must be a batch, got a single image of shape \(8, 8\)\. Use X\[None\]"):
        fitted.predict(test[0])
    wide = small(n_layers=1).fit(images[:, :, :, None].repeat(3, 3), labels)
    with pytest.raises(ValueError, match=r"shape \(8, 8, 3\), .*, got \(3, 8, 8\)\. Use .*\(0, 2, 3, 1\)\)\.$"):
        wide.predict(test[:, None].repeat(3, 1))
    with pytest.raises(ValueError, match="X has 63 features, but ResCNetClassifier is expecting 64 features as input"):
        fitted.predict(test.reshape(len(test), -1)[:, 1:])
    with pytest.raises(ValueError, match="Reshape your data"):
        fitted.predict(test[0, 0])
    with pytest.raises(ValueError, match="y must have at least two classes, got one class, 'cat'"):
        small().fit(images, ["cat"] * len(images))
    with pytest.raises(ValueError, match="continuous"):
        small().fit(images, labels + 0.5 * np.arange(len(labels)))
    with pytest.raises(NotFittedError):
        next(small().staged_predict(images))


def test_pipelines_searches_and_cross_validation(digits):
    (images, labels), (test, truth) = digits
    rows = images.reshape(len(images), -1)
    pipeline = make_pipeline(MinMaxScaler(), small(n_layers=1)).fit(rows, labels)
    assert pipeline.score(test.reshape(len(test), -1), truth) > 0.85
    on_images = make_pipeline(FunctionTransformer(lambda X: X / 16), small(n_layers=1)).fit(images, labels)
    assert on_images.score(test, truth) > 0.9
    search = GridSearchCV(small(n_layers=1), {"config__filters": [2, 8]}, cv=2).fit(images, labels)
    assert search.best_estimator_.model_.network.config.filters == search.best_params_["config__filters"] == 8
    with joblib.parallel_config("threading"):
        scores = cross_val_score(small(n_layers=1), images, labels, cv=3, n_jobs=2)
    assert scores.shape == (3,)
    assert scores.min() > 0.85


def test_pickle_joblib_and_deep_copies_predict_the_same(digits, fitted, tmp_path):
    _, (test, _) = digits
    joblib.dump(fitted, tmp_path / "classifier.joblib", compress=1)
    copies = [
        pickle.loads(pickle.dumps(fitted)),
        joblib.load(tmp_path / "classifier.joblib"),
        copy.deepcopy(fitted),
    ]
    for other in copies:
        np.testing.assert_array_equal(other.predict_proba(test), fitted.predict_proba(test))
        assert other.model_.history == fitted.model_.history


def test_a_pickle_from_a_gpu_loads_without_one(digits, fitted):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    elsewhere = copy.copy(fitted).set_params(device="cuda")
    elsewhere.model_.network.stack.half = True
    loaded = pickle.loads(pickle.dumps(elsewhere))
    assert not loaded.model_.network.half
    np.testing.assert_array_equal(loaded.predict(digits[1][0]), fitted.predict(digits[1][0]))


def test_verbose_prints_a_line_per_layer(digits, capsys):
    (images, labels), _ = digits
    small(n_layers=2, verbose=1).fit(images, labels)
    printed = capsys.readouterr().out
    assert "ResCNetClassifier: 4 classes, images 8×8×1" in printed
    assert "2 layers in" in printed
    small(n_layers=1).fit(images, labels)
    assert capsys.readouterr() == ("", "")


STREAM = """
import numpy as np, torch
from rescnet import Config, ResCNetClassifier
from rescnet.network import memory as workspace
from rescnet.training.stopwatch import PeakMemory

torch.set_num_threads(1)
workspace.LARGEST_WORKSPACE["cpu"] = 2**22
rng = np.random.default_rng(0)
images = rng.integers(0, 256, (1_000, 28, 28)).astype(np.uint8)
config = Config("paper", filters=4, bank="pca", block_stride=14, pyramid=(2, 1))
classifier = ResCNetClassifier(1, readout="kernel", config=config, random_state=0).fit(images[:40], np.arange(40) % 4)
peak = PeakMemory(torch.device("cpu"))
for call in (classifier.predict, classifier.predict_proba, lambda X: list(classifier.staged_predict(X))):
    for count in (200, 1_000):
        peak.reset()
        call(images[:count])
        print(peak.bytes())
"""


@pytest.mark.slow
def test_prediction_streams():
    """Five times the images take no more memory: a process of its own, its peak is reset for each call."""
    found = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, check=True).stdout
    peaks = np.array([int(line) for line in io.StringIO(found)]).reshape(3, 2)
    # 800 images more are 2.5 MB as floats and 10 MB as maps; their outputs are 0.03 MB.
    assert (peaks[:, 1] - peaks[:, 0]).max() < 1.5e6


def test_the_package_imports_without_scikit_learn():
    code = "import sys, rescnet; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(rescnet.__all__) <= 20
    assert set(rescnet.__all__) <= set(dir(rescnet))  # what a completion offers
    assert not hasattr(rescnet, "ResCNetRegressor")


def test_bfloat16_and_reversed_tables_are_read(digits):
    images, labels = digits[0]
    fitted = ResCNetClassifier(n_layers=1, config=Config(filters=4)).fit(torch.as_tensor(images).bfloat16(), labels)
    expected = fitted.predict(images)
    assert (fitted.predict(torch.as_tensor(images).bfloat16()) == expected).all()
    table = pd.DataFrame(images.reshape(len(images), -1))
    assert (fitted.predict(table.iloc[::-1]) == expected[::-1]).all()


def test_quality_beside_a_preset_is_refused(digits):
    with pytest.raises(ValueError, match="quality must be left out with preset 'digits', which decides it, got 'best'"):
        ResCNetClassifier(config="digits", quality="best").fit(*digits[0])


def test_names_of_earlier_versions_name_the_new_way():
    for given, remedy in (
        ({"memory": "2GB"}, "Write max_memory="),
        ({"options": {"ridge": 1}}, r"Write config=rescnet\.Config\(ridge=0\.5\)"),
        ({"preset": "mnist"}, "Write config='cifar10'"),
        ({"n_filters": 3}, r"Write config=rescnet\.Config\(filters=\.\.\.\)"),
        ({"ridge": 3}, r"Write config=rescnet\.Config\(ridge=\.\.\.\)"),
        ({"qualty": "best"}, r"no parameter 'qualty'\. Did you mean 'quality'\?"),
    ):
        with pytest.raises(TypeError, match=remedy):
            ResCNetClassifier(**given)
    with pytest.raises(AttributeError, match=r"no attribute 'make_config'\. Use rescnet\.Config\."):
        rescnet.make_config  # noqa: B018


def test_ctrl_c_keeps_the_finished_layers(digits, monkeypatch):
    (images, labels), (test, truth) = digits
    add, added = Trainer.add_layer, []

    def add_two(trainer):
        if len(added) == 2:
            raise KeyboardInterrupt
        added.append(add(trainer))
        return added[-1]

    monkeypatch.setattr(Trainer, "add_layer", add_two)
    classifier = small(n_layers=5)
    with pytest.raises(rescnet.Interrupted, match="2 layers are finished") as stop:
        classifier.fit(images, labels)
    assert len(classifier.model_.history) == len(stop.value.model.network.layers) == 2
    assert classifier.score(test, truth) > 0.9
