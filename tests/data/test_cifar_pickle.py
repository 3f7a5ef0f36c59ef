"""Pickles are programs; none of them is executed."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from data.official_files import python2_pickle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescnet.data import DataError
from rescnet.data.cifar_pickle import read_cifar_pickle


class Runs:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("function", "name"),
    [(os.mkdir, r"\w+\.mkdir"), (eval, r"(builtins|__builtin__)\.eval"), (getattr, r"\w+\.getattr")],
)
def test_calls_are_refused(tmp_path, protocol, function, name):
    trace = tmp_path / "trace"
    arguments = {
        os.mkdir: (str(trace),),
        eval: (f"__import__('os').mkdir({str(trace)!r})",),
        getattr: ("text", "join"),
    }
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": Runs(function, *arguments[function])}, protocol=protocol))
    with pytest.raises(DataError, match=rf"data_batch_1 asks to run {name}, which no CIFAR file needs"):
        read_cifar_pickle(path)
    assert not trace.exists()


def test_other_names_are_refused(tmp_path):
    path = tmp_path / "batch"
    for module, name in [
        ("numpy", "load"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy._core.multiarray", "scalar"),
        ("_codecs", "lookup"),
        ("builtins", "exec"),
        ("os", "system"),
        ("copyreg", "_reconstructor"),
        ("rescnet.data.cifar_pickle", "read_cifar_pickle"),
    ]:
        path.write_bytes(b"\x80\x02c" + f"{module}\n{name}\n".encode() + b".")
        with pytest.raises(DataError, match="asks to run"):
            read_cifar_pickle(path)


def test_only_uint8_arrays(tmp_path):
    """An object array made from bytes would hold forged pointers."""
    path = tmp_path / "batch"
    path.write_bytes(python2_pickle({"data": np.zeros(2, np.int64)}))
    with pytest.raises(DataError, match="arrays must be uint8"):
        read_cifar_pickle(path)
    path.write_bytes(python2_pickle({"data": np.zeros(4, np.uint8)}).replace(b"U\x02u1", b"U\x02O8"))
    with pytest.raises(DataError, match="arrays must be uint8"):
        read_cifar_pickle(path)


def test_only_latin1(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}U\x04datac_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86Rs.")
    with pytest.raises(DataError, match="must be encoded by latin1, got 'rot13'"):
        read_cifar_pickle(path)


def test_stand_ins_cannot_be_altered(tmp_path):
    """BUILD sets attributes of the object on the stack; on a bound method they have no effect."""
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02cnumpy\ndtype\nN}U\x08__code__K\x01s\x86b.")
    with pytest.raises(DataError, match="is damaged or not a CIFAR file"):
        read_cifar_pickle(path)
    path.write_bytes(python2_pickle({"data": np.arange(4, dtype=np.uint8)}))
    np.testing.assert_array_equal(read_cifar_pickle(path)["data"], [0, 1, 2, 3])


def test_fortran_order(tmp_path):
    path = tmp_path / "batch"
    array = np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3))
    path.write_bytes(pickle.dumps({"data": array}, protocol=2))
    np.testing.assert_array_equal(read_cifar_pickle(path)["data"], [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02", pickle.dumps([1, 2]), pickle.dumps({1: 2})])
def test_other_content(tmp_path, content):
    path = tmp_path / "batch"
    path.write_bytes(content)
    with pytest.raises(DataError, match="batch is damaged or not a CIFAR file"):
        read_cifar_pickle(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_damaged_files_raise_only_data_errors(tmp_path, position, value, cut):
    content = bytearray(python2_pickle({"data": np.zeros((2, 6), np.uint8), "labels": [1, 2], "x": "abc"}))
    content[position % len(content)] = value
    damaged = bytes(content[: len(content) - cut % 40])
    path = tmp_path / "batch"
    path.write_bytes(damaged)
    try:
        content_read = read_cifar_pickle(path)
    except DataError as error:
        assert "batch" in str(error)
    else:
        assert isinstance(content_read, dict)
