"""Downloads from a local server with and without faults."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from rescnet.data import DataError
from rescnet.data.archives import RemoteFile
from rescnet.data.fetch import download

CONTENT = np.random.default_rng(3).bytes(1_000_003)


class Server(ThreadingHTTPServer):
    """Serves `content` under every path, with the faults set by its other attributes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.honours_range = True
        self.wrong_range = False
        self.stops_after: int | None = None
        self.status: int | None = None
        self.ranges: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.ranges.append(wanted)
        if server.status is not None:
            self.send_error(server.status)
            return
        start = 0
        if wanted and server.honours_range:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(server.content):
                self.send_error(416)
                return
            start = 0 if server.wrong_range else start
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        self.wfile.write(server.content[start : server.stops_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(timeout=5)


def remote(server: Server, content: bytes = CONTENT) -> RemoteFile:
    md5 = hashlib.md5(content).hexdigest()
    return RemoteFile(f"http://127.0.0.1:{server.server_port}/set.bin", md5, len(content), "folder/set.bin")


def test_whole_file(server, tmp_path):
    calls = []
    path = download(remote(server), tmp_path, lambda done, total: calls.append((done, total)))
    assert path == tmp_path / "folder" / "set.bin"
    assert path.read_bytes() == CONTENT
    assert [child.name for child in path.parent.iterdir()] == ["set.bin"]
    assert server.ranges == [None]
    assert calls[0] == (0, len(CONTENT)) and calls[-1] == (len(CONTENT), len(CONTENT))
    assert len(calls) > 3 and calls == sorted(calls)


def test_unknown_size(server, tmp_path):
    """The server names the size; a part is downloaded again from its start, and only the MD5 accepts the file."""
    unknown, calls = replace(remote(server), size=None), []
    server.stops_after = 400_000
    with pytest.raises(DataError, match=r"stopped after 400,000 of 1,000,003 bytes"):
        download(unknown, tmp_path)
    server.stops_after = None
    path = download(unknown, tmp_path, lambda done, total: calls.append((done, total)))
    assert server.ranges == [None, None] and path.read_bytes() == CONTENT
    assert calls[0] == (0, len(CONTENT)) and calls[-1] == (len(CONTENT), len(CONTENT))
    server.content = b"<html>login</html>"
    with pytest.raises(DataError, match="must have the published MD5"):
        download(unknown, tmp_path)


def test_resume(server, tmp_path):
    server.stops_after = 400_000
    with pytest.raises(DataError, match=r"stopped after 400,000 of 1,000,003 bytes\. Try again"):
        download(remote(server), tmp_path)
    assert not (tmp_path / "folder" / "set.bin").exists()
    server.stops_after = None
    calls = []
    path = download(remote(server), tmp_path, lambda done, total: calls.append(done))
    assert server.ranges == [None, "bytes=400000-"]
    assert calls[0] == 400_000
    assert path.read_bytes() == CONTENT


def write_part(tmp_path, content: bytes) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "set.bin.part").write_bytes(content)


@pytest.mark.parametrize("fault", [{"honours_range": False}, {"wrong_range": True}])
def test_server_ignores_range(server, tmp_path, fault):
    vars(server).update(fault)
    write_part(tmp_path, CONTENT[:1234])
    assert download(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1234-"]


def test_complete_part_needs_no_connection(server, tmp_path):
    write_part(tmp_path, CONTENT)
    assert download(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == []


def test_too_long_part_is_removed(server, tmp_path):
    write_part(tmp_path, CONTENT + b"x")
    assert download(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None]


def test_wrong_checksum(server, tmp_path):
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(DataError, match=r"must have the published MD5 \w{32}, got \w{32}\. The download was removed"):
        download(remote(server), tmp_path)
    assert list((tmp_path / "folder").iterdir()) == []


def test_damaged_part_is_removed(server, tmp_path):
    write_part(tmp_path, b"?" * 1000)
    with pytest.raises(DataError, match="The download was removed"):
        download(remote(server), tmp_path)
    assert download(remote(server), tmp_path).read_bytes() == CONTENT


def test_server_sends_too_much(server, tmp_path):
    with pytest.raises(DataError, match="must have the published 1,000 bytes, got more"):
        download(remote(server, CONTENT[:1000]), tmp_path)
    assert list((tmp_path / "folder").iterdir()) == []


def test_server_has_a_shorter_file(server, tmp_path):
    write_part(tmp_path, CONTENT[:1000])
    server.content = CONTENT[:500]
    with pytest.raises(DataError, match="cannot be downloaded"):
        download(remote(server), tmp_path)
    assert list((tmp_path / "folder").iterdir()) == []  # else every try would request the same range
    server.content = CONTENT
    assert download(remote(server), tmp_path).read_bytes() == CONTENT


def test_not_found(server, tmp_path):
    server.status = 404
    with pytest.raises(
        DataError, match=rf"set\.bin cannot be downloaded \(Not Found\)\. Get set\.bin .* put it in {tmp_path}"
    ):
        download(remote(server), tmp_path)


def test_no_server(tmp_path, server):
    nowhere = remote(server)
    server.shutdown()
    server.server_close()
    write_part(tmp_path, CONTENT[:1000])
    with pytest.raises(DataError, match=r"set\.bin cannot be downloaded \(.*refused.*\)\. Get set\.bin .* try again"):
        download(nowhere, tmp_path)
    assert (tmp_path / "folder" / "set.bin.part").read_bytes() == CONTENT[:1000]  # kept for resuming
