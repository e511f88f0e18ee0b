"""Reading .npy and .npz files: what is written is read, and whatever is damaged or hostile is one DataError."""

import io
import pickle
import zipfile

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.errors import DataError
from driftcal.io.npz import INPUT_NAMES, LABEL_NAMES, open_arrays

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 3


def npy_bytes(shape, dtype="<f8", content=b"", version=(1, 0)):
    """A .npy file with the header for `shape`, whatever follows it."""
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    write = np.lib.format.write_array_header_1_0 if version == (1, 0) else np.lib.format.write_array_header_2_0
    write(stream, header)
    return stream.getvalue() + content


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_as_they_were_written(tmp_path, save):
    arrays = {
        "x": np.asfortranarray(X),
        "y": Y,
        "names": np.array(["cat", "Ärger"]),
        "time": np.array(["2026-01-01"], "datetime64[s]"),
        "empty": np.zeros((0, 4), np.float32),
        "big_endian": X.astype(">f4"),
    }
    save(tmp_path / "a.npz", **arrays)
    file = open_arrays(tmp_path / "a.npz")
    assert file.names == tuple(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(file.get(name), array)
    np.testing.assert_array_equal(file.find(INPUT_NAMES, "inputs"), X)
    assert file.get("groups") is None


def test_the_first_of_several_names_counts(tmp_path):
    np.savez(tmp_path / "a.npz", labels=Y + 1, y=Y)
    np.testing.assert_array_equal(open_arrays(tmp_path / "a.npz").find(LABEL_NAMES, "labels"), Y)


def test_a_single_array_is_mapped(tmp_path):
    np.save(tmp_path / "a.npy", X)
    file = open_arrays(tmp_path / "a.npy")
    assert (file.is_npy, file.names) == (True, ())
    assert isinstance(file.single(), np.memmap)
    np.testing.assert_array_equal(file.single(), X)
    np.savez(tmp_path / "b.npz", anything=X)
    np.testing.assert_array_equal(open_arrays(tmp_path / "b.npz").single(), X)
    (tmp_path / "c.npy").write_bytes(npy_bytes(X.shape, content=X.tobytes(), version=(2, 0)))
    np.testing.assert_array_equal(open_arrays(tmp_path / "c.npy").single(), X)


def test_remote_files_are_read(tmp_path):
    memory = fsspec.filesystem("memory")
    for name, write in (("a.npy", lambda file: np.save(file, X)), ("a.npz", lambda file: np.savez(file, x=X))):
        stream = io.BytesIO()
        write(stream)
        memory.pipe_file(f"/bucket/{name}", stream.getvalue())
        np.testing.assert_array_equal(open_arrays(f"memory://bucket/{name}").single(), X)
    memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"x.npy": pickle.dumps([1])}, "plain arrays"),
        ({"x.npy": npy_bytes((3,), "|O", b"\0" * 24)}, "array 'x' holds Python objects"),
        ({"x.npy": npy_bytes((20, 3), content=X.tobytes()[:-1])}, "array 'x' is cut off: .* 480 bytes, 479 follow"),
        ({"x.npy": npy_bytes((2**43,), content=b"\0" * 8)}, "declares 70,368,744,177,664 bytes, 8 follow"),
        ({"x.npy": npy_bytes((2**62, 4))}, "is cut off"),
        ({"x.npy": npy_bytes((), content=b"\0" * 8)}, "array 'x' is a single number"),
        ({"x.npy": b"\x93NUMPY\x01\x00\x0c\x00{'descr': ((\n"}, "plain arrays"),
        ({"x.npy": b""}, "plain arrays"),
        ({"x.npy": npy_bytes((2**40,), "<U0")}, "array 'x' holds values of no bytes"),
        ({"x.npy": npy_bytes((2**40,), "|V0")}, "array 'x' holds values of no bytes"),
        ({"x.npy": npy_bytes((2,), "<U1", b"A\0\0\0\0\0\x11\0")}, "array 'x' holds characters that do not exist"),
        ({"x.npy": npy_bytes((2,), ">U1", b"\0\0\0A\0\x11\0\0")}, "array 'x' holds characters that do not exist"),
        ({"y.npy": npy_bytes((1,), content=b"\0" * 8)}, r"must hold an array named 'x' with inputs; it holds 'y'\. Way out\."),
        ({"notes.txt": b"text"}, "it holds no array"),
        ({}, "it holds no array"),
    ],
)  # fmt: skip
def test_unusable_members_are_refused(tmp_path, members, match):
    path = write_zip(tmp_path / "a.npz", members)
    with pytest.raises(DataError, match=match):
        open_arrays(path).find(INPUT_NAMES, "inputs", "Way out.")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (npy_bytes((20, 3), content=X.tobytes()[:-1]), "the array is cut off"),
        (npy_bytes((2**43,)), "the array is cut off"),
        (npy_bytes((3,), "|O", b"\0" * 24), "the array holds Python objects"),
        (npy_bytes((), content=b"\0" * 8), "the array is a single number"),
        (pickle.dumps([1]), "does not begin like one"),
        (npy_bytes((2**40,), "|S0"), "the array holds values of no bytes"),
        (npy_bytes((1,), "<U1", b"\0\0\x11\0"), "the array holds characters that do not exist"),
        (b"", "does not begin like one"),
        (b"PK no zip", "not a zip file"),
    ],
)
def test_unusable_files_are_refused(tmp_path, content, match):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(
        DataError, match=rf"a\.npy' must be a \.npy or \.npz file of plain arrays; .*{match}.*numpy\.savez"
    ):
        open_arrays(tmp_path / "a.npy").single()  # fmt: skip


