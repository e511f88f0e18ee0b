"""Our reader of safetensors accepts nothing that the reference refuses, and reads the same numbers."""

import json
import os

import numpy as np
import pytest
import safetensors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftcal.errors import ArtefactError
from driftcal.io.safetensors import read_tensors, write_tensors

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(4, dtype=np.int64), "c": np.array([True, False])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("safetensors")


@pytest.fixture(scope="module")
def good(folder):
    return write_tensors(folder / "good.safetensors", [ARRAYS], {"format": "test", "numbers": [1, 2.5]}).read_bytes()


def as_file(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def check_agreement(folder, content):
    """Whether we accept `content`; if so, the reference accepts it as well and reads the same bytes."""
    path = folder / "x.safetensors"
    path.write_bytes(content)
    ours = read_tensors(path)
    if ours is None:
        return False
    theirs = dict(safetensors.deserialize(content))  # raises SafetensorError for what it refuses
    assert theirs.keys() == ours.arrays.keys()
    for name, array in ours.arrays.items():
        assert array.shape == tuple(theirs[name]["shape"])
        assert array.tobytes() == bytes(theirs[name]["data"])
    return True


def test_both_read_what_we_write(folder, good):
    assert check_agreement(folder, good)
    assert check_agreement(folder, as_file({"x": {"dtype": "U8", "shape": [0, 5], "data_offsets": [0, 0]}}))
    assert check_agreement(folder, as_file({}))


def entry(dtype="U8", shape=(4,), offsets=(0, 4), **more):
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}}


@pytest.mark.parametrize(
    "header",
    [
        entry(shape=(-2, -2)),
        entry(shape=(2, -2), offsets=(0, -4)),
        entry(shape=(4.0,)),
        entry(shape=(True, 4)),
        entry(offsets=(0.0, 4.0)),
        entry(offsets=(False, 4)),
        entry(shape=(2**63, 4, 0), offsets=(0, 0)),
        entry(shape=(2**62, 2**62, 0), offsets=(0, 0)),
        entry(shape=(2**70, 0), offsets=(0, 0)),
        entry(shape=(0, 2**64), offsets=(0, 0)),
        entry(dtype="u8"),
        {"x": {"dtype": "U8", "shape": [4]}},
        {"x": [4]},
        {"x": None},
        {"__metadata__": {"a": 1}, **entry()},
        {"__metadata__": {"a": None}, **entry()},
        {"__metadata__": [], **entry()},
        {"\ud800": entry()["x"]},
        {"__metadata__": {"a": "\udc00"}, **entry()},
        b'{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":NaN}}',
        b'{"x":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}}',
        b'{"__metadata__":{},"__metadata__":{},"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"U8","shape":[1e400],"data_offsets":[0,4]}}',
        b' {"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
        b'\xef\xbb\xbf{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
        json.dumps(entry()).encode("utf-16"),
        b'{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}\x00',
        b"[]",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda header: str(header)[:60],
)
def test_headers_that_the_reference_refuses_are_refused(folder, header):
    assert not check_agreement(folder, as_file(header, b"1234"))


_NUMBERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([2**31, 2**62, 2**63, 2**64, 2**70, 1e3, 4.0, True, None, "4", float("inf"), float("nan")]),
)
_ENTRIES = st.fixed_dictionaries(
    {"dtype": st.sampled_from(["U8", "BOOL", "F64", "F16", "BF16", "u8", "I8 ", ""]),
     "shape": st.one_of(st.lists(st.integers(0, 4), max_size=3), st.lists(_NUMBERS, max_size=3), _NUMBERS),
     "data_offsets": st.one_of(st.tuples(st.integers(0, 4), st.integers(0, 16)).map(list), st.lists(_NUMBERS, max_size=3))},
    optional={"more": _NUMBERS},
)  # fmt: skip
_HEADERS = st.dictionaries(st.text(max_size=3), _ENTRIES, max_size=3).flatmap(
    lambda header: st.one_of(
        st.just(header),
        st.fixed_dictionaries({"__metadata__": st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=3), _NUMBERS), max_size=2)})
        .map(lambda metadata: {**metadata, **header}),
    )
)  # fmt: skip


@pytest.mark.law
@settings(max_examples=600)
@given(_HEADERS, st.binary(max_size=20), st.booleans())
@example({"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"12", True)
def test_any_header_is_read_alike(folder, header, data, fits):
    if fits:  # data as long as the last array says, so that other rules are reached
        ends = [
            e["data_offsets"][-1]
            for e in header.values()
            if isinstance(e.get("data_offsets"), list) and e["data_offsets"]
        ]
        if ends and type(ends[-1]) is int and 0 <= ends[-1] < 100:
            data = bytes(ends[-1])
    check_agreement(folder, as_file(header, data))


@pytest.mark.law
@settings(max_examples=1000)
@given(st.data())
def test_damaged_files_are_read_alike(folder, good, data):
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, max(0, len(content) - 1)))
        if not content:
            break
        match data.draw(st.sampled_from(["flip", "digit", "insert", "delete", "cut"])):
            case "flip":
                content[position] ^= 1 << data.draw(st.integers(0, 7))
            case "digit":
                content[position] = data.draw(st.sampled_from(b'0123456789-.e"[]{},: '))
            case "insert":
                content[position:position] = data.draw(st.binary(max_size=4))
            case "delete":
                del content[position]
            case "cut":
                content = content[: max(1, position)]
    check_agreement(folder, bytes(content))


def test_a_header_above_the_limit_is_refused(folder, monkeypatch):
    header = {"__metadata__": {"driftcal": json.dumps({"x": "y" * 2000})}, **entry()}
    (folder / "long.safetensors").write_bytes(as_file(header, b"1234"))
    assert read_tensors(folder / "long.safetensors") is not None
    monkeypatch.setenv("DRIFTCAL_MAX_JSON_BYTES", "1000")
    with pytest.raises(ArtefactError, match=r"a header of at most 1,000 bytes; it has .*DRIFTCAL_MAX_JSON_BYTES"):
        read_tensors(folder / "long.safetensors")
    with pytest.raises(ArtefactError, match="a header of at most 1,000 bytes"):
        write_tensors(folder / "new.safetensors", [ARRAYS], {"x": "y" * 2000})
    assert not (folder / "new.safetensors").exists()


def test_what_is_not_a_file_is_no_tensor_file(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "missing"):
        assert read_tensors(tmp_path / name) is None
