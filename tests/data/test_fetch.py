"""Public data sets from a download or from an archive on disk, without a network."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from data.official_files import cifar_record, write_idx, write_mnist

from rescnet import DataError
from rescnet.data import default_root, describe, fetch, load
from rescnet.data.archives import PUBLIC_SETS
from rescnet.data.fetch import unpack

IMAGE = np.arange(3072).reshape(32, 32, 3) % 256


@pytest.fixture
def offline(monkeypatch):
    """Let every download fail the test."""

    def refuse(*_: object) -> None:
        pytest.fail("opened a connection")

    monkeypatch.setattr(fetch, "download", refuse)


def tar_archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def cifar_archive(shrink) -> bytes:
    """Return a cifar-10-binary.tar.gz with one image per file; the table of archives gets its checksum."""
    files = {f"data_batch_{number}.bin": cifar_record((number,), IMAGE) for number in range(1, 6)}
    files |= {"test_batch.bin": cifar_record((0,), IMAGE), "batches.meta.txt": b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"}
    content = tar_archive({f"cifar-10-batches-bin/{name}": content for name, content in files.items()})
    published = dataclasses.replace(
        PUBLIC_SETS["cifar10"].downloads[0], md5=hashlib.md5(content).hexdigest(), size=len(content)
    )
    shrink("cifar10", n_train=5, n_test=1, downloads=(published,))
    return content


def test_download_and_unpack(cifar_archive, tmp_path, monkeypatch):
    def deliver(remote, root, progress):
        (root / remote.target).write_bytes(cifar_archive)
        progress(remote.size, remote.size)
        return root / remote.target

    monkeypatch.setattr(fetch, "download", deliver)
    calls = []
    dataset = load("cifar10", tmp_path, progress=lambda *numbers: calls.append(numbers))
    np.testing.assert_array_equal(dataset.train.labels, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(dataset.train.images[0], IMAGE.transpose(2, 0, 1))
    assert calls == [(len(cifar_archive),) * 2]
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-batches-bin"]  # the archive is removed


def test_archive_of_the_user(cifar_archive, tmp_path, offline):
    archive = tmp_path / "cifar-10-binary.tar.gz"
    archive.write_bytes(cifar_archive)
    assert len(load("cifar10", tmp_path, download=False).train) == 5
    assert archive.exists()
    archive.unlink()
    assert len(load("cifar10", tmp_path, download=False).train) == 5


def test_wrong_archive_of_the_user(cifar_archive, tmp_path, offline):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive + b"x")
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz must have the published MD5 \w+, got"):
        load("cifar10", tmp_path)
    assert not (tmp_path / "cifar-10-batches-bin").exists()
    assert (tmp_path / "cifar-10-binary.tar.gz").exists()


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
@pytest.mark.parametrize("other", ["other/c.bin", "../evil", "set/../../evil", "/evil"])
def test_only_the_folder_of_an_archive_is_made(tmp_path, name, other):
    root = tmp_path / "root"
    members = {"set/a.bin": b"a", "set/sub/b.bin": b"b", other: b"c"}
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as packed:
            for member, content in members.items():
                packed.writestr(member, content)
    else:
        (tmp_path / name).write_bytes(tar_archive(members))
    unpack(tmp_path / name, root / "set")
    assert (root / "set" / "sub" / "b.bin").read_bytes() == b"b"
    assert [path.name for path in root.iterdir()] == ["set"]
    assert not (tmp_path / "evil").exists() and not Path("/evil").exists()


def test_incomplete_folder(tmp_path, offline):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"cifar-10-batches-bin lacks data_batch_1\.bin, .*\. Complete the folder"):
        load("cifar10", tmp_path)


def test_only_missing_files(shrink, tmp_path, monkeypatch):
    mnist = shrink("mnist", n_train=2, n_test=1)
    raw = tmp_path / "MNIST" / "raw"
    write_mnist(raw, (np.zeros((2, 28, 28)), [0, 1]), (np.zeros((1, 28, 28)), [2]))
    (raw / "train-labels-idx1-ubyte.gz").rename(tmp_path / "labels")
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    write_idx(raw / "t10k-images-idx3-ubyte", np.ones((1, 28, 28)))
    (raw / "t10k-images-idx3-ubyte.gz").unlink()
    wanted = []

    def deliver(remote, root, progress):
        wanted.append(Path(remote.target).name)
        write_idx(root / remote.target, np.array([5, 6] if "train" in remote.target else [7]))
        progress(remote.size, remote.size)

    monkeypatch.setattr(fetch, "download", deliver)
    calls = []
    dataset = load("mnist", tmp_path, progress=lambda *numbers: calls.append(numbers))
    assert wanted == ["train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    np.testing.assert_array_equal(dataset.train.labels, [5, 6])
    first, second = mnist.downloads[1].size, mnist.downloads[3].size
    assert calls == [(first, first + second), (first + second, first + second)]


def test_download_not_allowed(tmp_path, offline):
    with pytest.raises(DataError, match=r"mnist is not in .* Put train-images-idx3-ubyte\.gz, .* in .*MNIST.raw, or"):
        load("mnist", tmp_path, download=False)


def test_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("RESCNET_DATA", str(tmp_path / "here"))
    assert default_root() == tmp_path / "here"
    assert describe()[1].folder == tmp_path / "here" / "MNIST" / "raw"
    monkeypatch.delenv("RESCNET_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == tmp_path / "datasets"


def test_table_of_archives():
    for public_set in PUBLIC_SETS.values():
        for remote in public_set.downloads:
            assert len(bytes.fromhex(remote.md5)) == 16
            assert remote.url.endswith("/" + Path(remote.target).name)
            assert remote.is_archive or str(Path(remote.target).parent) == public_set.layouts[0].folder
    remotes = {remote for public_set in PUBLIC_SETS.values() for remote in public_set.downloads}  # EMNIST shares one
    assert len({remote.md5 for remote in remotes}) == len(remotes) == 25