def test_missing_files_and_wrong_kinds_are_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*none\.npz"):
        open_arrays(tmp_path / "none.npz")
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match="named 'logits' with scores; it holds a single array without a name"):
        open_arrays(tmp_path / "a.npy").find(["logits"], "scores")
    np.savez(tmp_path / "two.npz", a=X, b=Y)
    with pytest.raises(DataError, match="must hold a single array; it holds 'a', 'b'"):
        open_arrays(tmp_path / "two.npz").single()


def test_much_short_text_is_refused(tmp_path, monkeypatch):
    """A letter takes a byte in a file, and 64 as an object of Python."""
    np.savez_compressed(tmp_path / "a.npz", y=np.full(100_000, b"a"), few=np.full(10, "é"))
    np.save(tmp_path / "a.npy", np.full(100_000, "a"))
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_BYTES", "1000000")
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_RATIO", "10")
    with pytest.raises(
        DataError, match=r"must unpack to at most 1 MB .* it declares 6 MB\. .*numbers in place of text"
    ):
        open_arrays(tmp_path / "a.npz").get("y")
    with pytest.raises(DataError, match="it declares 6 MB"):
        open_arrays(tmp_path / "a.npy").single()
    assert open_arrays(tmp_path / "a.npz").get("few").tolist() == ["é"] * 10


def test_a_small_file_cannot_unpack_to_much_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_BYTES", str(1 << 16))
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((1000, 1000)))
    with pytest.raises(DataError, match=r"must unpack to at most .* it declares 8 MB.*without compression"):
        open_arrays(tmp_path / "zeros.npz")
    with monkeypatch.context() as patch:
        patch.setenv("DRIFTCAL_MAX_ARRAY_RATIO", "2000")
        assert open_arrays(tmp_path / "zeros.npz").names == ("x",)
    np.savez(tmp_path / "plain.npz", x=np.zeros((1000, 1000)))
    assert open_arrays(tmp_path / "plain.npz").names == ("x",)


def test_a_member_larger_than_declared_is_refused(tmp_path):
    """The directory of the archive says 1 KB; the compressed data hold 8 MB."""
    path = write_zip(tmp_path / "a.npz", {"x.npy": npy_bytes((10**6,), content=bytes(8 * 10**6))}, zipfile.ZIP_DEFLATED)
    size = len(npy_bytes((10**6,))) + 8 * 10**6
    path.write_bytes(path.read_bytes().replace(size.to_bytes(4, "little"), (1024).to_bytes(4, "little")))
    with pytest.raises(DataError, match="plain arrays"):
        open_arrays(path).get("x")


@settings(max_examples=150)
@given(st.data())
def test_any_damage_is_one_kind_of_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "a.npz"
    data.draw(st.sampled_from([np.savez, np.savez_compressed]))(path, x=X, y=Y)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        file = open_arrays(path)
        x = file.find(INPUT_NAMES, "inputs")
    except DataError:
        return
    assert x.shape[0] >= 0
