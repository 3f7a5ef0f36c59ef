"""Torch data sets, data loaders and image files as input of the estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from estimator.small import classifier_with
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from train_network import train_network

from rescnet import Config, Model, data, train
from rescnet.family import FamilyClassifier

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"preset": "paper", "n_layers": 1, "filters": 4, "bank": "pca", "random_state": 0}
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
    return classifier_with(**SMALL).fit(*images[0])


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
    classifier = classifier_with(**SMALL).fit(source(*train))
    np.testing.assert_array_equal(classifier.decision_function(source(*test)), fitted.decision_function(test[0]))
    assert classifier.score(source(*test)) == fitted.score(*test)


def test_pictures_with_names_and_images_without_labels(images, fitted):
    train, (test, truth) = images
    classifier = classifier_with(**SMALL).fit(Pictures(*train))
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
        classifier_with(**SMALL).fit(loader, sample_weight=np.ones(len(test[0])))


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
            classifier_with(**SMALL).fit(X, y)


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


def test_one_file_and_a_folder_of_files(files, fitted):
    np.testing.assert_array_equal(fitted.predict(str(files[3])), fitted.predict(files[3:4]))
    np.testing.assert_array_equal(fitted.predict(files[0].parent), fitted.predict(files))


@pytest.mark.parametrize("scale", [1, 255])
def test_models_read_files(files, images, scale):
    pixels, labels = images[0]
    units = pixels if scale == 1 else (pixels / 255).astype(np.float32)
    classifier = classifier_with(**SMALL).fit(units, labels)
    model = classifier.model_
    expected = classifier.predict_proba(files)
    for given, rows in ((files, expected), (files[0].parent, expected), (str(files[2]), expected[2:3])):
        np.testing.assert_allclose(model.predict_proba(given), rows, rtol=1e-6)
        np.testing.assert_array_equal(model.predict(given), rows.argmax(1))
    np.testing.assert_allclose(model.explain(files[2]).probabilities, expected[2], atol=1e-6)
    unrecorded = Model(model.network, model.history, model.labels)  # has the units of the network's input
    np.testing.assert_allclose(unrecorded.predict_proba(files), expected, rtol=1e-6)


@pytest.mark.parametrize("given", [lambda files: str(files[0]), lambda files: files[0], lambda files: files])
def test_networks_take_no_files(files, fitted, given):
    for answer in (fitted.model_.network.predict_indices, fitted.model_.network.outputs):
        with pytest.raises(
            ValueError, match=r"must be an array or a tensor, got the path .*0\.png'\. Use Model\.predict"
        ):
            answer(given(files))


@pytest.fixture
def pictures(images, tmp_path):
    """A folder of the names' classes, with training and test images and a stray file."""
    for split, (pixels, labels) in zip(("train", "test"), images, strict=True):
        for number, (image, label) in enumerate(zip(pixels[:60], labels[:60], strict=True)):
            place = tmp_path / "pictures" / split / NAMES[label]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{number:03}.png")
    (place / "notes.txt").write_text("no image")
    return tmp_path / "pictures"


def test_a_folder_is_fitted_and_scored(pictures, images, caplog):
    (pixels, labels), (test, truth) = images
    expected = classifier_with(**SMALL).fit(pixels[:60], NAMES[labels[:60]])
    classifier = classifier_with(**SMALL).fit(str(pictures))
    assert classifier.classes_.tolist() == NAMES.tolist() and classifier.image_shape_ == (1, 8, 8)
    assert "file that is not an image, skipped: test" in caplog.text
    outputs = classifier.decision_function(test[:, None])
    np.testing.assert_allclose(outputs, expected.decision_function(test), rtol=1e-6)  # other order of the images
    assert classifier.score(pictures) == expected.score(test[:60], NAMES[truth[:60]])
    with pytest.raises(ValueError, match="y must be None, since the source holds the labels"):
        classifier.fit(pictures, labels)
    with pytest.raises(
        ValueError, match=r"source must be an image folder, .* got '.*pictres'.*Did you mean 'pictures'"
    ):
        classifier.fit(str(pictures).replace("pictures", "pictres"))


