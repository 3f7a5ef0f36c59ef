"""Pickles are programs; none of them is executed."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from data.official_files import python2_pickle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescnet import DataError
from rescnet.data.cifar_pickle import list_of, pixels_of, read_values

PIXELS = np.arange(200, dtype=np.uint8).reshape(2, 100)


class Runs:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data_batch_1"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_is_called(path, protocol):
    trace = path.with_name("trace")
    for call in (Runs(os.mkdir, str(trace)), Runs(eval, f"__import__('os').mkdir({str(trace)!r})")):
        path.write_bytes(pickle.dumps({"data": call, "labels": [1, 2]}, protocol=protocol))
        assert list_of(path, read_values(path), "labels") == [1, 2]
        with pytest.raises(DataError, match="data_batch_1 must have data of shape"):
            pixels_of(path, read_values(path), (2, 100))
    assert not trace.exists()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 999, 1000, 1001, 2000, 2500])
def test_python3_pickles(path, count, protocol, order):
    """Lists are pickled in parts of a thousand."""
    batch = {
        "labels": list(range(count)),
        "label_names": [f"class {number}" for number in range(10)],
        "data": np.asarray(PIXELS, order=order),
        "filenames": [f"{number}.png" for number in range(count)],
    }
    for reverse in (False, True):
        path.write_bytes(pickle.dumps(dict(sorted(batch.items(), reverse=reverse)), protocol=protocol))
        values = read_values(path)
        assert list_of(path, values, "labels") == batch["labels"]
        assert list_of(path, values, "label_names") == batch["label_names"]
        np.testing.assert_array_equal(pixels_of(path, values, (2, 100)), PIXELS)


def test_only_bytes_of_the_right_number(path):
    for array in (np.zeros((2, 100), np.int64), PIXELS[:1]):
        path.write_bytes(python2_pickle({"data": array}))
        with pytest.raises(DataError, match=r"must have data of shape \(2, 100\), got other data"):
            pixels_of(path, read_values(path), (2, 100))
    path.write_bytes(pickle.dumps({"data": "\N{SNOWMAN}" * 200}))
    with pytest.raises(DataError, match=r"must have data of shape \(2, 100\), got other data"):
        pixels_of(path, read_values(path), (2, 100))


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02", b"\x80\x02X\xff\xff\xff\x7fabc."])
def test_other_content(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match="data_batch_1 is damaged or not a CIFAR file"):
        read_values(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_damaged_files_raise_only_data_errors(path, position, value, cut):
    content = bytearray(python2_pickle({"data": PIXELS, "labels": [1, 2], "x": "abc"}))
    content[position % len(content)] = value
    path.write_bytes(bytes(content[: len(content) - cut % 40]))
    try:
        values = read_values(path)
        list_of(path, values, "labels")
        pixels_of(path, values, (2, 100))
    except DataError as error:
        assert "data_batch_1" in str(error)
