from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rescnet import DataError
from rescnet.data import load
from rescnet.data.image_folder import Kind, scan_folder
from rescnet.data.image_sizes import choose_size

Image = pytest.importorskip("PIL.Image")

RANDOM = np.random.default_rng(1)


def save(path: Path, *shape: int) -> np.ndarray:
    """Write an image of (h, w) or (h, w, 3), and return it."""
    pixels = RANDOM.integers(0, 256, shape or (6, 9), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def test_classes_and_files_are_sorted(tmp_path):
    names = "b/2.png", "b/10.png", "a/x.bmp", "c/y.ppm"
    pixels = {name: save(tmp_path / "pets" / name, 6, 9, 3) for name in names}
    dataset = load(tmp_path / "pets")
    assert dataset.name == "pets" and dataset.notes == ()
    assert dataset.class_names == ("a", "b", "c")
    assert dataset.validation is None and dataset.test is None
    np.testing.assert_array_equal(dataset.train.labels, [0, 1, 1, 2])
    for image, name in zip(dataset.train.images, ("a/x.bmp", "b/10.png", "b/2.png", "c/y.ppm"), strict=True):
        np.testing.assert_array_equal(image, pixels[name].transpose(2, 0, 1))


def test_path_as_string(tmp_path, monkeypatch):
    save(tmp_path / "mnist" / "a" / "1.png")
    monkeypatch.chdir(tmp_path)
    assert load("./mnist").class_names == ("a",)


@pytest.mark.parametrize("validation", ["val", "Valid", "validation"])
def test_splits(tmp_path, validation):
    pixels = {split: save(tmp_path / split / "dog" / "1.png") for split in ("train", validation, "test")}
    for split in pixels:
        save(tmp_path / split / "cat" / "1.png")
    save(tmp_path / "train" / "dog" / "2.png")
    dataset = load(tmp_path)
    np.testing.assert_array_equal(dataset.train.labels, [0, 1, 1])
    np.testing.assert_array_equal(dataset.train.images[1, 0], pixels["train"])
    np.testing.assert_array_equal(dataset.validation.images[1, 0], pixels[validation])
    np.testing.assert_array_equal(dataset.test.images[1, 0], pixels["test"])


def test_train_as_a_class(tmp_path):
    for name in ("bus", "test", "train"):
        save(tmp_path / name / "1.png")
    assert load(tmp_path).class_names == ("bus", "test", "train")


def test_hidden_files(tmp_path):
    save(tmp_path / "a" / "1.png")
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (tmp_path / "a" / name).write_bytes(b"\0")
    (tmp_path / ".git").mkdir()
    save(tmp_path / "__MACOSX" / "a" / "1.png")
    assert len(load(tmp_path, strict=True).train) == 1


@pytest.mark.parametrize("size", [(0, 3), (3,), (4, -1)])
def test_wrong_image_size(tmp_path, size):
    save(tmp_path / "a" / "1.png")
    with pytest.raises(DataError, match="image_size must be two positive numbers"):
        load(tmp_path, image_size=size)


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ({(64, 64): 1}, (64, 64)),
        ({(8, 20): 9}, (8, 20)),  # one small size
        ({(65, 65): 9}, (64, 64)),
        ({(3000, 4000): 9}, (48, 64)),  # the whole image, smaller
        ({(20, 2000): 9}, (8, 64)),
        ({(4, 400): 9}, (4, 64)),
        ({(3000, 4000): 5, (4000, 3000): 4}, (64, 64)),
        ({(30, 90): 1, (50, 40): 2}, (40, 40)),  # the median short side
    ],
)
def test_choose_size(sizes, chosen):
    assert choose_size(sizes) == chosen


def mistake_text(folder):
    (folder / "train" / "a" / "notes.txt").write_text("hello")
    return Kind.NO_IMAGE, r"notes\.txt must be an image \(PNG, .*\), got another format\. Remove it\.$"


