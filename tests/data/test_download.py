"""Downloads from a server on this machine: checksum, resume, and errors."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from driftcal import data
from driftcal.data.published.download import DOWNLOADS, Download, fetch_archive
from driftcal.errors import DataError, UnknownName


def tar(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


PAYLOAD = tar([("data/a.bin", bytes(range(256)) * 900), ("data/b.txt", b"hello")])


class Server:
    """Serves one payload; `cut` is the largest number of bytes of a response, `ranges` whether Range is supported."""

    def __init__(self):
        self.payload, self.cut, self.ranges, self.requests = PAYLOAD, None, True, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                requested = self.headers.get("Range")
                outer.requests.append(requested)
                start = int(requested[6:-1]) if requested and outer.ranges else 0
                if start >= len(outer.payload):
                    self.send_error(416)
                    return
                body = outer.payload[start:]
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if outer.cut is None else body[: outer.cut])

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def download(self):
        port = self.http.server_address[1]
        checksum = f"md5:{hashlib.md5(PAYLOAD).hexdigest()}"
        return Download(f"http://127.0.0.1:{port}/files/set.tar?x=1", checksum, len(PAYLOAD))


@pytest.fixture
def server():
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


def test_fetch_checks_unpacks_and_does_not_repeat(server, tmp_path):
    steps = []
    folder = fetch_archive(server.download, tmp_path / "new", progress=lambda done, total: steps.append((done, total)))
    assert (folder / "data" / "b.txt").read_bytes() == b"hello"
    assert steps[-1] == (len(PAYLOAD), len(PAYLOAD))
    assert sorted(item.name for item in folder.iterdir()) == [".set.tar.unpacked", "data"]
    fetch_archive(server.download, folder)
    assert server.requests == [None], "a finished download is not repeated"


def test_an_interrupted_download_is_resumed(server, tmp_path):
    server.cut = 100_000
    with pytest.raises(DataError, match=r"broke off after 100000 of .* the download continues there"):
        fetch_archive(server.download, tmp_path)
    assert (tmp_path / "set.tar.part").stat().st_size == 100_000
    server.cut = None
    fetch_archive(server.download, tmp_path)
    assert server.requests == [None, "bytes=100000-"]
    assert (tmp_path / "data" / "a.bin").read_bytes() == bytes(range(256)) * 900


def test_a_server_without_ranges_starts_again(server, tmp_path):
    (tmp_path / "set.tar.part").write_bytes(b"x" * 5000)
    server.ranges = False
    fetch_archive(server.download, tmp_path)
    assert (tmp_path / "data" / "b.txt").read_bytes() == b"hello"


def test_a_complete_part_needs_no_network(server, tmp_path):
    (tmp_path / "set.tar.part").write_bytes(PAYLOAD)
    fetch_archive(server.download, tmp_path)
    (tmp_path / "byhand").mkdir()
    (tmp_path / "byhand" / "set.tar").write_bytes(PAYLOAD)
    fetch_archive(server.download, tmp_path / "byhand")
    assert server.requests == []


def test_a_wrong_checksum_removes_the_file(server, tmp_path):
    server.payload = PAYLOAD[:-1] + b"!"
    with pytest.raises(DataError, match=r"must have the checksum md5:.*the downloaded file has md5:.*removed"):
        fetch_archive(server.download, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_too_long_is_removed(server, tmp_path):
    (tmp_path / "set.tar.part").write_bytes(PAYLOAD + b"more")
    with pytest.raises(DataError, match="answered 416"):
        fetch_archive(server.download, tmp_path)
    fetch_archive(server.download, tmp_path)


def test_the_error_without_network_says_what_to_do(server, tmp_path):
    download = server.download
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(
        DataError, match=r"cannot be reached .*needs a network; without one, fetch set\.tar elsewhere and put it into"
    ):
        fetch_archive(download, tmp_path)


def test_archives_cannot_write_outside(server, tmp_path):
    server.payload = tar([("../outside.txt", b"x")])
    bad = Download(server.download.url, f"md5:{hashlib.md5(server.payload).hexdigest()}", len(server.payload))
    with pytest.raises(DataError, match="not a plain tar archive"):
        fetch_archive(bad, tmp_path / "inside")
    assert not (tmp_path / "outside.txt").exists()


def test_unknown_and_manual_data_sets_are_named(tmp_path):
    with pytest.raises(UnknownName, match="data set to fetch 'cifar'"):
        data.fetch("cifar", tmp_path)
    with pytest.raises(DataError, match=r"by hand from https://objectnet.dev"):
        data.fetch("objectnet", tmp_path)
    assert {download.file for download in DOWNLOADS.values()} >= {
        "CIFAR-10-C.tar",
        "cifar-10-binary.tar.gz",
        "blur.tar",
    }
