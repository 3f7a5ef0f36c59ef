from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from rescnet.data import DataError, fetch
from rescnet.data.fetch import unpack


def make(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, content in files.items():
                packed.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz") as tar:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def root(tmp_path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_only_the_folder_is_made(root, tmp_path, name):
    archive = make(tmp_path / name, {"set/a.bin": b"a", "set/sub/b.bin": b"b", "other/c.bin": b"c"})
    unpack(archive, root / "set")
    assert (root / "set" / "a.bin").read_bytes() == b"a"
    assert (root / "set" / "sub" / "b.bin").read_bytes() == b"b"
    assert [path.name for path in root.iterdir()] == ["set"]


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
@pytest.mark.parametrize("member", ["../evil", "set/../../evil", "/evil", "..\\evil", "C:\\evil"])
def test_members_outside_the_folder(root, tmp_path, name, member):
    archive = make(tmp_path / name, {"set/a.bin": b"a", member: b"evil"})
    with pytest.raises(DataError, match="lies outside its folder"):
        unpack(archive, root / "set")
    assert list(root.iterdir()) == []
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("target", ["../..", "/tmp"])
def test_links(root, tmp_path, target):
    archive = make(tmp_path / "a.tar.gz", {"set/out/evil": b"evil"}, links={"set/out": target})
    with pytest.raises(DataError, match=r"a\.tar\.gz cannot be unpacked"):
        unpack(archive, root / "set")
    assert list(root.iterdir()) == []
    assert not list(tmp_path.rglob("*evil*"))


def test_links_inside_the_folder(root, tmp_path):
    archive = make(tmp_path / "a.tar.gz", {"set/a.bin": b"a"}, links={"set/b.bin": "a.bin"})
    with pytest.raises(DataError, match=r"b\.bin is neither a file nor a folder"):
        unpack(archive, root / "set")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
@pytest.mark.parametrize("keep", [0, 40, 0.5, 0.9])
def test_damaged_archive(root, tmp_path, name, keep):
    noise = bytes((number * number) % 251 for number in range(60_000))
    archive = make(tmp_path / name, {"set/a.bin": noise})
    content = archive.read_bytes()
    archive.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(DataError, match=r"a\.(tar\.gz|zip) cannot be unpacked"):
        unpack(archive, root / "set")
    assert list(root.iterdir()) == []


def test_flipped_bits(root, tmp_path):
    archive = make(tmp_path / "a.zip", {"set/a.bin": b"some content"})
    archive.write_bytes(archive.read_bytes().replace(b"some", b"same"))
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(archive, root / "set")


def test_other_archive(root, tmp_path):
    archive = make(tmp_path / "a.zip", {"cats/1.png": b"x"})
    with pytest.raises(DataError, match="has no folder set"):
        unpack(archive, root / "set")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_too_many_bytes(root, tmp_path, monkeypatch, name):
    """A bomb unpacks to a multiple of its size; nothing of it is left."""
    archive = make(tmp_path / name, {"set/a.bin": bytes(60_000), "set/b.bin": bytes(60_000)})
    monkeypatch.setattr(fetch, "LARGEST", 100_000)
    with pytest.raises(DataError, match=r"must unpack to at most 100,000 bytes, got more"):
        unpack(archive, root / "set")
    assert list(root.iterdir()) == []
    monkeypatch.setattr(fetch, "LARGEST", 120_000)
    unpack(archive, root / "set")


def test_permissions_of_the_archive_are_not_taken(root, tmp_path):
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("set/a.bin")
        member.size, member.mode, member.uid = 1, 0o6777, 12345
        tar.addfile(member, io.BytesIO(b"a"))
    unpack(archive, root / "set")
    found = (root / "set" / "a.bin").stat()
    assert not found.st_mode & 0o7111
    assert found.st_uid == os.getuid()
