"""Data frames, CSV and Parquet files as sources: columns keep dtypes and categories, labels are found or refused."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import driftcal
from driftcal import open_source
from driftcal.errors import DataError, DriftcalError, InputError, LabelsError, UnknownName
from tests.helpers.tables import FRAME, THREE

LABELLED = FRAME.assign(label=THREE)


def test_a_frame_keeps_columns_dtypes_categories_index_and_missing_values():
    source = open_source(LABELLED)
    pd.testing.assert_frame_equal(source.inputs(), FRAME)
    pd.testing.assert_frame_equal(source.inputs(np.array([7, 3, 3])), FRAME.iloc[[7, 3, 3]])
    parts = [batch.inputs for batch in source.batches(100)]
    pd.testing.assert_frame_equal(pd.concat(parts), FRAME)
    np.testing.assert_array_equal(source.labels, THREE)
    assert source.kind == "features"
    validation, test = source.split(0.5)
    pd.testing.assert_frame_equal(pd.concat([validation.inputs(), test.inputs()]).sort_index(), FRAME)


def test_the_fingerprint_depends_on_every_value_and_not_on_the_index():
    digest = open_source((FRAME, THREE)).fingerprint
    assert open_source((FRAME.reset_index(drop=True), THREE)).fingerprint == digest
    others = [FRAME.rename(columns={"visits": "visit"}), FRAME.astype({"visits": "int32"}), FRAME.iloc[::-1]]
    for column, value in (("amount", 0.5), ("visits", 77), ("shop", "west"), ("member", True), ("rating", pd.NA)):
        changed = FRAME.copy()
        changed.loc[changed.index[changed[column].ne(value).fillna(True).to_numpy(bool)][0], column] = value
        others.append(changed)
    others.append(FRAME.assign(shop=FRAME["shop"].cat.rename_categories({"west": "east"})))
    digests = {open_source((frame, THREE)).fingerprint for frame in others}
    assert len(digests) == len(others)
    assert digest not in digests


def test_files(tmp_path):
    LABELLED.to_csv(tmp_path / "a.csv", index=False, sep=";")
    source = open_source(f"{tmp_path / 'a.csv'}?separator=;&categorical=visits")
    assert source.inputs()["shop"].dtype == "category"
    assert source.categorical == (1,)
    np.testing.assert_array_equal(source.labels, THREE)
    LABELLED.reset_index(names="key").to_parquet(tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", drop=["key"])
    pd.testing.assert_series_equal(source.inputs()["rating"], FRAME["rating"].reset_index(drop=True))
    assert source.inputs()["shop"].cat.categories.tolist() == ["west", "north", "south"]
    with pytest.raises(UnknownName, match="no column 'kee'"):
        open_source(tmp_path / "a.parquet", drop=["kee"])
    (tmp_path / "b.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match="must be a Parquet file; reading failed"):
        open_source(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="there is no file"):
        open_source(tmp_path / "c.csv")


def test_labels_are_found_or_refused(tmp_path):
    frame = FRAME.assign(outcome=THREE)
    with pytest.raises(LabelsError, match=r'column of labels of table must be named: none is obvious.*label="\.\.\."'):
        open_source(frame)
    assert open_source(frame, label="outcome").input_shape == (5,)
    with pytest.raises(UnknownName, match="did you mean 'outcome'"):
        open_source(frame, label="outcom")
    with pytest.raises(LabelsError, match="several could be it among label, target"):
        open_source(LABELLED.assign(target=1))
    with pytest.raises(LabelsError, match="row 0 has none"):
        open_source(frame.assign(outcome=np.nan), label="outcome")
    with pytest.raises(LabelsError, match="360 samples and 3 labels"):
        open_source((FRAME, [0, 1, 2]))
    with pytest.raises(LabelsError, match="Pass y after X"):
        driftcal.tune(lambda batch: batch, FRAME)


def test_unusable_tables_are_refused():
    with pytest.raises(InputError, match="column 'amount' is infinite in sample 4"):
        open_source((FRAME.assign(amount=np.where(np.arange(360) == 4, np.inf, 0)), THREE))
    with pytest.raises(InputError, match="different names; 'visits' is there twice"):
        open_source((pd.concat([FRAME, FRAME[["visits"]]], axis=1), THREE))
    with pytest.raises(InputError, match="at least one sample and one column"):
        open_source((FRAME[[]], THREE))


def test_a_model_that_takes_a_matrix_gets_one():
    def positive(batch):
        assert batch.dtype == np.float32
        return np.nan_to_num(batch) @ np.ones((2, 3), np.float32) - 5

    model = driftcal.open_model(positive)
    numbers = FRAME[["amount", "visits"]]
    np.testing.assert_array_equal(model.logits(numbers), model.logits(numbers.to_numpy(np.float32)))
    with pytest.raises(InputError, match="must be numbers for a callable model; 'shop' is not"):
        model.logits(FRAME[["amount", "shop"]])


def test_lines_with_more_fields_than_the_header_do_not_move_columns(tmp_path):
    (tmp_path / "a.csv").write_text("age,y\n70,31,0\n71,42,1\n")  # pandas alone would read 31 as the age
    with pytest.raises(DataError, match="must be a CSV file with a header"):
        open_source(tmp_path / "a.csv")


@pytest.mark.parametrize("line", ["41,1", "42"])
def test_lines_with_fewer_fields_than_the_header_do_not_move_columns(tmp_path, line):
    (tmp_path / "a.csv").write_text(f"y,age,weight,height\n0,70,31,1.5\n\n1,{line}\n")
    with pytest.raises(DataError, match=r"must have 4 fields in each line; that of sample 1 has [23]"):
        open_source(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text('y,age,"weight, kg",height\n0,70,31,1.5\n1,41,,\n')
    assert open_source(tmp_path / "a.csv").inputs().isna().to_numpy().sum() == 2


def test_a_column_has_one_type_in_a_large_csv_file(tmp_path):
    """pandas reads a large file in blocks of lines; a code would be a number in one block and text in another."""
    lines = [f"{i % 7},{i / 7},{i % 2}" for i in range(200_000)]
    (tmp_path / "a.csv").write_text("\n".join(["code,size,y", *lines, "3,1,1", "A1,2,0"]))
    codes = open_source(tmp_path / "a.csv").inputs()["code"]
    assert sorted(codes.cat.categories) == ["0", "1", "2", "3", "4", "5", "6", "A1"]


@pytest.mark.parametrize("header", ["a,y,y", "a,b,a,y", 'a,"y",y', "\ufeffa,a,y"])
def test_a_csv_file_with_a_name_twice_is_refused(tmp_path, header):
    """pandas would call the second one y.1: labels among the features."""
    (tmp_path / "a.csv").write_text(f"{header}\n{'1,' * header.count(',')}0\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"must have different names; '[ay]' is there twice. Rename one"):
        open_source(tmp_path / "a.csv")


def test_options_in_text_that_look_like_numbers_are_text(tmp_path):
    np.savez(tmp_path / "a.npz", **{"2024": np.eye(4), "1": [0, 1, 1, 0]})
    assert open_source(f"{tmp_path / 'a.npz'}?x=2024&y=1").labels.tolist() == [0, 1, 1, 0]
    (tmp_path / "a.csv").write_text("a1y\n510\n610\n")
    assert open_source(f"{tmp_path / 'a.csv'}?separator=1").inputs()["a"].tolist() == [5, 6]
    for separator in (5, "", None):
        with pytest.raises(InputError, match="separator must be the character that separates fields"):
            open_source(tmp_path / "a.csv", separator=separator)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npz"])
def test_pipes_and_devices_are_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=r"data must be a regular file.* is a folder, a pipe or a device"):
        open_source(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(DataError, match="data must be a regular file"):
        open_source(tmp_path / name)


HOSTILE_PARQUET = {
    "notes for pandas": pa.table({"a": [1.0], "y": [0]}).replace_schema_metadata({b"pandas": b"[]"}),
    "nested notes": pa.table({"a": [1.0], "y": [0]}).replace_schema_metadata({b"pandas": b"[" * 100_000}),
    "index that is no column": pa.table({"a": [1.0], "y": [0]}).replace_schema_metadata(
        {b"pandas": b'{"index_columns": ["b"], "columns": [], "column_indexes": []}'}
    ),
    "lists": pa.table({"a": [[1.0]], "y": [0]}),
    "dictionaries": pa.table({"a": [{"b": 1}], "y": [0]}),
    "lists as labels": pa.table({"a": [1.0], "y": [[0]]}),
    "bytes as labels": pa.table({"a": [1.0], "y": [b"\xff"]}),
    "unknown time zone": pa.table({"a": pa.array([1], pa.timestamp("s", "Nowhere")), "y": [0]}),
    "names twice": pa.table([[1.0], [2.0], [0]], names=["a", "a", "y"]),
}


@pytest.mark.parametrize("name", HOSTILE_PARQUET)
def test_hostile_parquet_files_give_an_error_of_ours(tmp_path, name):
    pq.write_table(HOSTILE_PARQUET[name], tmp_path / "a.parquet")
    with pytest.raises(DriftcalError):
        open_source(tmp_path / "a.parquet")


@pytest.mark.parametrize("values", [pa.array(np.zeros(20_000)), pa.array(["x" * 100] * 20_000)], ids=["zeros", "text"])
def test_a_parquet_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch, values):
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_BYTES", "100000")
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_RATIO", "10")
    schema = pa.schema([("a", values.type), ("y", pa.int8())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as file:
        file.write_table(pa.table({"a": values, "y": pa.array(np.zeros(len(values), np.int8))}))
    with pytest.raises(DataError, match="must unpack to at most 0 MB"):
        open_source(tmp_path / "a.parquet")
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_BYTES", "100000000")
    assert len(open_source(tmp_path / "a.parquet")) == len(values)


def declare_no_bytes(path):
    """Write 0 in place of the sizes that a Parquet file declares for its columns; the file keeps its length."""
    content, group = path.read_bytes(), pq.read_metadata(path).row_group(0)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    head, tail = content[:footer], content[footer:]
    for size in {group.total_byte_size, *(group.column(j).total_uncompressed_size for j in range(group.num_columns))}:
        number, digits = 2 * size, []  # as Thrift writes it: 7 bits per byte, and the highest bit if more follow
        while number:
            number, digit = divmod(number, 128)
            digits.append(digit)
        written = bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])
        if len(written) > 2:
            tail = tail.replace(written, b"\x80" * (len(written) - 1) + b"\0")
    path.write_bytes(head + tail)
    assert pq.read_metadata(path).row_group(0).total_byte_size == 0


def test_a_parquet_file_that_declares_less_than_it_holds_is_read_in_parts(tmp_path, monkeypatch):
    """Ten kilobytes took gigabytes: a group of samples was measured when all of it was in memory."""
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_BYTES", "1000000")
    monkeypatch.setenv("DRIFTCAL_MAX_ARRAY_RATIO", "1")
    texts = {f"c{j}": ["a" * 1000] * 30_000 for j in range(3)}
    pq.write_table(pa.table({**texts, "y": np.zeros(30_000, np.int8)}), tmp_path / "a.parquet", compression="zstd")
    declare_no_bytes(tmp_path / "a.parquet")
    read, iter_batches = [], pq.ParquetFile.iter_batches

    def counting(file, batch_size, *, columns):
        for batch in iter_batches(file, batch_size, columns=columns):
            read.append((columns, len(batch)))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counting)
    with pytest.raises(DataError, match="must unpack to at most"):
        open_source(tmp_path / "a.parquet")
    assert len(read) == 1, "the first part is too much"
    assert read[0][1] < 30_000
