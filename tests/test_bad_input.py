"""Each is refused before work starts, in one sentence with the value and the remedy."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, Network, NetworkConfig, ResCNetClassifier, train
from rescnet.network.inputs import InputWarning

GOOD = np.random.default_rng(0).integers(0, 256, (20, 3, 12, 12)).astype(np.uint8)
LABELS = np.arange(20) % 4
SMALL = {"filters": 4, "layers": 2, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1)}


def broken(value):
    images = GOOD.astype(np.float32)
    images[3, 0, 1, 1] = value
    return images


CASES = {
    "no images": (GOOD[:0], LABELS[:0], {}, r"images are empty, of shape \(0, 3, 12, 12\): give at least one"),
    "no channels": (GOOD[:, :0], LABELS, {}, r"images are empty"),
    "labels too short": (GOOD, LABELS[:-1], {}, r"labels have shape \(19,\) for 20 images: give one label an image"),
    "labels two-dimensional": (GOOD, LABELS[:, None], {}, r"labels have shape \(20, 1\)"),
    "one class": (GOOD, LABELS * 0, {}, r"labels hold one class only \(0\): a classifier needs at least two"),
    "negative label": (GOOD, LABELS - 1, {}, r"labels run from -1 to 2: number the classes from 0"),
    "fractional labels": (GOOD, LABELS + 0.5, {}, "labels are not whole numbers"),
    "text labels": (GOOD, LABELS.astype(str), {}, r"labels are of type <U\d+: give whole or floating numbers"),
    "NaN": (broken(np.nan), LABELS, {}, "images hold NaN or infinite pixels, in 1 of 20: remove or repair"),
    "infinity": (broken(np.inf), LABELS, {}, "images hold NaN or infinite pixels, in 1 of 20"),
    "huge": (GOOD * 1e30, LABELS, {}, r"pixels as large as 2\.55e\+32, too large to square: scale them"),
    "infinite label": (GOOD, np.where(LABELS == 3, np.inf, LABELS), {}, "labels are not whole numbers"),
    "label far off": (GOOD, LABELS * 10**9, {}, r"labels go up to 3000000000 for 20 images: number the classes from 0"),
    "flat": (GOOD.reshape(20, -1), LABELS, {}, r"images have shape \(20, 432\): give \(n, channels, height, width\)"),
    "channels last": (
        GOOD.transpose(0, 2, 3, 1),
        LABELS,
        {},
        r"images have shape \(20, 12, 12, 3\), with channels last: give \(n, channels, .* as by np.transpose",
    ),
    "no channel axis": (GOOD[:, 0], LABELS, {}, r"images have shape \(20, 12, 12\): give .* one channel for grey"),
    "text": (GOOD.astype(str), LABELS, {}, r"images are of type <U\d+"),
    "objects": (GOOD.astype(object), LABELS, {}, r"images are of type object"),
    "complex": (GOOD.astype(complex), LABELS, {}, r"images are of type complex128"),
    "smaller than the filter": (GOOD, LABELS, {"filter_size": 13}, r"filters of 13×13 do not fit images of 12×12"),
    "smaller than the first filter": (GOOD, LABELS, {"first_filter_size": 15}, r"choose first_filter_size at most 12"),
    "smaller than the block": (GOOD, LABELS, {"block_sizes": [16]}, r"block of 16×16 does not fit images of 12×12"),
    "pyramid too fine": (GOOD, LABELS, {"pyramid": (5, 1)}, r"pyramid of 5×5 cells is finer than the 4×4 grid"),
    "one filter": (GOOD, LABELS, {"filters": 1}, r"one filter has no pair to correlate"),
    "too many PCA filters": (GOOD[:, :1], LABELS, {"bank": "pca", "filters": 10}, r"10 PCA filters were asked of"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_training_input(name):
    images, labels, options, message = CASES[name]
    with pytest.raises(ValueError, match=message) as error:
        train(images, labels, NetworkConfig(**(SMALL | options)))
    assert "\n" not in str(error.value)
    assert str(error.value).rstrip(".").count(". ") == 0


@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_splits_must_match_the_training_images(split):
    config = NetworkConfig(**SMALL)
    with pytest.raises(
        ValueError, match=rf"{split} images are of shape \(1, 12, 12\) but the network takes \(3, 12, 12\)"
    ):
        train(GOOD, LABELS, config, **{split: (GOOD[:, :1], LABELS)})
    with pytest.raises(ValueError, match=rf"{split} labels run from 0 to 9: number the classes from 0 to 3"):
        train(GOOD, LABELS, config, **{split: (GOOD, np.arange(20) % 10)})
    with pytest.raises(ValueError, match=rf"{split} labels have shape \(3,\) for 20 images"):
        train(GOOD, LABELS, config, **{split: (GOOD, LABELS[:3])})


def test_a_network_refuses_images_of_another_shape():
    network, _ = train(GOOD, LABELS, NetworkConfig(**SMALL))
    with pytest.raises(ValueError, match=r"images are of shape \(1, 12, 12\) but the network takes \(3, 12, 12\)"):
        network.predict(GOOD[:, :1])
    with pytest.raises(ValueError, match=r"\(1, 12, 12\) but .*: convert them to as many channels\.$"):
        network.predict(GOOD[:, :1])
    with pytest.raises(ValueError, match=r"images are a single one, of shape \(3, 12, 12\): give a batch of one"):
        network.predict(GOOD[0])
    with pytest.raises(
        ValueError, match=r"\(12, 12, 3\) but .* in.* order, as by np.transpose\(images, \(0, 3, 1, 2\)\)"
    ):
        network.predict(GOOD.transpose(0, 2, 3, 1))
    with pytest.raises(ValueError, match=r"\(3, 11, 12\) but .*: resize them\.$"):
        network.predict(GOOD[:, :, 1:])
    with pytest.raises(ValueError, match="NaN or infinite"):
        network.predict(broken(np.nan))
    with pytest.raises(ValueError, match="9 layers were asked of a network of"):
        network.predict(GOOD, layers=9)


def test_machines_are_checked():
    with pytest.raises(ValueError, match="device is 'gpuu'"):
        train(GOOD, LABELS, NetworkConfig(**SMALL), compute=ComputeOptions(device="gpuu"))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device 'cuda' is not to be had on this machine: choose cpu"):
            train(GOOD, LABELS, NetworkConfig(**SMALL), compute=ComputeOptions(device="cuda"))
    with pytest.raises(ValueError, match="memory must be a number with a unit"):
        train(GOOD, LABELS, NetworkConfig(**SMALL), compute=ComputeOptions(memory="lots"))
    with pytest.raises(ValueError, match="dtype is 'float16'"):
        ComputeOptions(dtype="float16")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int64", "float16", "float32", "float64", ">f4", "bool"])
def test_any_number_type_is_taken(dtype):
    images = (GOOD > 127) if dtype == "bool" else GOOD.astype(dtype)
    network, _ = train(images, LABELS.astype(np.int32), NetworkConfig(**SMALL))
    assert network.predict(images).shape == (20,)


def test_read_only_arrays_are_taken_and_left_alone():
    images = GOOD.copy()
    images.setflags(write=False)
    train(images, LABELS, NetworkConfig(**SMALL))
    assert np.array_equal(images, GOOD)


def test_a_network_without_layers_says_so():
    network = Network(NetworkConfig(**SMALL), (3, 12, 12), 4)
    with pytest.raises(ValueError, match="has no layers yet: train it first"):
        network.predict(GOOD)
    assert repr(network) == "Network(0 layers of 4 pca + stacked-lda filters, images 12×12×3, 4 classes)"


@pytest.mark.parametrize("factor", [1e-42, 1e-30, 1e10])
def test_pixels_of_any_moderate_size_train(factor):
    network, _ = train(GOOD * factor, LABELS, NetworkConfig(**SMALL))
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
    wanted = r"of unequal shape, number 4 is .*1, 9, 8.* and number 0 is .*1, 8, 8.*: bring all to one size"
    for refuse in (
        lambda: train(images, labels, NetworkConfig(block_sizes=(4,), pyramid=(1,))),
        lambda: ResCNetClassifier().fit(images, labels),
    ):
        with pytest.raises(ValueError, match=wanted):
            refuse()


def test_labels_with_gaps_are_doubted_and_trained_with():
    said = (
        r"labels go up to 6 but leave out 3 of these classes \(1, 3, 5\), .*: number the classes from 0, without gaps"
    )
    with pytest.warns(InputWarning, match=said):
        network, _ = train(GOOD, 2 * LABELS, NetworkConfig(**SMALL))
    assert network.classes == 7
    assert ResCNetClassifier(n_layers=1, n_filters=4).fit(GOOD, 2 * LABELS).classes_.tolist() == [0, 2, 4, 6]


UNITS = {
    "divided by 255": (255, GOOD / 255, "images reach 1 and those .* trained on 255: .* not divided by 255"),
    "times 255": (1, GOOD, "images reach 255 and those the network was trained on 1: give them in the same units"),
    "floats times 255": (1, GOOD * 1.0, "images reach 255"),
    "floats": (255, GOOD * 1.0, None),
    "dark": (255, GOOD / 20, "images reach 12.8 and those the network was trained on 255"),
    "a few dark ones": (255, GOOD[:10] / 20, None),
    "a bright one": (1, np.concatenate([GOOD / 255, GOOD[:1] * 1.0]), None),
    "black": (255, GOOD * 0.0, None),
    "bytes, all dark": (255, GOOD // 255, None),
    "a few floats, nearly black": (255, GOOD[:10] // 255 * 1.0, None),
    "half as bright again": (1, GOOD / 170, None),
}


@pytest.mark.parametrize("name", UNITS)
def test_images_in_other_units_are_doubted(name):
    high, images, said = UNITS[name]
    learnt = GOOD if high == 255 else GOOD / 255
    network, _ = train(learnt, LABELS, NetworkConfig(**SMALL))
    classifier = ResCNetClassifier(n_layers=1, n_filters=4).fit(learnt, LABELS)
    for predict in (network.predict, classifier.predict, lambda images: list(classifier.staged_predict(images))):
        with pytest.warns(InputWarning, match=said) if said else nullcontext():
            predict(images)


def test_few_wide_channels_are_not_taken_for_channels_last():
    images = np.random.default_rng(0).integers(0, 256, (20, 5, 9, 3)).astype(np.uint8)
    assert train(images, LABELS, NetworkConfig(**SMALL | {"block_sizes": [3], "pyramid": (1,)}))[0].image_shape == (
        5,
        9,
        3,
    )
