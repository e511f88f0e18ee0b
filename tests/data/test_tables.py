"""Data frames, CSV and Parquet files as sources: columns keep dtypes and categories, labels are found or refused."""

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
