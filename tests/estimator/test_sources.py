"""Torch data sets, data loaders and image files as input of the estimators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from rescnet import ResCNetClassifier
from rescnet.family import FamilyClassifier

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"preset": "paper", "n_layers": 1, "n_filters": 4, "bank": "pca", "random_state": 0}
NAMES = np.array(["ant", "bee", "cat", "dog"])


class Pictures(Dataset):
    """Pillow images with names of classes, as torchvision's ImageFolder has them."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):  # does not raise IndexError: an iteration would not end
        return Image.fromarray(self.images[index % len(self)]), str(NAMES[self.labels[index % len(self)]])


class Stream(IterableDataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __iter__(self):
        return iter(zip(self.images, self.labels, strict=True))


@pytest.fixture(scope="module")
def images(digits):
    (images, labels), (test, truth) = digits
    return ((15 * images).astype(np.uint8), labels), ((15 * test).astype(np.uint8), truth)


@pytest.fixture(scope="module")
def fitted(images):
    return ResCNetClassifier(**SMALL).fit(*images[0])


def as_tensors(images, labels):
    return TensorDataset(torch.as_tensor(images)[:, None], torch.as_tensor(labels))


@pytest.mark.parametrize(
    "source",
    [
        as_tensors,
        lambda *pair: DataLoader(as_tensors(*pair), batch_size=7),
        lambda *pair: DataLoader(as_tensors(*pair), batch_size=None),
        lambda *pair: Stream(torch.as_tensor(pair[0]), pair[1].tolist()),
    ],
    ids=["data set", "loader", "loader without batches", "stream"],
)
def test_torch_data_equals_arrays(source, images, fitted):
    train, test = images
    classifier = ResCNetClassifier(**SMALL).fit(source(*train))
    np.testing.assert_array_equal(classifier.decision_function(source(*test)), fitted.decision_function(test[0]))
    assert classifier.score(source(*test)) == fitted.score(*test)


def test_pictures_with_names_and_images_without_labels(images, fitted):
    train, (test, truth) = images
    classifier = ResCNetClassifier(**SMALL).fit(Pictures(*train))
    np.testing.assert_array_equal(classifier.predict(Pictures(test, truth)), NAMES[fitted.predict(test)])
    loader = DataLoader(Pictures(test, truth), batch_size=5, collate_fn=lambda items: tuple(zip(*items, strict=True)))
    assert classifier.score(loader) == fitted.score(test, truth)
    unlabelled = TensorDataset(torch.as_tensor(test))
    np.testing.assert_array_equal(fitted.predict(unlabelled), fitted.predict(test))
    np.testing.assert_array_equal(fitted.predict(DataLoader(unlabelled, batch_size=9)), fitted.predict(test))


def test_a_loader_that_shuffles(images, fitted):
    test = images[1]
    loader = DataLoader(TensorDataset(*map(torch.as_tensor, test)), batch_size=7, shuffle=True)
    assert fitted.score(loader) == fitted.score(*test)  # labels come with the images
    shuffled = r"X must be a DataLoader in fixed order here, got one that shuffles\. Use shuffle=False\.$"
    with pytest.raises(ValueError, match=shuffled):
        fitted.predict(loader)
    with pytest.raises(ValueError, match=shuffled):
        ResCNetClassifier(**SMALL).fit(loader, sample_weight=np.ones(len(test[0])))


def test_bad_torch_data(images, fitted):
    (train, labels), _ = images
    cases = [
        (as_tensors(train, labels), labels, "y must be None, since the TensorDataset holds the labels"),
        (TensorDataset(torch.as_tensor(train)), None, r"X must yield \(image, label\), got a TensorDataset of images"),
        (Stream([], []), None, "X must hold images, got an empty Stream"),
        (Stream([train[0], train[1][1:]], [0, 1]), None, r"X must be of equal shape, got \(8, 8\) for number 0 and"),
    ]
    for X, y, message in cases:
        with pytest.raises(ValueError, match=message):
            ResCNetClassifier(**SMALL).fit(X, y)


@pytest.fixture
def files(images, tmp_path):
    """The first ten test images as files: five of the training size, five enlarged."""
    paths = [tmp_path / f"{number}.png" for number in range(10)]
    for number, path in enumerate(paths):
        image = Image.fromarray(images[1][0][number])
        (image if number < 5 else image.resize((32, 32), Image.Resampling.NEAREST)).save(path)
    return paths


def test_image_files(files, images, fitted):
    test = images[1][0]
    for paths in (files, list(map(str, files)), np.array(list(map(str, files))), pd.Series(list(map(str, files)))):
        outputs = fitted.decision_function(paths)
        np.testing.assert_array_equal(outputs[:5], fitted.decision_function(test[:5]))
        assert fitted.predict_proba(paths).shape == outputs.shape == (10, 4)
    np.testing.assert_array_equal(fitted.transform(files)[:5], fitted.transform(test[:5]))
    assert 0 <= fitted.score(files, images[1][1][:10]) <= 1


def test_files_are_fitted_to_channels_units_and_family(files, images):
    (train, labels), (test, _) = images
    colour = train[..., None].repeat(3, 3)
    for X, seen in (
        (colour, test[:5, ..., None].repeat(3, 3)),
        (colour.transpose(0, 3, 1, 2), test[:5, None].repeat(3, 1)),
        ((train / 255).astype(np.float32), (test[:5] / 255).astype(np.float32)),
    ):
        classifier = ResCNetClassifier(**SMALL).fit(X, labels)
        np.testing.assert_allclose(
            classifier.decision_function(files[:5]), classifier.decision_function(seen), atol=1e-7
        )
    member = FamilyClassifier("pcanet", options={"filters": (4, 4)}, random_state=0).fit(train[:60], labels[:60])
    np.testing.assert_array_equal(member.predict(files[:5]), member.predict(test[:5]))


def test_bad_files(files, images, fitted, tmp_path):
    text = tmp_path / "notes.png"
    text.write_text("no image")
    two = ResCNetClassifier(**SMALL, channels="first").fit(images[0][0][:, None].repeat(2, 1), images[0][1])
    cases = [
        (fitted, files[0], r"X must be a list of file paths, got a single one, .*0\.png'\. Use \[path\]\."),
        (fitted, [*files, tmp_path / "none.png"], r"X must hold paths of image files, got .*none\.png', which is none"),
        (fitted, [*files, 3], r"X must hold paths of image files, got '3', which is none"),
        (fitted, [text], r"notes\.png must be an image .*, got another format"),
        (two, files, "X must be arrays for a network of 2 channels: files have 1 or 3"),
    ]
    for classifier, X, message in cases:
        with pytest.raises(ValueError, match=message):
            classifier.predict(X)
    with pytest.raises(ValueError, match="X must be images in fit, got file paths"):
        ResCNetClassifier(**SMALL).fit([str(Path(file)) for file in files], np.arange(10) % 2)
