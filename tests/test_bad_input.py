"""Bad input is an error before work starts, in one or two sentences with the rule and the value."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, Config, Network, NetworkConfig, ResCNetClassifier, train
from rescnet.base.errors import NumericalError
from rescnet.network.inputs import InputWarning
from rescnet.network.stack import LayerStack
from rescnet.training.run import TrainingRun

GOOD = np.random.default_rng(0).integers(0, 256, (20, 3, 12, 12)).astype(np.uint8)
LABELS = np.arange(20) % 4
SMALL = {"filters": 4, "layers": 2, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1)}


def broken(value):
    images = GOOD.astype(np.float32)
    images[3, 0, 1, 1] = value
    return images


CASES = {
    "no images": (r"images must not be empty, got shape \(0, 3, 12, 12\)", {"images": GOOD[:0], "labels": LABELS[:0]}),
    "no channels": (r"images must not be empty", {"images": GOOD[:, :0]}),
    "labels too short": (r"labels must have shape \(20,\), one per image, got \(19,\)", {"labels": LABELS[:-1]}),
    "labels two-dimensional": (
        r"labels must have shape \(20,\), one per image, got \(20, 1\)",
        {"labels": LABELS[:, None]},
    ),
    "one class": ("labels must have at least two classes, got only 0", {"labels": LABELS * 0}),
    "fractional labels": ("labels must be whole numbers", {"labels": LABELS + 0.5}),
    "NaN": ("images must have finite pixels, got NaN or infinity in 1 of 20 images", {"images": broken(np.nan)}),
    "infinity": ("images must have finite pixels, got NaN or infinity in 1 of 20 images", {"images": broken(np.inf)}),
    "huge": (r"images must have pixels up to 1e\+15, got 2\.55e\+32\. Scale them", {"images": GOOD * 1e30}),
    "infinite label": ("labels must be whole numbers", {"labels": np.where(LABELS == 3, np.inf, LABELS)}),
    "flat": (
        r"images must have shape \(n, channels, height, width\), got \(20, 432\)",
        {"images": GOOD.reshape(20, -1)},
    ),
    "channels last": (
        r"images must have channels first, .* got \(20, 12, 12, 3\)\. Use np.transpose",
        {"images": GOOD.transpose(0, 2, 3, 1)},
    ),
    "no channel axis": (
        r"images must have shape .* got \(20, 12, 12\)\. Grey images have one channel",
        {"images": GOOD[:, 0]},
    ),
    "text": (r"images must be whole or floating numbers, got type <U\d+", {"images": GOOD.astype(str)}),
    "masked": (r"images must have no masked values, got \d+\. Fill them", {"images": np.ma.masked_less(GOOD, 2)}),
    "masked labels": ("labels must have no masked values, got 5", {"labels": np.ma.masked_equal(LABELS, 2)}),
    "objects": ("images must be whole or floating numbers, got type object", {"images": GOOD.astype(object)}),
    "complex": ("images must be whole or floating numbers, got type complex128", {"images": GOOD.astype(complex)}),
    "smaller than the filter": ("filter_size must be at most 12 on images of 12×12, got 13", {"filter_size": 13}),
    "smaller than the first filter": (
        "first_filter_size must be at most 12 on images of 12×12, got 15",
        {"first_filter_size": 15},
    ),
    "smaller than the block": ("block_sizes must be at most 12 on images of 12×12, got 16", {"block_sizes": [16]}),
    "pyramid too fine": ("pyramid must be at most 4 on a grid of 4×4 blocks, got 5", {"pyramid": (5, 1)}),
    "one filter": (r"one filter has no pair to correlate", {"filters": 1}),
    "too many PCA filters": (
        "filters must be at most 9 PCA filters for patches of 9 numbers, got 10",
        {"images": GOOD[:, :1], "bank": "pca", "filters": 10},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_training_input(name):
    message, bad = CASES[name]
    given = SMALL | {"images": GOOD, "labels": LABELS} | bad
    with pytest.raises(ValueError, match=message) as error:
        train(given.pop("images"), given.pop("labels"), NetworkConfig(**given))
    assert "\n" not in str(error.value)
    sentence = str(error.value).replace("e.g. ", "")
    assert sentence.endswith(".") and sentence.count(". ") <= 1  # a remedy may follow


@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_splits_must_match_the_training_images(split):
    config = NetworkConfig(**SMALL)
    with pytest.raises(ValueError, match=rf"{split} images must have shape \(3, 12, 12\) .*, got \(1, 12, 12\)"):
        train(GOOD, LABELS, config, **{split: (GOOD[:, :1], LABELS)})
    with pytest.raises(ValueError, match=rf"{split} labels must be among the training labels, got 4\."):
        train(GOOD, LABELS, config, **{split: (GOOD, np.arange(20) % 10)})
    with pytest.raises(ValueError, match=rf"{split} labels must have shape \(20,\), one per image, got \(3,\)"):
        train(GOOD, LABELS, config, **{split: (GOOD, LABELS[:3])})


def test_a_network_refuses_images_of_another_shape():
    network, _ = train_network(GOOD, LABELS, NetworkConfig(**SMALL))
    wanted = r"images must have shape \(3, 12, 12\) \(channels, height, width\), got"
    with pytest.raises(ValueError, match=wanted + r" \(1, 12, 12\)\. Convert grey to colour or back\.$"):
        network.predict_indices(GOOD[:, :1])
    with pytest.raises(ValueError, match=r"images must be a batch, got a single image of shape \(3, 12, 12\)"):
        network.predict_indices(GOOD[0])
    with pytest.raises(ValueError, match=wanted + r" \(12, 12, 3\)\. Use np.transpose\(images, \(0, 3, 1, 2\)\)\.$"):
        network.predict_indices(GOOD.transpose(0, 2, 3, 1))
    with pytest.raises(ValueError, match=wanted + r" \(3, 11, 12\)\. Resize them\.$"):
        network.predict_indices(GOOD[:, :, 1:])
    with pytest.raises(ValueError, match="NaN or infinity"):
        network.predict_indices(broken(np.nan))
    with pytest.raises(ValueError, match=r"layers must be between 1 and \d, got 9"):
        network.predict_indices(GOOD, layers=9)


def test_machines_are_checked():
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:0, got 'gpuu'"):
        train(GOOD, LABELS, NetworkConfig(**SMALL), compute=ComputeOptions(device="gpuu"))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"device must be available, got 'cuda'\. Use 'cpu'"):
            train(GOOD, LABELS, NetworkConfig(**SMALL), compute=ComputeOptions(device="cuda"))
    with pytest.raises(ValueError, match="dtype must be one of float32, float64, got 'float16'"):
        ComputeOptions(dtype="float16")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int64", "float16", "float32", "float64", ">f4", "bool"])
def test_any_number_type_is_taken(dtype):
    images = (GOOD > 127) if dtype == "bool" else GOOD.astype(dtype)
    network, _ = train_network(images, LABELS.astype(np.int32), NetworkConfig(**SMALL))
    assert network.predict_indices(images).shape == (20,)


def test_read_only_arrays_are_taken_and_left_alone():
    images = GOOD.copy()
    images.setflags(write=False)
    train(images, LABELS, NetworkConfig(**SMALL))
    assert np.array_equal(images, GOOD)


def test_a_network_without_layers_says_so():
    network = Network(LayerStack(NetworkConfig(**SMALL), (3, 12, 12), 4))
    with pytest.raises(ValueError, match=r"network must have layers\. Train it first"):
        network.predict_indices(GOOD)
    assert repr(network) == "Network(0 layers of 4 pca + stacked-lda filters, images 12×12×3, 4 classes)"


@pytest.mark.parametrize("factor", [1e-42, 1e-30, 1e10])
def test_pixels_of_any_moderate_size_train(factor):
    network, _ = train_network(GOOD * factor, LABELS, NetworkConfig(**SMALL))
    assert bool(network.outputs(GOOD * factor).isfinite().all())


@pytest.mark.parametrize("kind", [list, tuple, "tensors", "object"])
def test_images_of_unequal_shape_are_refused_and_the_first_odd_one_named(kind):
    images = [np.zeros((1, 8, 8), np.float32) for _ in range(6)]
    images[4] = np.zeros((1, 9, 8), np.float32)
    if kind == "tensors":
        images = [torch.from_numpy(image) for image in images]
    elif kind == "object":
        images = np.array([*images, None], dtype=object)[:-1]
    else:
        images = kind(images)
    labels = [0, 1, 0, 1, 0, 1]
    wanted = r"must be of equal shape, got .*1, 8, 8.* for number 0 and .*1, 9, 8.* for number 4"
    for refuse in (
        lambda: train(images, labels, NetworkConfig(block_sizes=(4,), pyramid=(1,))),
        lambda: ResCNetClassifier().fit(images, labels),
    ):
        with pytest.raises(ValueError, match=wanted):
            refuse()


def test_labels_of_any_type_and_number_are_answers():
    for names in (2 * LABELS, LABELS - 1, LABELS * 10**9, LABELS.astype(str)):
        model = train(GOOD, names, NetworkConfig(**SMALL))
        assert np.array_equal(model.labels, np.unique(names)) and model.predict(GOOD[:3]).dtype == model.labels.dtype
    with pytest.warns(InputWarning, match=r"labels should be numbered without gaps, got no image of 3 of 7 classes"):
        TrainingRun(GOOD, 2 * LABELS, NetworkConfig(**SMALL))


UNITS = {
    "divided by 255": (255, GOOD / 255, r"units of the training images, up to 255, got 1\. Do not scale them to 1"),
    "times 255": (1, GOOD, "images should be in the units of the training images, up to 1, got 255"),
    "floats times 255": (1, GOOD * 1.0, "up to 1, got 255"),
    "floats": (255, GOOD * 1.0, None),
    "dark": (255, GOOD / 20, r"up to 255, got 12\.8\.$"),
    "three dark ones": (255, GOOD[:3] / 20, None),
    "one divided twice": (1, GOOD[:1] / 255**2, r"up to 1, got 0\.00392\.$"),
    "a bright one": (1, np.concatenate([GOOD / 255, GOOD[:1] * 1.0]), None),
    "black": (255, GOOD * 0.0, None),
    "bytes, all dark": (255, GOOD // 255, None),
    "one of zeros and ones": (255, GOOD[:1] // 255 * 1.0, r"up to 255, got 1\.$"),
    "one nearly black": (255, GOOD[:1] // 128 * 3.0, None),
    "half as bright again": (1, GOOD / 170, None),
}


@cache
def trained_up_to(high):
    learned = GOOD if high == 255 else GOOD / 255
    network, _ = train_network(learned, LABELS, NetworkConfig(**SMALL))
    return network, ResCNetClassifier(n_layers=1, config=Config(filters=4)).fit(learned, LABELS)


@pytest.mark.parametrize("name", UNITS)
def test_images_in_other_units_are_doubted(name):
    high, images, said = UNITS[name]
    network, classifier = trained_up_to(high)
    for predict in (
        network.predict_indices,
        classifier.predict,
        lambda images: list(classifier.staged_predict(images)),
    ):
        with pytest.warns(InputWarning, match=said) if said else nullcontext():
            predict(images)


def test_few_wide_channels_are_not_taken_for_channels_last():
    images = np.random.default_rng(0).integers(0, 256, (20, 5, 9, 3)).astype(np.uint8)
    assert train_network(images, LABELS, NetworkConfig(**SMALL | {"block_sizes": [3], "pyramid": (1,)}))[
        0
    ].image_shape == (
        5,
        9,
        3,
    )


def test_masked_arrays_are_refused_by_the_estimator():
    masked = np.ma.masked_less(GOOD, 2)
    classifier = ResCNetClassifier(n_layers=1, config=Config(filters=4))
    for images, labels in ((masked, LABELS), (list(masked), LABELS), (GOOD, np.ma.masked_equal(LABELS, 2))):
        with pytest.raises(ValueError, match=r"^[Xy] must have no masked values, got \d+\. Fill them"):
            classifier.fit(images, labels)
    classifier.fit(np.ma.masked_less(GOOD, 0), LABELS)  # a mask that hides nothing
    with pytest.raises(ValueError, match="X must have no masked values"):
        classifier.predict(masked)


def test_a_tensor_with_a_gradient_is_detached():
    images, labels = torch.from_numpy(GOOD).float().requires_grad_(), torch.from_numpy(LABELS)
    config = NetworkConfig(**SMALL)
    network, _ = train_network(images, labels, config)
    wanted = train_network(GOOD.astype(np.float32), LABELS, config)[0].outputs(GOOD)
    assert torch.equal(network.outputs(images), wanted)
    assert torch.equal(network.outputs(list(images)), wanted)
    classifier = ResCNetClassifier(n_layers=1, config=Config(filters=4), random_state=0).fit(images, labels)
    np.testing.assert_array_equal(classifier.predict(images), classifier.predict(GOOD.astype(np.float32)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 1e300) for name in ("learning_rate", "rate_floor", "ridge", "sigmoid_scale", "softmax_scale")),
        *((name, 10**400) for name in ("layers", "filters", "filter_size", "block_stride", "copies")),
        ("pyramid", (1000,)),
        ("pyramid", (1,) * 1000),
        ("block_sizes", (10**400,)),
    ],
)
def test_absurd_options_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be (between|at most) ") as error:
        NetworkConfig(**{name: value})
    assert len(str(error.value)) < 120


def test_outputs_that_are_not_finite_are_an_error():
    network, _ = train_network(GOOD, LABELS, NetworkConfig(**SMALL))
    with torch.inference_mode():
        network.layers[0].head.bias.fill_(float("nan"))
    with pytest.raises(NumericalError, match="outputs must be finite, got NaN or infinity"):
        network.outputs(GOOD)


def test_units_are_doubted_once_per_call():
    """Images stream in small chunks, whose largest pixels differ; one warning is enough."""
    _, classifier = trained_up_to(255)
    images = np.concatenate([GOOD * share for share in np.linspace(0.001, 0.003, 200)])
    with pytest.warns(InputWarning) as said:
        classifier.predict(images)
    assert len(images) > classifier.model_.network.stack.chunk and len(said) == 1
