"""Folders of images with one sub-folder per class: one pass finds every problem and reads what is usable.

::

    pets/                     pets/
      cat/1.png 2.png ...       train/cat/... train/dog/...
      dog/1.png 2.png ...       val/cat/...   val/dog/...      (or valid/, validation/)
                                test/cat/...  test/dog/...

Hidden files, and files that only file managers use, are no problem: they are ignored.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import DataError, show_text
from ..base.text import count
from .image_files import SUFFIXES, ImageHeader, Progress, read_headers, read_images
from .image_set import Dataset, ImageSet
from .image_sizes import Size, choose_size, fit_notes
from .splits import checksum

_SYSTEM_FILES = {"thumbs.db", "desktop.ini", "__macosx"}
_SPLIT_OF_FOLDER = {"train": "train", "test": "test", **dict.fromkeys(("val", "valid", "validation"), "validation")}
_PHOTOS = SUFFIXES | {".heic", ".heif", ".avif"}  # the last ones are images too, which Pillow may not read
_EXAMPLES = 3


class Kind(Enum):
    """Kinds of problems: one, many, and the remedy that reading applies."""

    UNREADABLE = "unreadable file", "unreadable files", "skipped"
    NO_IMAGE = "file that is not an image", "files that are not images", "skipped"
    OUTSIDE = "file outside the class folders", "files outside the class folders", "skipped"
    NESTED = "folder inside a class folder", "folders inside class folders", "skipped"
    EMPTY = "class folder without training images", "class folders without training images", "skipped"
    MISSING = "class without images in a split", "classes without images in a split", "kept"
    GREY = "grey image among colour ones", "grey images among colour ones", "converted to colour"
    SIZE = "image of another size", "images of another size", "resized and centre-cropped"
    TWICE = "image that another class or split has too", "images that another class or split has too", "kept"


class Problem(NamedTuple):
    """A file or folder that is not as it should be, and a sentence about it."""

    kind: Kind
    path: Path
    reason: str

    @property
    def rule(self) -> str:
        """The sentence without its remedy and its full stop."""
        return self.reason.rpartition(". ")[0] or self.reason.rstrip(".")


class ImageFile(NamedTuple):
    """An image file with its split, its class, and its header."""

    split: str
    class_name: str
    header: ImageHeader


def scan_folder(folder: Path, progress: Progress | None = None) -> FolderScan:
    """List the files of a folder and read their headers.

    The folder has one sub-folder per class; or ``train`` and optionally ``val`` and ``test``, each with sub-folders.
    """
    scan = FolderScan(folder, _find_splits(folder))
    for part in {folder: None, **dict.fromkeys(scan.parts.values())}:
        for path in _visible(part):
            if not path.is_dir():
                scan.add(Kind.OUTSIDE, path, f"{path} must be in the folder of a class. Move or remove it.")
    found = {path: split for split, part in scan.parts.items() for path in scan.list_classes(part)}
    for path, header in zip(found, read_headers(list(found), progress), strict=True):
        if isinstance(header, DataError):
            scan.add_unreadable(path, header)
        else:
            scan.files[path] = ImageFile(found[path], path.parent.name, header)
    return scan


@dataclass
class FolderScan:
    """The image files of a folder, and its problems; :meth:`read` completes both.

    ``parts`` has the folder of each split. ``files`` are in the order of splits, class names and file names.
    """

    folder: Path
    parts: dict[str, Path]
    files: dict[Path, ImageFile] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    class_folders: list[Path] = field(default_factory=list)

    @property
    def sizes(self) -> Counter[Size]:
        """Number of images per (h, w)."""
        return Counter((file.header.height, file.header.width) for file in self.files.values())

    @property
    def grey(self) -> int:
        """Number of grey images."""
        return sum(file.header.is_grey for file in self.files.values())

    def add(self, kind: Kind, path: Path, reason: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(kind, path, reason))

    def add_unreadable(self, path: Path, error: DataError) -> None:
        """Add a file that cannot be read; it is no image if its name does not say so."""
        self.files.pop(path, None)
        self.add(Kind.UNREADABLE if path.suffix.lower() in _PHOTOS else Kind.NO_IMAGE, path, str(error))

    def list_classes(self, part: Path) -> Iterator[Path]:
        """Yield the files in the class folders of a split, sorted by class and name."""
        for class_folder in _visible(part):
            if not class_folder.is_dir():
                continue
            self.class_folders.append(class_folder)
            for path in _visible(class_folder):
                if path.is_dir():
                    reason = "must be an image, got a folder. Put images directly into the folder of their class."
                    self.add(Kind.NESTED, path, f"{path} {reason}")
                else:
                    yield path

    def read(
        self,
        image_size: Size | None = None,
        channels: int | None = None,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        """Decode the images; all have one size and number of channels.

        Parameters
        ----------
        image_size : tuple of int, optional
            (h, w) that images are resized and centre-cropped to. Default: :func:`choose_size`.
        channels : int, optional
            1 (grey) or 3 (colour). Default: grey if all images are.
        strict : bool, default False
            Whether to raise DataError if there is a problem. Otherwise files and folders with problems are skipped,
            and `Dataset.notes` name them.
        progress : callable, optional
            Called with (files read, all files).
        """
        if not self.files:
            self._check_classes()
            raise self._unusable()
        size = image_size or choose_size(self.sizes)
        channels = channels or (1 if self.grey == len(self.files) else 3)
        errors: dict[Path, DataError] = {}
        images = read_images(list(self.files), channels, size, progress=progress, errors=errors)
        for path, error in errors.items():
            self.add_unreadable(path, error)
        names = self._check_classes()
        if not names:
            raise self._unusable()
        self._compare_headers(channels)
        self._compare_images(images)
        if strict:
            self._refuse([problem for problem in self.problems if problem.kind is not Kind.SIZE or image_size is None])
        number = {name: index for index, name in enumerate(names)}
        splits, files = {}, list(self.files.values())
        paths = [path.relative_to(self.folder).as_posix() for path in self.files]
        for split in self.parts:
            rows = [row for row, file in enumerate(files) if file.split == split and file.class_name in number]
            if rows:
                labels = np.array([number[files[row].class_name] for row in rows], np.int64)
                splits[split] = ImageSet(images[rows], labels, names, tuple(paths[row] for row in rows))
        notes = (*fit_notes(self.sizes, size), *self.lines(but=Kind.SIZE))
        name = self.folder.resolve().name
        return Dataset(name, splits["train"], splits.get("validation"), splits.get("test"), notes)

    def lines(self, but: Kind | None = None) -> list[str]:
        """Return a line per kind of problem: their number, the remedy, and the first files."""
        lines = []
        for kind in Kind:
            paths = [problem.path for problem in self.problems if problem.kind is kind]
            if paths and kind is not but:
                one, many, done = kind.value
                first = ", ".join(show_text(str(path.relative_to(self.folder))) for path in paths[:_EXAMPLES])
                lines.append(
                    f"{count(len(paths), one, many)}, {done}: {first}{', …' if len(paths) > _EXAMPLES else ''}"
                )
        return lines

    def _check_classes(self) -> tuple[str, ...]:
        """Return the classes with training images; add those without, and those that another split lacks."""
        present = {(file.split, file.class_name) for file in self.files.values()}
        names = sorted(name for split, name in present if split == "train")
        for path in self.class_folders:
            if path.name not in names:
                self.add(Kind.EMPTY, path, f"{path} has no training images. Add some, or remove the folder.")
        for split, part in self.parts.items():
            for name in names:
                if (split, name) not in present:
                    reason = f"all splits must have the same classes, got no {split} images of {name!r}."
                    self.add(Kind.MISSING, part / name, f"{self.folder}: {reason}")
        return tuple(names)

    def _compare_headers(self, channels: int) -> None:
        """Add images that are grey among colour ones, or have not the most frequent size."""
        some_grey = channels == 3 and self.grey < len(self.files)
        (most, _), *_ = self.sizes.most_common(1)
        for path, (_, _, header) in self.files.items():
            if some_grey and header.is_grey:
                self.add(Kind.GREY, path, f"images must be all grey or all colour, got {path} in grey.")
            if (header.height, header.width) != most:
                reason = f"images must have one size (height×width), got {most[0]}×{most[1]} and"
                self.add(Kind.SIZE, path, f"{reason} {header.height}×{header.width} for {path}. Use --image-size.")

    def _compare_images(self, images: NDArray[np.uint8]) -> None:
        """Add images, shape (n, channels, h, w), whose pixels another class or split has."""
        first: dict[bytes, tuple[Path, ImageFile]] = {}
        for image, (path, file) in zip(images, self.files.items(), strict=True):
            other, found = first.setdefault(checksum(image), (path, file))
            if (file.split, file.class_name) != (found.split, found.class_name):
                self.add(Kind.TWICE, path, f"{path} must not have the same pixels as {other}. Remove one.")

    def _unusable(self) -> DataError:
        first = f"; {self.problems[0].rule}" if self.problems else ""
        return DataError(f"{self.folder} must have one sub-folder of images per class, got none{first}.")

    def _refuse(self, problems: list[Problem]) -> None:
        """Raise DataError if there are problems; it names the first."""
        if not problems:
            return
        more = count(len(problems) - 1, "more problem", "more problems")
        command = shlex.join(["rescnet", "check", str(self.folder)])
        listed = f"{problems[0].rule}, and {more}. List all with {command}."
        raise DataError(listed if len(problems) > 1 else problems[0].reason)


def _find_splits(folder: Path) -> dict[str, Path]:
    """Return the folder of each split; a folder of classes is all training images.

    A folder has splits if all its sub-folders have names of splits. Otherwise ``train`` is a class of vehicles.
    """
    found = [path for path in _visible(folder) if path.is_dir()]
    if not found or any(path.name.lower() not in _SPLIT_OF_FOLDER for path in found):
        return {"train": folder}
    splits = {_SPLIT_OF_FOLDER[path.name.lower()]: path for path in found}
    if len(splits) < len(found):
        raise DataError(f"{folder} must have one folder per split, e.g. val or validation, got two. Remove one.")
    if "train" not in splits:
        raise DataError(f"{folder} must have a train folder, got only {', '.join(path.name for path in found)}.")
    return {split: splits[split] for split in ("train", "validation", "test") if split in splits}


def _visible(folder: Path) -> list[Path]:
    """List a folder, sorted by name, without hidden files and files of file managers."""
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and path.name.lower() not in _SYSTEM_FILES
    )
