"""Table of the public data sets: addresses, checksums, and the files of each layout.

Nothing here reads an image or opens a connection. Addresses and MD5 sums are those the authors publish, or those of
torchvision if they publish none (MNIST, whose page no longer serves files, KMNIST, EMNIST, SVHN, STL-10). K49 is in
neither: its sums are those that several loaders agree on, e.g. the package numpyvision. Sizes that are in no source we
know (K49, ciFAIR) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Literal

LayoutFormat = Literal["idx", "raw", "npz", "mat", "cifar-binary", "cifar-python", "tiny-imagenet"]


@dataclass(frozen=True)
class RemoteFile:
    """A file to download: its address, its checksum and size, and its path under the root folder."""

    url: str
    md5: str
    size: int | None
    """Bytes. None if unknown."""
    target: str
    """Path under the root folder."""

    @property
    def is_archive(self) -> bool:
        """True for a file that is unpacked, as the folder of the first layout."""
        return self.target.endswith((".zip", ".tar.gz"))


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
    by_column: bool = False
    """True if images are stored column by column (EMNIST, STL-10)."""
    first_label: int = 0

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
    page: str = "https://scikit-learn.org"
    """Address of its authors' page."""


_TEN_DIGITS = tuple(digits)
_GARMENTS = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_KMNIST_NAMES = tuple("おきすつなはまやれを")
_K49_NAMES = tuple("あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわゐゑをんゝ")
_BOTH_CASES = ascii_uppercase + "abdefghnqrt"  # of EMNIST: small letters that differ from the capital ones
_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_TINY_PAGE, _SVHN_PAGE = "http://cs231n.stanford.edu/", "http://ufldl.stanford.edu/housenumbers/"
_CODH = "http://codh.rois.ac.jp/kmnist/dataset/"
_CIFAIR_RELEASE = "https://github.com/cvjena/cifair/releases/download/v1.0/"


def _idx_layout(folder: str) -> Layout:
    return Layout(
        "idx",
        folder,
        train=("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        test=("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    )


def _files(address: str, layout: Layout, *checks: tuple[str, int | None], ending: str = "") -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(f"{address}{name}{ending}", md5, size, f"{layout.folder}/{name}{ending}")
        for name, (md5, size) in zip(layout.train + layout.test, checks, strict=True)
    )


def _archive(address: str, name: str, md5: str, size: int | None, folder: str = "") -> tuple[RemoteFile, ...]:
    return (RemoteFile(address + name, md5, size, folder + name),)


def _emnist(split: str, names: str, n_train: int, n_test: int) -> PublicSet:
    """Return a split of EMNIST. All splits are in one archive; torchvision unpacks it one folder higher."""
    train, test = (
        (f"emnist-{split}-{part}-images-idx3-ubyte", f"emnist-{split}-{part}-labels-idx1-ubyte")
        for part in ("train", "test")
    )
    first = 1 if split == "letters" else 0
    layouts = tuple(
        Layout("idx", folder, train, test, by_column=True, first_label=first)
        for folder in ("EMNIST/raw/gzip", "EMNIST/raw")
    )
    page, shape = "https://www.nist.gov/itl/products-and-services/emnist-dataset", (1, 28, 28)
    return PublicSet(f"emnist-{split}", len(names), shape, n_train, n_test, layouts, _EMNIST_FILES, tuple(names), page)


