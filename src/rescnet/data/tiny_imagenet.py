"""TinyImageNet as its authors lay it out: a folder of JPEG files for each class, and annotated validation ones."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from .archives import Layout, PublicSet
from .decode import read_images
from .errors import DataError
from .image_set import Dataset, ImageSet

logger = logging.getLogger(__name__)

Sample = tuple[Path, int]
"""An image file and its label."""


def read_tiny_imagenet(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read TinyImageNet.

    Labels follow the order of ``wnids.txt``. The annotated ``val`` images are given as `test`, because it
    is on them that results are reported: the images under ``test`` have no published labels. A folder
    with fewer images than were published is read as it is, with a warning in the log.

    Parameters
    ----------
    public_set : PublicSet
        The shape of an image and the number of classes.
    layout : Layout
    root : Path
        The folder `layout.folder` is relative to.
    """
    folder = root / layout.folder
    wnids = _read_wnids(public_set, folder / "wnids.txt")
    names = _read_names(wnids, folder / "words.txt")
    train, test = train_samples(folder, wnids), validation_samples(folder, wnids)
    if (len(train), len(test)) != (public_set.n_train, public_set.n_test):
        logger.warning(
            "%s holds %d training and %d validation images; %d and %d were published",
            *(folder, len(train), len(test), public_set.n_train, public_set.n_test),
        )
    return Dataset(
        public_set.name,
        train=_read_samples(public_set, train, names),
        test=_read_samples(public_set, test, names),
    )


def train_samples(folder: Path, wnids: list[str]) -> list[Sample]:
    """List ``train/<wnid>/images/*``: class by class in the order of `wnids`, files sorted by name."""
    samples: list[Sample] = []
    for label, wnid in enumerate(wnids):
        images = folder / "train" / wnid / "images"
        if not images.is_dir():
            raise DataError(f"{images} is missing: unpack tiny-imagenet-200.zip again.")
        paths = sorted(path for path in images.iterdir() if not path.name.startswith("."))
        if not paths:
            raise DataError(f"{images} holds no image: unpack tiny-imagenet-200.zip again.")
        samples += [(path, label) for path in paths]
    return samples


def validation_samples(folder: Path, wnids: list[str]) -> list[Sample]:
    """List the images ``val/val_annotations.txt`` names, in its order."""
    annotations = folder / "val" / "val_annotations.txt"
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    samples: list[Sample] = []
    for number, line in enumerate(_lines(annotations), start=1):
        file, _, rest = line.partition("\t")  # the rest: wnid, then the corners of a box
        wnid = rest.partition("\t")[0]
        if wnid not in label_of or Path(file).name != file:
            raise DataError(f"{annotations} line {number} is not a file and a class of wnids.txt: {line!r}.")
        samples.append((folder / "val" / "images" / file, label_of[wnid]))
    if not samples:
        raise DataError(f"{annotations} names no image: unpack tiny-imagenet-200.zip again.")
    return samples


def count_samples(public_set: PublicSet, layout: Layout, root: Path) -> tuple[int, int]:
    """Count training and validation images without opening them."""
    folder = root / layout.folder
    wnids = _read_wnids(public_set, folder / "wnids.txt")
    return len(train_samples(folder, wnids)), len(validation_samples(folder, wnids))


def _read_samples(public_set: PublicSet, samples: list[Sample], names: tuple[str, ...]) -> ImageSet:
    c, h, w = public_set.shape
    images = read_images([path for path, _ in samples], channels=c, size=(h, w), resize=False)
    return ImageSet(images, np.array([label for _, label in samples], np.int64), names)


def _read_wnids(public_set: PublicSet, path: Path) -> list[str]:
    """Read the classes' WordNet ids, one a line."""
    wnids = [line.strip() for line in _lines(path)]
    if len(set(wnids)) != public_set.classes or len(wnids) != public_set.classes:
        raise DataError(f"{path} should have {public_set.classes} different ids but has {len(set(wnids))}.")
    return wnids


def _read_names(wnids: list[str], path: Path) -> tuple[str, ...]:
    """Read what the ids stand for, the first synonym of each; a name two classes share gets its id behind."""
    synonyms = dict(line.split("\t", 1) for line in _lines(path) if "\t" in line)
    if missing := [wnid for wnid in wnids if wnid not in synonyms]:
        raise DataError(f"{path} has no words for {missing[0]}: unpack tiny-imagenet-200.zip again.")
    names = [synonyms[wnid].split(",")[0].strip() for wnid in wnids]
    return tuple(f"{name} ({wnid})" if names.count(name) > 1 else name for wnid, name in zip(wnids, names, strict=True))


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip()]
