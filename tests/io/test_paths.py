"""Paths and URLs behave alike."""

import fsspec
import pytest

from driftcal.io.atomic import write_atomic
from driftcal.io.paths import as_path, list_folder, remove_folder


@pytest.fixture
def url():
    yield "memory://bucket/run"
    memory = fsspec.filesystem("memory")
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


def test_a_failed_remote_write_leaves_no_file(url):
    def blocks():
        yield b"first"
        raise OSError("the connection is lost")

    path = as_path(f"{url}/x.bin")
    with pytest.raises(OSError, match="the connection is lost"):
        write_atomic(path, blocks())
    assert not path.exists()


@pytest.mark.parametrize("where", ["local", "remote"])
def test_folders_are_listed_and_removed(tmp_path, url, where):
    folder = as_path(tmp_path / "run" if where == "local" else url)
    assert list_folder(folder) == []
    for name in ("b.bin", "a.bin", ".hidden.bin", "c.txt"):
        write_atomic(folder / name, b"x")
    assert [path.name for path in list_folder(folder)] == ["a.bin", "b.bin", "c.txt"]
    assert [path.name for path in list_folder(folder, ".bin")] == ["a.bin", "b.bin"]
    remove_folder(folder)
    assert list_folder(folder) == []
