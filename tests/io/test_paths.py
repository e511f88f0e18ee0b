"""Paths and URLs behave alike."""

import fsspec
import pytest
from fsspec.registry import known_implementations

import driftcal
from driftcal.errors import ArtefactError, DataError, InputError, MissingExtra, ModelError
from driftcal.io.atomic import write_atomic
from driftcal.io.paths import as_path, list_folder, remove_folder
from driftcal.pipeline.describe_file import describe
from driftcal.pipeline.evaluating.results import Results


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


def test_paths_that_cannot_be_looked_up_are_refused(tmp_path):
    for text in ("a" * 256, f"{tmp_path}/{'é' * 200}/a.npz", '{"logits": [' + "1, " * 200):
        for open_path in (driftcal.open_source, lambda path: write_atomic(path, b"x")):
            with pytest.raises(
                InputError, match=r"names of at most 255 bytes; .* has one of .*not the content of a file"
            ):
                open_path(text)
        for open_path in (driftcal.load, Results.load, describe):
            with pytest.raises(ArtefactError, match="there is no such file"):
                open_path(text)
        with pytest.raises(ModelError, match="there is no model file"):
            driftcal.open_model(text)
    assert as_path("~nobody_here/x").name == "x"
    with pytest.raises(DataError, match=r"there is no file '~nobody_here/x\.npz'"):
        driftcal.open_source("~nobody_here/x.npz")
    with pytest.raises(ModelError, match=r"there is no model file '~nobody_here/x\.onnx'"):
        driftcal.open_model("~nobody_here/x.onnx")


def test_urls_that_cannot_be_opened_are_refused(monkeypatch):
    with pytest.raises(
        InputError, match=r"file system that can be reached; 'nowhere://a/b\.npz' does not: .*Check its scheme"
    ):
        driftcal.open_source("nowhere://a/b.npz")
    with pytest.raises(InputError, match=r"can be reached; 'ftp://localhost:1/a\.npz' does not: "):
        driftcal.open_source("ftp://localhost:1/a.npz")
    monkeypatch.setitem(
        known_implementations, "missing", {"class": "no_package.FileSystem", "err": "Install no_package"}
    )
    with pytest.raises(
        MissingExtra, match=r"'missing://a/b\.npz' needs a package that is not installed: Install no_package"
    ):
        driftcal.open_source("missing://a/b.npz")
