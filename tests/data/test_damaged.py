"""Damaged and forged data files: each is one clean error, or is read as before."""

from __future__ import annotations

import io
import os
import struct
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from data.official_files import plain_image

from rescnet import DataError
from rescnet.data import load
from rescnet.data.cifar_pickle import read_values

IMAGES = np.random.default_rng(3).integers(0, 256, (4, 4, 4), np.uint8)


def content(dataset):
    return dataset.train.images.tobytes(), dataset.train.labels.tobytes(), dataset.class_names


@pytest.mark.slow
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bits_of_an_npz_file(save, tmp_path):
    """Every 7th bit: all bits of a byte, and every field of the archive, have their turn."""
    file = tmp_path / "own.npz"
    save(file, x=IMAGES, y=np.array([0, 1, 0, 1], np.uint8))
    good, wanted = file.read_bytes(), content(load(file))
    refused, bits = 0, range(0, 8 * len(good), 7)
    for bit in bits:
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bad)
        try:
            found = content(load(file))
        except DataError as error:
            refused += 1
            assert "\n" not in str(error) and str(file) in str(error)
        else:
            assert found == wanted, bit
    assert refused > 0.6 * len(bits)


def test_checksum_at_the_end_of_an_array(tmp_path):
    """The last byte of a stored array is altered: NumPy stops reading before the checksum is compared."""
    file = tmp_path / "own.npz"
    np.savez(file, x=IMAGES, y=np.arange(4))
    data = file.read_bytes()
    last = IMAGES.tobytes()[-8:]
    file.write_bytes(data.replace(last, last[:-1] + bytes([last[-1] ^ 1]), 1))
    with pytest.raises(DataError, match=r"own\.npz cannot be read as a \.npz file \(Bad CRC-32"):
        load(file)


def test_two_arrays_of_one_name(tmp_path):
    file = tmp_path / "own.npz"
    np.savez(file, x=IMAGES, y=np.arange(4))
    with zipfile.ZipFile(file, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("y.npy", archive.read("y.npy"))
    with pytest.raises(DataError, match="array names must differ"):
        load(file)


def test_a_huge_size_is_refused_before_memory_is_allocated(tmp_path):
    """The archive and the array's header agree on 2 GiB, which the file cannot hold."""
    header = io.BytesIO()
    facts = {"descr": "|u1", "fortran_order": False, "shape": (1, 2**16, 2**15)}
    np.lib.format.write_array_header_1_0(header, facts)
    file, stored = tmp_path / "own.npz", header.getvalue() + bytes(100)
    np.savez(file, y=np.arange(1))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("x.npy", stored)
    here, claimed = struct.pack("<I", len(stored)), struct.pack("<I", len(stored) - 100 + 2**31)
    file.write_bytes(file.read_bytes().replace(here + here, here + claimed))
    with pytest.raises(DataError, match=r"own\.npz: x of shape .* must have 2,147,483,648 bytes, got"):
        load(file)


@pytest.mark.parametrize("code", [0x110000, 0xD800])
def test_text_that_is_no_unicode(code, tmp_path):
    file = tmp_path / "own.npz"
    names = np.array([code, 98], np.uint32).view("<U1")
    for arrays in ({"y": np.arange(4) % 2, "class_names": names}, {"y": np.concatenate([names, names])}):
        np.savez(file, x=IMAGES, **arrays)
        with pytest.raises(DataError, match=r"own\.npz: (y|class_names) must be valid text"):
            load(file)


def write_folder(folder: Path, name: str = "1.png") -> Path:
    for kind, colour in (("a", 10), ("b", 200)):
        (folder / kind).mkdir(parents=True)
        plain_image(colour, (8, 8)).save(folder / kind / name)
    return folder


def test_checksum_of_a_png_file(tmp_path):
    file = write_folder(tmp_path / "own") / "a" / "1.png"
    data = bytearray(file.read_bytes())
    data[data.index(b"IDAT") + 4 + struct.unpack(">I", data[data.index(b"IDAT") - 4 : data.index(b"IDAT")])[0]] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image \(.*checksum"):
        load(tmp_path / "own", strict=True)


def test_a_pipe_is_not_opened(tmp_path):
    folder = write_folder(tmp_path / "own")
    os.mkfifo(folder / "a" / "2.png")
    os.mkfifo(tmp_path / "own.npz")
    os.mkfifo(tmp_path / "cifar-10-binary.tar.gz")
    found = []

    def read():
        for source in (folder, tmp_path / "own.npz", "cifar10"):
            with pytest.raises(DataError, match="must be a regular file, got a pipe or a device") as error:
                load(source, tmp_path, download=False, strict=True)
            found.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert len(found) == 3


@pytest.mark.parametrize(
    "steps",
    [b"}r" + struct.pack("<I", 2**31) + b".", b"})" + b"\x85" * 3_000_000 + b"K\x01s."],
    ids=["memory", "stack"],
)
def test_a_pickle_that_pythons_unpickler_does_not_survive(tmp_path, steps):
    """It would fill the memory by the index of a memo, or the stack by a tuple in a tuple in a tuple …"""
    file = tmp_path / "data_batch_1"
    file.write_bytes(b"\x80\x02" + steps)
    assert read_values(file) in ([], [1])
