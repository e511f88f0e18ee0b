"""Files are complete or absent, and only our own temporary files are removed."""

import os

import pytest

from driftcal.errors import InputError
from driftcal.io.atomic import remove_leftovers, write_atomic


def failing_blocks():
    yield b"first"
    raise OSError("the disk is full")


def test_a_failed_write_keeps_the_old_file(tmp_path):
    write_atomic(tmp_path / "new" / "x.bin", b"old")
    with pytest.raises(OSError, match="the disk is full"):
        write_atomic(tmp_path / "new" / "x.bin", failing_blocks())
    assert (tmp_path / "new" / "x.bin").read_bytes() == b"old"
    assert os.listdir(tmp_path / "new") == ["x.bin"]


def test_a_folder_is_no_output(tmp_path):
    with pytest.raises(InputError, match="output must be a file"):
        write_atomic(tmp_path, b"x")


def test_only_own_temporary_files_are_removed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: None)  # as if the process were killed before the rename
        write_atomic(tmp_path / "x.bin", b"half")
    (leftover,) = os.listdir(tmp_path)
    others = [".mine.tmp", ".vimrc.tmp", ".x.bin.1-2.tmp", "x.bin.12-0123abcd.tmp", ".x.bin.12-0123abcd.tmp.bak"]
    for name in others:
        (tmp_path / name).write_text("not ours")
    assert remove_leftovers(tmp_path) == 0, "a running writer keeps its file"
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (0, 0))
    assert remove_leftovers(tmp_path) == 1
    assert not (tmp_path / leftover).exists()
    assert sorted(os.listdir(tmp_path)) == sorted(others)