def test_sources_of_train(pictures, tmp_path):
    config = Config("digits", layers=1, filters=4).complete()
    dataset = data.load(pictures)
    np.savez(tmp_path / "own.npz", images=dataset.train.images[:, 0], labels=dataset.train.labels)
    expected, _ = train_network(dataset.train.images, dataset.train.labels, config)
    for source in (pictures, str(tmp_path / "own.npz")):
        network, history = train_network(source, config=config)
        assert torch.equal(network.outputs(dataset.test.images), expected.outputs(dataset.test.images))
        assert (history[-1].test_accuracy is not None) == (source == pictures)
    with pytest.raises(ValueError, match="labels must be None, since the source holds them"):
        train(pictures, config)
    with pytest.raises(ValueError, match="labels must be given with arrays of images"):
        train(dataset.train.images)


def test_the_network_follows_from_the_images():
    network, _ = train_network("digits:4")
    assert network.config.layers == 3 and network.classes == 10


def test_files_are_fitted_to_channels_units_and_family(files, images):
    (train, labels), (test, _) = images
    colour = train[..., None].repeat(3, 3)
    for X, seen in (
        (colour, test[:5, ..., None].repeat(3, 3)),
        (colour.transpose(0, 3, 1, 2), test[:5, None].repeat(3, 1)),
        ((train / 255).astype(np.float32), (test[:5] / 255).astype(np.float32)),
    ):
        classifier = classifier_with(**SMALL).fit(X, labels)
        np.testing.assert_allclose(
            classifier.decision_function(files[:5]), classifier.decision_function(seen), atol=1e-7
        )
    member = FamilyClassifier("pcanet", options={"filters": (4, 4)}, random_state=0).fit(train[:60], labels[:60])
    np.testing.assert_array_equal(member.predict(files[:5]), member.predict(test[:5]))


def test_bad_files(files, images, fitted, tmp_path):
    text = tmp_path / "notes.png"
    text.write_text("no image")
    two = classifier_with(**SMALL, channels="first").fit(images[0][0][:, None].repeat(2, 1), images[0][1])
    cases = [
        (fitted, tmp_path / "none.png", r"image files must exist, got .*none\.png\. Check the path\."),
        (fitted, [*files, tmp_path / "none.png"], r"image files must exist, got .*none\.png\. Check the path\."),
        (fitted, [*files, 3], "X must all be paths of image files, got 3 too"),
        (fitted, [text], r"notes\.png must be an image .*, got another format"),
        (two, files, "images must be arrays for a network of 2 channels, got files, which have 1 or 3"),
    ]
    for classifier, X, message in cases:
        with pytest.raises(ValueError, match=message):
            classifier.predict(X)
    for X, y, message in ((files, np.arange(9), "inconsistent numbers of samples"), ([text] * 4, [0, 1] * 2, "notes")):
        with pytest.raises(ValueError, match=message):
            classifier_with(**SMALL).fit(X, y)


def test_a_list_of_files_with_labels_trains(pictures, caplog):
    """It is the network of the folder; images of several sizes are fitted, which is logged."""
    files = sorted((pictures / "train").rglob("*.png"))
    table = pd.DataFrame({"file": map(str, files), "label": [file.parent.name for file in files]})
    of_folder = classifier_with(**SMALL).fit(pictures)
    for paths in (table["file"], files):
        classifier = classifier_with(**SMALL).fit(paths, table["label"])
        np.testing.assert_array_equal(classifier.predict_proba(files), of_folder.predict_proba(files))
    caplog.clear()
    Image.new("RGB", (40, 30)).save(files[0])
    assert classifier_with(**SMALL).fit(files, table["label"]).image_shape_ == (3, 8, 8)
    (note,) = caplog.messages
    assert note == "images are resized and centre-cropped to 8×8 (height×width); found 2 sizes from 8×8 to 30×40"


def test_a_generator_of_paths_is_refused(files, fitted):
    """The order of ``glob`` is not fixed, so predictions could not be matched to files."""
    with pytest.raises(ValueError, match=r"must be a list or an array, got a \w+\. Use sorted\(\.\.\.\) of paths"):
        fitted.predict(files[0].parent.glob("*.png"))
    with pytest.raises(ValueError, match="images must be a list or an array"):
        fitted.model_.predict(iter(files))