_MNIST = _idx_layout("MNIST/raw")
_MNIST_FILES = _files(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    _MNIST,
    ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
    ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
    ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
    ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
    ending=".gz",
)
_FASHION = _idx_layout("FashionMNIST/raw")
_FASHION_FILES = _files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    _FASHION,
    ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
    ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
    ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
    ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    ending=".gz",
)
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_BINARY_BATCHES = tuple(f"{batch}.bin" for batch in _BATCHES)
_CIFAR10 = (
    Layout("cifar-binary", "cifar-10-batches-bin", _BINARY_BATCHES, ("test_batch.bin",), ("batches.meta.txt",)),
    Layout("cifar-python", "cifar-10-batches-py", _BATCHES, ("test_batch",), ("batches.meta",)),
)
_CIFAR10_FILES = _archive(_TORONTO, "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171)
_CIFAR100 = (
    Layout(
        "cifar-binary", "cifar-100-binary", ("train.bin",), ("test.bin",), ("fine_label_names.txt",), coarse_labels=True
    ),
    Layout("cifar-python", "cifar-100-python", ("train",), ("test",), ("meta",), coarse_labels=True),
)
_CIFAR100_FILES = _archive(_TORONTO, "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168_513_733)
_TINY_IMAGENET = Layout(
    "tiny-imagenet",
    "tiny-imagenet-200",
    train=("train",),
    test=("val/images", "val/val_annotations.txt"),
    names=("wnids.txt", "words.txt"),
)
_TINY_IMAGENET_FILES = _archive(_TINY_PAGE, "tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de", 248_100_043)

_KMNIST = _idx_layout("KMNIST/raw")
_KMNIST_FILES = _files(
    f"{_CODH}kmnist/",
    _KMNIST,
    ("bdb82020997e1d708af4cf47b453dcf7", 18_165_135),
    ("e144d726b3acfaa3e44228e80efcd344", 29_497),
    ("5c965bf0a639b31b8f53240b1b52f4d7", 3_041_136),
    ("7320c461ea6c1c855c0b718fb2a4b134", 5_120),
    ending=".gz",
)
_K49 = Layout(
    "npz",
    "K49",
    train=("k49-train-imgs.npz", "k49-train-labels.npz"),
    test=("k49-test-imgs.npz", "k49-test-labels.npz"),
)
_K49_FILES = _files(
    f"{_CODH}k49/",
    _K49,
    ("7ac088b20481cf51dcd01ceaab89d821", None),
    ("44a8e1b893f81e63ff38d73cad420f7a", None),
    ("d352e201d846ce6b94f42c990966f374", None),
    ("4da6f7a62e67a832d5eb1bd85c5ee448", None),
)
_EMNIST_FILES = _archive(
    "https://biometrics.nist.gov/cs_links/EMNIST/",
    "gzip.zip",
    "58c8d27c78d21e728a6bc7b3cc06412e",
    561_753_746,
    folder="EMNIST/raw/",
)
_SVHN = Layout("mat", "SVHN", train=("train_32x32.mat",), test=("test_32x32.mat",))
_SVHN_FILES = _files(
    _SVHN_PAGE,
    _SVHN,
    ("e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
    ("eb5a983be6a315427106f1b164d9cef3", 64_275_384),
)
_STL10 = Layout(
    "raw",
    "stl10_binary",
    train=("train_X.bin", "train_y.bin"),
    test=("test_X.bin", "test_y.bin"),
    names=("class_names.txt",),
    by_column=True,
    first_label=1,
)
_STL10_FILES = _archive(
    "http://ai.stanford.edu/~acoates/stl10/",
    "stl10_binary.tar.gz",
    "91f7769df0f17e558f3565bffb0c7dfb",
    2_640_397_119,
)
_CIFAIR10 = replace(_CIFAR10[1], folder="ciFAIR-10")
_CIFAIR10_FILES = _archive(_CIFAIR_RELEASE, "ciFAIR-10.zip", "ca08fd390f0839693d3fc45c4e49585f", None)
_CIFAIR100 = replace(_CIFAR100[1], folder="ciFAIR-100")
_CIFAIR100_FILES = _archive(_CIFAIR_RELEASE, "ciFAIR-100.zip", "ddc236ab4b12eeb8b20b952614861a33", None)

_GREY, _COLOUR, _SMALL = (1, 28, 28), (3, 32, 32), (60_000, 10_000)
_LECUN, _ZALANDO = "http://yann.lecun.com/exdb/mnist/", "https://github.com/zalandoresearch/fashion-mnist"
_CIFAR_PAGE, _CIFAIR_PAGE = f"{_TORONTO}cifar.html", "https://cvjena.github.io/cifair/"
_KMNIST_PAGE, _STL10_PAGE = "https://github.com/rois-codh/kmnist", "https://cs.stanford.edu/~acoates/stl10/"
_ALL = (
    PublicSet("digits", 10, (1, 8, 8), 1797, 0, class_names=_TEN_DIGITS),
    PublicSet("mnist", 10, _GREY, *_SMALL, (_MNIST,), _MNIST_FILES, _TEN_DIGITS, _LECUN),
    PublicSet("fashion-mnist", 10, _GREY, *_SMALL, (_FASHION,), _FASHION_FILES, _GARMENTS, _ZALANDO),
    PublicSet("cifar10", 10, _COLOUR, 50_000, 10_000, _CIFAR10, _CIFAR10_FILES, page=_CIFAR_PAGE),
    PublicSet("cifar100", 100, _COLOUR, 50_000, 10_000, _CIFAR100, _CIFAR100_FILES, page=_CIFAR_PAGE),
    PublicSet(
        "tiny-imagenet", 200, (3, 64, 64), 100_000, 10_000, (_TINY_IMAGENET,), _TINY_IMAGENET_FILES, page=_TINY_PAGE
    ),
    PublicSet("cifair10", 10, _COLOUR, 50_000, 10_000, (_CIFAIR10,), _CIFAIR10_FILES, page=_CIFAIR_PAGE),
    PublicSet("cifair100", 100, _COLOUR, 50_000, 10_000, (_CIFAIR100,), _CIFAIR100_FILES, page=_CIFAIR_PAGE),
    PublicSet("svhn", 10, _COLOUR, 73_257, 26_032, (_SVHN,), _SVHN_FILES, _TEN_DIGITS, _SVHN_PAGE),
    PublicSet("stl10", 10, (3, 96, 96), 5_000, 8_000, (_STL10,), _STL10_FILES, page=_STL10_PAGE),
    PublicSet("kmnist", 10, _GREY, *_SMALL, (_KMNIST,), _KMNIST_FILES, _KMNIST_NAMES, _KMNIST_PAGE),
    PublicSet("k49", 49, _GREY, 232_365, 38_547, (_K49,), _K49_FILES, _K49_NAMES, _KMNIST_PAGE),
    _emnist("balanced", digits + _BOTH_CASES, 112_800, 18_800),
    _emnist("byclass", digits + ascii_uppercase + ascii_lowercase, 697_932, 116_323),
    _emnist("bymerge", digits + _BOTH_CASES, 697_932, 116_323),
    _emnist("digits", digits, 240_000, 40_000),
    _emnist("letters", ascii_uppercase, 124_800, 20_800),
    _emnist("mnist", digits, *_SMALL),
)

PUBLIC_SETS: dict[str, PublicSet] = {public_set.name: public_set for public_set in _ALL}
"""The public data sets by name. `digits` is part of scikit-learn and has no files here."""
