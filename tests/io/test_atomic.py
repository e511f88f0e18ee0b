"""Files are complete or absent, and only our own temporary files are removed."""

import os
import socket
import stat

import pytest

from driftcal.errors import InputError
from driftcal.io.atomic import as_target, as_target_folder, remove_leftovers, write_atomic


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


def test_what_is_not_a_regular_file_is_never_replaced(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(InputError, match=r"must be a regular file; .* is a pipe, which would be replaced"):
            write_atomic(path, b"x")
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    with pytest.raises(InputError, match="is a device"):
        write_atomic("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(InputError, match="is a socket"):
            write_atomic(tmp_path / "s", b"x")


def test_a_symbolic_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "x.bin").write_bytes(b"old")
    link, dangling = tmp_path / "x.bin", tmp_path / "new.bin"
    link.symlink_to(tmp_path / "shared" / "x.bin")
    dangling.symlink_to("shared/new.bin")
    for path, name in ((link, "x.bin"), (dangling, "new.bin")):
        assert write_atomic(path, b"new") == path
        assert path.is_symlink()
        assert (tmp_path / "shared" / name).read_bytes() == b"new"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomic(tmp_path / "loop", b"x")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_replaced_file_keeps_its_mode(tmp_path, mode):
    path = write_atomic(tmp_path / "x.bin", b"old")
    path.chmod(mode)
    write_atomic(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_a_private_file_is_never_readable_by_others_while_it_is_written(tmp_path):
    path = write_atomic(tmp_path / "x.bin", b"old")
    path.chmod(0o600)
    modes = []

    def blocks():
        yield b"secret"
        modes.extend(stat.S_IMODE((tmp_path / name).stat().st_mode) for name in os.listdir(tmp_path))

    write_atomic(path, blocks())
    assert modes == [0o600, 0o600]


def test_long_names_of_other_letters_can_be_written(tmp_path):
    """A name may have 255 bytes, and a letter three of them."""
    path = write_atomic(tmp_path / ("猫" * 85), b"x")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    for name in ("a\0b", "\ud800"):
        with pytest.raises(InputError, match=r"cannot be written: .*Choose another path"):
            as_target(tmp_path / name)


def test_a_new_file_has_the_usual_mode(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    assert write_atomic(tmp_path / "x.bin", b"x").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_targets_that_cannot_be_written_are_found_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"x")
    for check in (as_target, as_target_folder):
        with pytest.raises(InputError, match="Not a directory"):
            check(tmp_path / "file" / "x.bin")
    with pytest.raises(InputError, match="cannot be written"):
        as_target("/proc/x.bin")  # root may write to any folder but this
    with pytest.raises(InputError, match="cannot be written"):
        as_target_folder("/proc/new/folder")
    with pytest.raises(InputError, match="cannot be written: File name too long"):
        as_target(tmp_path / ("x" * 300))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write to any file
    with pytest.raises(InputError, match="is read-only"):
        as_target(tmp_path / "file")
    assert as_target(tmp_path / "new" / "deep" / "x.bin").parent.name == "deep"
    assert os.listdir(tmp_path) == ["file"], "nothing is created"


def test_leftovers_are_regular_files(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / ".x.12-0123abcd.tmp").mkdir()
    (tmp_path / ".y.12-0123abcd.tmp").symlink_to("mine")
    assert remove_leftovers(tmp_path, older_than=-1) == 0
    assert len(os.listdir(tmp_path)) == 3