def mistake_damaged(folder):
    (folder / "train" / "a" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")
    return Kind.UNREADABLE, r"0\.png cannot be read as an image"


def mistake_truncated(folder):
    """The header is that of an image: only decoding finds it."""
    save(folder / "train" / "a" / "0.png", 40, 40, 3)
    data = (folder / "train" / "a" / "0.png").read_bytes()
    (folder / "train" / "a" / "0.png").write_bytes(data[: len(data) // 2])
    return Kind.UNREADABLE, r"0\.png cannot be read as an image"


def mistake_outside(folder):
    save(folder / "train" / "lost.png", 6, 9, 3)
    return Kind.OUTSIDE, r"lost\.png must be in the folder of a class\. Move or remove it"


def mistake_beside_splits(folder):
    (folder / "README.md").write_text("hello")
    return Kind.OUTSIDE, r"README\.md must be in the folder of a class\. Move or remove it"


def mistake_nested(folder):
    save(folder / "train" / "a" / "more" / "1.png")
    return Kind.NESTED, "more must be an image, got a folder"


def mistake_empty(folder):
    (folder / "train" / "c").mkdir()
    return Kind.EMPTY, "c has no training images"


def mistake_untrained(folder):
    save(folder / "test" / "c" / "1.png", 6, 9, 3)
    return Kind.EMPTY, "c has no training images"


def mistake_missing(folder):
    (folder / "test" / "b" / "1.png").unlink()
    return Kind.MISSING, "must have the same classes, got no test images of 'b'"


def mistake_grey(folder):
    save(folder / "test" / "a" / "2.png")
    return Kind.GREY, r"must be all grey or all colour, got .*2\.png in grey"


def mistake_size(folder):
    save(folder / "test" / "a" / "3.png", 5, 5, 3)
    return Kind.SIZE, r"must have one size \(height×width\), got 6×9 and 5×5 for .*3\.png\. Use --image-size"


def mistake_twice(folder):
    (folder / "test" / "a" / "1.png").write_bytes((folder / "train" / "a" / "1.png").read_bytes())
    return Kind.TWICE, r"test/a/1\.png must not have the same pixels as .*train/a/1\.png\. Remove one"


MISTAKES = [value for name, value in list(globals().items()) if name.startswith("mistake_")]


@pytest.fixture
def folder(tmp_path):
    """A folder of three training images and two test images of 6×9."""
    for name in ("train/a/1.png", "train/a/2.png", "train/b/1.png", "test/a/1.png", "test/b/1.png"):
        save(tmp_path / "pets" / name, 6, 9, 3)
    return tmp_path / "pets"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_problems(mistake, folder):
    """A problem is found, the rest is read, and strict refuses it."""
    kind, message = mistake(folder)
    scan = scan_folder(folder)
    dataset = scan.read()
    assert kind in {problem.kind for problem in scan.problems}
    assert dataset.class_names == ("a", "b") and len(dataset.train) == 3
    assert dataset.notes
    with pytest.raises(DataError, match=message):
        load(folder, strict=True)


def test_all_problems_are_listed_at_once(folder):
    expected = {mistake(folder)[0] for mistake in MISTAKES if mistake is not mistake_damaged}
    scan = scan_folder(folder)
    dataset = scan.read()
    assert {problem.kind for problem in scan.problems} == expected == set(Kind)
    assert dataset.shape == (3, 6, 6) and len(dataset.train) == 3
    assert dataset.notes[0] == (
        "images are resized and centre-cropped to 6×6 (height×width); found 2 sizes from 5×5 to 6×9"
    )
    assert "1 file that is not an image, skipped: train/a/notes.txt" in dataset.notes
    with pytest.raises(DataError, match=r", and \d+ more problems\. List all with rescnet check .*pets\.$"):
        load(folder, strict=True)


def test_grey_and_colour(folder):
    grey = mistake_grey(folder) and load(folder).test.images[1]
    assert grey.shape == (3, 6, 9) and (grey == grey[0]).all()
    as_grey = load(folder, channels=1)
    assert as_grey.shape == (1, 6, 9) and as_grey.notes == ()


def test_the_first_files_are_named(folder):
    for number in range(5):
        (folder / "train" / "a" / f"{number}.txt").write_text("hello")
    names = "train/a/0.txt, train/a/1.txt, train/a/2.txt, …"
    assert load(folder).notes == (f"5 files that are not images, skipped: {names}",)


def test_names_cannot_change_the_terminal(folder):
    """Neither an escape sequence nor a newline of a name is in a note or an error."""
    (folder / "train" / "a" / "\x1b[2Jgone\n.txt").write_text("hello")
    (folder / "train" / "\x1b]0;c\x07").mkdir()
    notes = load(folder).notes
    assert r"1 file that is not an image, skipped: train/a/\x1b[2Jgone\n.txt" in notes
    assert len(notes) == 2 and all(note.isprintable() for note in notes)
    with pytest.raises(DataError) as error:
        load(folder, strict=True)
    assert str(error.value).isprintable()


def test_a_class_whose_images_are_all_damaged_is_left_out(folder):
    mistake_truncated(folder)
    (folder / "train" / "a" / "0.png").replace(folder / "train" / "b" / "1.png")
    dataset = load(folder)
    assert dataset.class_names == ("a",) and len(dataset.train) == 2 and len(dataset.test) == 1


def test_images_after_an_unreadable_one_keep_their_labels(folder):
    expected = load(folder).train.images
    mistake_truncated(folder)
    np.testing.assert_array_equal(load(folder, image_size=(6, 9)).train.images, expected)


def test_strict_with_a_size_allows_other_sizes(folder):
    mistake_size(folder)
    assert load(folder, image_size=(6, 6), strict=True).shape == (3, 6, 6)


def test_a_split_without_classes_is_left_out(folder):
    for name in "ab":
        (folder / "test" / name / "1.png").replace(folder / "test" / f"{name}.png")
    dataset = load(folder)
    assert (
        dataset.test is None and "2 files outside the class folders, skipped: test/a.png, test/b.png" in dataset.notes
    )


@pytest.mark.parametrize("name", ["", "1.png", "a/notes.txt", "a/more/1.png"])
def test_nothing_usable(tmp_path, name):
    if name.endswith("png"):
        save(tmp_path / name)
    elif name:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("hello")
    with pytest.raises(DataError, match="must have one sub-folder of images per class, got none") as error:
        load(tmp_path)
    assert name.removesuffix("/1.png") in str(error.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("val", "validation", "train"), "must have one folder per split, e.g. val or validation, got two"),
        (("test",), "must have a train folder, got only test"),
    ],
)
def test_wrong_splits(tmp_path, names, message):
    for name in names:
        save(tmp_path / name / "a" / "1.png")
    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_progress(folder):
    seen = []
    load(folder, files_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5, 5), (5, 5)]  # headers, then images
