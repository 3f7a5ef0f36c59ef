"""The cache of decoded images beside a folder."""

from __future__ import annotations

import os

import numpy as np
import pytest
from data.official_files import plain_image

from rescnet.data import load
from rescnet.data.folder_cache import cache_of

pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    for split, names in (("train", "0123"), ("test", "45")):
        for number in map(int, names):
            place = tmp_path / "photos" / split / "ab"[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            plain_image((40 * number, 7, 9), (8, 8)).save(place / f"{number}.png")
    (tmp_path / "photos" / "train" / "a" / "notes.txt").write_text("no image")
    return tmp_path / "photos"


def content(dataset):
    parts = [part for part in (dataset.train, dataset.test) if part]
    arrays = [(part.images.tolist(), part.labels.tolist(), part.files) for part in parts]
    return dataset.name, dataset.class_names, arrays


def test_the_second_run_reads_the_cache(folder, monkeypatch):
    plain, first = load(folder), load(folder, cache=True)
    assert content(first) == content(plain) and plain.train.files[0] == "train/a/0.png"
    assert first.notes == (*plain.notes, "decoded images are kept in photos.cache.npz") and plain.notes
    monkeypatch.setattr("rescnet.data.image_folder.read_images", None)  # would raise
    again = load(folder, cache=True)
    assert content(again) == content(plain)
    assert again.notes == (*first.notes[:-1], "images decoded before, from photos.cache.npz")
    assert again.train.images.dtype == np.uint8 and again.train.labels.dtype == np.int64
    assert len(load(f"{folder}:2", cache=True).train) == 4


def test_changed_files_and_options_are_read_again(folder):
    load(folder, cache=True)
    assert load(folder, cache=True, channels=1).shape == (1, 8, 8)
    load(folder, cache=True)
    plain_image((1, 2, 3), (8, 8)).save(folder / "train" / "a" / "new.png")
    assert len(load(folder, cache=True).train) == 5
    plain_image((200, 2, 3), (8, 8)).save(folder / "train" / "a" / "new.png")
    os.utime(folder / "train" / "a" / "new.png", ns=(0, 0))
    assert load(folder, cache=True).train.images[:, 0].max() == 200


def test_a_damaged_cache_is_written_again(folder):
    first = load(folder, cache=True)
    for text in (b"", b"PK damaged", cache_of(folder).read_bytes()[:-300]):
        cache_of(folder).write_bytes(text)
        assert load(folder, cache=True).notes[-1] == first.notes[-1]
        assert "decoded before" in load(folder, cache=True).notes[-1]


def test_a_cache_that_cannot_be_written_is_no_error(folder):
    cache_of(folder).mkdir()
    assert load(folder, cache=True).notes[-1].startswith("decoded images are not kept: ")
