"""Reader of TinyImageNet: one folder of JPEG files per class, and annotated validation images."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from ..base.errors import DataError
from .archives import Layout, PublicSet
from .image_files import Progress, read_images
from .image_set import Dataset, ImageSet
from .readers import text_lines

Sample = tuple[Path, int]
"""An image file and its label."""

logger = logging.getLogger(__name__)


def read_tiny_imagenet(public_set: PublicSet, layout: Layout, root: Path, progress: Progress | None = None) -> Dataset:
    """Read TinyImageNet.

    Labels follow the order of ``wnids.txt``. The annotated ``val`` images become the test split, because results are
    reported on them: the images under ``test`` have no published labels. An incomplete folder is read, with a warning
    in the log.
    """
    folder = root / layout.folder
    wnids = _read_wnids(public_set, folder / "wnids.txt")
    names = _read_names(wnids, folder / "words.txt")
    train, test = _train_samples(folder, wnids), _validation_samples(folder, wnids)
    if (len(train), len(test)) != (public_set.n_train, public_set.n_test):
        logger.warning(
            "%s has %d training and %d validation images; %d and %d were published",
            *(folder, len(train), len(test), public_set.n_train, public_set.n_test),
        )
    return Dataset(
        public_set.name,
        train=_read_samples(public_set, train, names, progress),
        test=_read_samples(public_set, test, names, progress),
    )


def _train_samples(folder: Path, wnids: list[str]) -> list[Sample]:
    """List ``train/<wnid>/images/*``, by class in the order of `wnids`, then by file name."""
    samples: list[Sample] = []
    for label, wnid in enumerate(wnids):
        images = folder / "train" / wnid / "images"
        if not images.is_dir():
            raise DataError(f"{images} is missing. Unpack tiny-imagenet-200.zip again.")
        paths = sorted(path for path in images.iterdir() if not path.name.startswith("."))
        if not paths:
            raise DataError(f"{images} has no images. Unpack tiny-imagenet-200.zip again.")
        samples += [(path, label) for path in paths]
    return samples


def _validation_samples(folder: Path, wnids: list[str]) -> list[Sample]:
    """List the images of ``val/val_annotations.txt``, in its order."""
    annotations = folder / "val" / "val_annotations.txt"
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    samples: list[Sample] = []
    for number, line in enumerate(text_lines(annotations), start=1):
        file, _, rest = line.partition("\t")  # rest: wnid, then the corners of a box
        wnid = rest.partition("\t")[0]
        if wnid not in label_of or Path(file).name != file:
            raise DataError(f"{annotations} line {number} must have a file and a class of wnids.txt, got {line!r}.")
        samples.append((folder / "val" / "images" / file, label_of[wnid]))
    if not samples:
        raise DataError(f"{annotations} lists no images. Unpack tiny-imagenet-200.zip again.")
    return samples


def count_samples(public_set: PublicSet, layout: Layout, root: Path) -> tuple[int, int]:
    """Count training and validation images without opening them."""
    folder = root / layout.folder
    wnids = _read_wnids(public_set, folder / "wnids.txt")
    return len(_train_samples(folder, wnids)), len(_validation_samples(folder, wnids))


def _read_samples(
    public_set: PublicSet, samples: list[Sample], names: tuple[str, ...], progress: Progress | None
) -> ImageSet:
    c, h, w = public_set.shape
    images = read_images([path for path, _ in samples], c, (h, w), resize=False, progress=progress)
    return ImageSet(images, np.array([label for _, label in samples], np.int64), names)


def _read_wnids(public_set: PublicSet, path: Path) -> list[str]:
    """Read the WordNet ids of the classes, one per line."""
    wnids = [line.strip() for line in text_lines(path)]
    if len(set(wnids)) != public_set.classes or len(wnids) != public_set.classes:
        raise DataError(f"{path} must have {public_set.classes} different ids, got {len(set(wnids))}.")
    if wrong := [wnid for wnid in wnids if not wnid.isalnum()]:  # an id is the name of a folder
        raise DataError(f"{path} must have ids of letters and digits, got {wrong[0]!r}. Download the set again.")
    return wnids


def _read_names(wnids: list[str], path: Path) -> tuple[str, ...]:
    """Read the first synonym of each id. If two classes share a name, their ids are appended."""
    synonyms = dict(line.split("\t", 1) for line in text_lines(path) if "\t" in line)
    if missing := [wnid for wnid in wnids if wnid not in synonyms]:
        raise DataError(f"{path} has no words for {missing[0]}. Unpack tiny-imagenet-200.zip again.")
    names = [synonyms[wnid].split(",")[0].strip() for wnid in wnids]
    return tuple(f"{name} ({wnid})" if names.count(name) > 1 else name for wnid, name in zip(wnids, names, strict=True))
