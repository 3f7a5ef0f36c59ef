"""Table of the public data sets: addresses, checksums, and the files of each layout.

Nothing here reads an image or opens a connection. Addresses and MD5 sums are those the authors publish. MNIST's page
no longer serves files, so its address is the mirror that torchvision uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LayoutFormat = Literal["idx", "cifar-binary", "cifar-python", "tiny-imagenet"]


@dataclass(frozen=True)
class RemoteFile:
    """A file to download: its address, its checksum and size, and its path under the root folder."""

    url: str
    md5: str
    size: int
    """Bytes."""
    target: str
    """Path under the root folder."""
    unpacks_to: str | None = None
    """Folder in this archive, unpacked under the root folder. None for a file that is not unpacked."""


@dataclass(frozen=True)
class Layout:
    """The files of one version of a data set, relative to `folder`."""

    format: LayoutFormat
    folder: str
    """Path under the root folder."""
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Files with the class names."""
    coarse_labels: bool = False
    """True if each image has a coarse label before its fine one (CIFAR-100). The fine label is used."""

    def missing(self, root: Path) -> list[str]:
        """List the files of this layout that are not under `root`. idx files may be plain or gzipped."""
        folder = root / self.folder
        endings = ("", ".gz") if self.format == "idx" else ("",)
        return [
            name
            for name in self.train + self.test + self.names
            if not any((folder / (name + ending)).exists() for ending in endings)
        ]


@dataclass(frozen=True)
class PublicSet:
    """A public data set. `downloads` provide the first of `layouts`; any complete layout can be read."""

    name: str
    classes: int
    shape: tuple[int, int, int]
    """Shape of one image, (c, h, w)."""
    n_train: int
    n_test: int
    layouts: tuple[Layout, ...] = ()
    downloads: tuple[RemoteFile, ...] = ()
    class_names: tuple[str, ...] | None = None
    """None if the files of the data set have the class names."""


_TEN_DIGITS = tuple("0123456789")
_GARMENTS = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_TORONTO = "https://www.cs.toronto.edu/~kriz/"


def _idx_layout(folder: str) -> Layout:
    return Layout(
        "idx",
        folder,
        train=("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        test=("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    )


def _idx_files(address: str, layout: Layout, *checks: tuple[str, int]) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(f"{address}{name}.gz", md5, size, f"{layout.folder}/{name}.gz")
        for name, (md5, size) in zip(layout.train + layout.test, checks, strict=True)
    )


def _archive(address: str, name: str, md5: str, size: int, folder: str) -> tuple[RemoteFile, ...]:
    return (RemoteFile(address + name, md5, size, name, unpacks_to=folder),)


_MNIST = _idx_layout("MNIST/raw")
_MNIST_FILES = _idx_files(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    _MNIST,
    ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
    ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
    ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
    ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
)
_FASHION = _idx_layout("FashionMNIST/raw")
_FASHION_FILES = _idx_files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    _FASHION,
    ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
    ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
    ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
    ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
)
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_BINARY_BATCHES = tuple(f"{batch}.bin" for batch in _BATCHES)
_CIFAR10 = (
    Layout("cifar-binary", "cifar-10-batches-bin", _BINARY_BATCHES, ("test_batch.bin",), ("batches.meta.txt",)),
    Layout("cifar-python", "cifar-10-batches-py", _BATCHES, ("test_batch",), ("batches.meta",)),
)
_CIFAR10_FILES = _archive(
    _TORONTO, "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171, "cifar-10-batches-bin"
)
_CIFAR100 = (
    Layout(
        "cifar-binary", "cifar-100-binary", ("train.bin",), ("test.bin",), ("fine_label_names.txt",), coarse_labels=True
    ),
    Layout("cifar-python", "cifar-100-python", ("train",), ("test",), ("meta",), coarse_labels=True),
)
_CIFAR100_FILES = _archive(
    _TORONTO, "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168_513_733, "cifar-100-binary"
)
_TINY_IMAGENET = Layout(
    "tiny-imagenet",
    "tiny-imagenet-200",
    train=("train",),
    test=("val/images", "val/val_annotations.txt"),
    names=("wnids.txt", "words.txt"),
)
_TINY_IMAGENET_FILES = _archive(
    "http://cs231n.stanford.edu/",
    "tiny-imagenet-200.zip",
    "90528d7ca1a48142e341f4ef8d21d0de",
    248_100_043,
    "tiny-imagenet-200",
)

_ALL = (
    PublicSet("digits", 10, (1, 8, 8), 1797, 0, class_names=_TEN_DIGITS),
    PublicSet("mnist", 10, (1, 28, 28), 60_000, 10_000, (_MNIST,), _MNIST_FILES, _TEN_DIGITS),
    PublicSet("fashion-mnist", 10, (1, 28, 28), 60_000, 10_000, (_FASHION,), _FASHION_FILES, _GARMENTS),
    PublicSet("cifar10", 10, (3, 32, 32), 50_000, 10_000, _CIFAR10, _CIFAR10_FILES),
    PublicSet("cifar100", 100, (3, 32, 32), 50_000, 10_000, _CIFAR100, _CIFAR100_FILES),
    PublicSet("tiny-imagenet", 200, (3, 64, 64), 100_000, 10_000, (_TINY_IMAGENET,), _TINY_IMAGENET_FILES),
)

PUBLIC_SETS: dict[str, PublicSet] = {public_set.name: public_set for public_set in _ALL}
"""The public data sets by name, smallest first. `digits` is part of scikit-learn and has no files here."""
