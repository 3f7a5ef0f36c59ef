"""Downloads from a local server with and without faults."""

from __future__ import annotations

import errno
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from rescnet import DataError
from rescnet.data import fetch
from rescnet.data.archives import RemoteFile
from rescnet.data.fetch import download

CONTENT = np.random.default_rng(3).bytes(1_000_003)


class Server(ThreadingHTTPServer):
    """Serves `content` under every path, with the faults set by its other attributes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.stops_after: list[int] = []  # bytes, of the first connections
        self.length: str | None = None
        self.status: int | None = None
        self.connections = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.connections += 1
        if server.status is not None:
            self.send_error(server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", server.length or str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content[: server.stops_after.pop(0) if server.stops_after else None])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
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
    assert server.connections == 1
    assert calls[0][0] < len(CONTENT) and calls[-1] == (len(CONTENT), len(CONTENT))
    assert len(calls) > 3 and calls == sorted(calls)


def test_unknown_size(server, tmp_path):
    """The server names the size, and only the MD5 accepts the file."""
    unknown, calls = replace(remote(server), size=None), []
    download(unknown, tmp_path, lambda done, total: calls.append((done, total)))
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    server.content = b"<html>login</html>"
    with pytest.raises(DataError, match="must have the published MD5"):
        download(unknown, tmp_path)


def test_size_that_is_no_number(server, tmp_path):
    server.length = "many"
    assert download(replace(remote(server), size=None), tmp_path).read_bytes() == CONTENT
    server.length = "-7"
    assert download(remote(server), tmp_path).read_bytes() == CONTENT


def test_download_without_an_end(server, tmp_path, monkeypatch):
    """A server that names no size, and sends more than any data set has."""
    monkeypatch.setattr(fetch, "LARGEST", 500_000)
    server.length = "many"
    with pytest.raises(DataError, match="must have at most 500,000 bytes, got more"):
        download(replace(remote(server), size=None), tmp_path)
    assert list((tmp_path / "folder").iterdir()) == []


def test_connections_that_end_early(server, tmp_path):
    server.stops_after = [400_000, 0]
    assert download(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.connections == 3
    server.stops_after = [400_000, 0, 500_000]
    message = r"cannot be downloaded \(the connection ended after 500,000 of 1,000,003 bytes\)\. Try again, or get"
    with pytest.raises(DataError, match=message):
        download(replace(remote(server), target="folder/other.bin"), tmp_path)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["set.bin"]


def test_planted_links_are_not_followed(server, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("set.bin", "set.bin.part"):
        (tmp_path / "folder" / name).symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("mine")
    path = download(remote(server), tmp_path)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not path.is_symlink() and path.read_bytes() == CONTENT


def test_wrong_checksum(server, tmp_path):
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(DataError, match=r"must have the published MD5 \w{32}, got \w{32}\. Download it again"):
        download(remote(server), tmp_path)
    assert list((tmp_path / "folder").iterdir()) == []


def test_server_sends_too_much(server, tmp_path):
    with pytest.raises(DataError, match="must have at most 1,000 bytes, got more"):
        download(remote(server, CONTENT[:1000]), tmp_path)
    assert list((tmp_path / "folder").iterdir()) == []


def test_not_found(server, tmp_path):
    server.status = 404
    message = rf"set\.bin cannot be downloaded \(Not Found\)\. Try again, or get set\.bin .* put it in {tmp_path}"
    with pytest.raises(DataError, match=message):
        download(remote(server), tmp_path)
    assert server.connections == 1


def test_no_server(tmp_path, server):
    nowhere = remote(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=r"set\.bin cannot be downloaded \(.*refused.*\)\. Try again, or get set\.bin"):
        download(nowhere, tmp_path)


def test_full_disk(tmp_path, server, monkeypatch):
    """It is no fault of the server, so there is no other try."""
    monkeypatch.setattr(fetch, "_receive", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        download(remote(server), tmp_path)
