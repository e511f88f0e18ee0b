"""Files of scores: .npz, .csv and .parquet hold the same, and errors name the column."""

import numpy as np
import pandas
import pytest

from driftcal.data.score_files import read_scores
from driftcal.errors import DataError, LabelsError, UnknownName

LOGITS = np.random.default_rng(0).normal(size=(6, 3))
Y = np.array([0, 1, 2, 2, 1, 0])
NAMES = ["ant", "bee", "cat"]


def csv_file(path, header, rows):
    path.write_text("\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def test_the_index_of_a_frame_is_no_score(tmp_path):
    frame = pandas.DataFrame(LOGITS, columns=NAMES).assign(y=Y).iloc[[4, 0, 1, 5, 3, 2]]
    frame.to_csv(tmp_path / "a.csv")
    pandas.read_csv(tmp_path / "a.csv").to_csv(tmp_path / "again.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "again.csv", "a.parquet"):
        np.testing.assert_allclose(read_scores(tmp_path / name).scores, frame[NAMES].to_numpy(), rtol=1e-15)
    frame.rename(columns={"y": "risk"}).to_parquet(tmp_path / "b.parquet")
    assert read_scores(tmp_path / "b.parquet").labels.tolist() == frame["y"].astype(str).tolist()
    only = read_scores(tmp_path / "again.csv", columns=["Unnamed: 0", "ant"])
    assert only.scores[:, 0].tolist() == frame.index.tolist()


def test_three_formats_hold_the_same(tmp_path):
    import pyarrow
    import pyarrow.parquet

    labels = np.array(NAMES)[Y]
    np.savez(tmp_path / "a.npz", logits=LOGITS, y=Y)
    table = {name: LOGITS[:, k] for k, name in enumerate(NAMES)} | {"label": labels}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
    rows = [[*map(repr, map(float, z)), label] for z, label in zip(LOGITS, labels, strict=True)]
    files = [
        read_scores(tmp_path / "a.npz"),
        read_scores(csv_file(tmp_path / "a.csv", [*NAMES, "label"], rows)),
        read_scores(tmp_path / "a.parquet"),
    ]
    for file in files:
        np.testing.assert_array_equal(file.scores, LOGITS)
    assert files[0].score_type == "logits"
    for file in files[1:]:
        assert file.class_names == tuple(NAMES)
        assert file.labels.tolist() == labels.tolist()


def test_ids_and_times_are_no_scores_unless_they_are_named(tmp_path):
    file = csv_file(
        tmp_path / "a.csv", ["Id", "ant", "bee", "time", "truth"], [[7, 0.5, 1.5, 3, "bee"], [8, 2, 1, 4, "ant"]]
    )
    assert read_scores(file).scores.tolist() == [[0.5, 1.5], [2, 1]]
    assert read_scores(file, columns=["Id", "bee"]).scores.tolist() == [[7, 1.5], [8, 1]]


def test_labels_are_the_named_column_or_the_last(tmp_path):
    path = csv_file(tmp_path / "a.csv", ["truth", "p0", "p1"], [[1, 0.2, 0.8], [0, 0.7, 0.3]])
    assert read_scores(path, labels="truth").labels.tolist() == ["1", "0"]
    assert read_scores(path, labels="truth", columns=["p1", "p0"]).scores[0].tolist() == [0.8, 0.2]
    last = csv_file(tmp_path / "b.csv", ["p1", "truth"], [[0.2, 1], [0.7, 0]])
    assert read_scores(last).scores.tolist() == [0.2, 0.7]
    assert read_scores(last).labels.tolist() == ["1", "0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p0,p1,y\n0.1,x,0\n", "'p1'"),
        ("p0,p1,y\n0.1,0.2\n", "line 2"),
        ("p0,p1,y\n0.1,0.2,\n", "sample 0"),
        ("0.1,0.2,1\n0.1,0.2,0\n", "header"),
        ("p0,p1,y\n", "header only"),
        ("p0,p0,y\n1,2,0\n", "different"),
        ("y\n0\n", "column per class"),
    ],
)
def test_errors_name_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_scores(path)


def test_unknown_columns_and_files(tmp_path):
    path = csv_file(tmp_path / "a.csv", ["p0", "y"], [[1, 0]])
    with pytest.raises(UnknownName, match="label"):
        read_scores(path, labels="label")
    with pytest.raises(DataError, match="no file"):
        read_scores(tmp_path / "b.csv")
    (tmp_path / "a.txt").write_text("1", encoding="utf-8")
    with pytest.raises(DataError, match="parquet"):
        read_scores(tmp_path / "a.txt")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="parquet"):
        read_scores(tmp_path / "bad.parquet")


def test_hostile_labels_are_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    rows = [
        [1.0, 2.0, "q" * 5000],
        *([[1.0, 2.0, "c"]] * 3),
    ]  # as an array of text, each label would be as wide as the longest
    with pytest.raises(LabelsError, match="at most 1,000 characters; sample 0 has 5,000"):
        read_scores(csv_file(tmp_path / "a.csv", ["ant", "bee", "y"], rows))
    times = pyarrow.array([1, 2], pyarrow.timestamp("s", "Nowhere"))
    pyarrow.parquet.write_table(pyarrow.table({"ant": [1.0, 2.0], "y": times}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="must hold numbers and labels"):
        read_scores(tmp_path / "a.parquet")


def test_columns_of_codes_and_words_are_text(tmp_path):
    import pyarrow
    import pyarrow.parquet

    words = [pyarrow.array(part).dictionary_encode() for part in (["x", "y"], ["z", "y"])]
    table = pyarrow.table({"ant": [1.0, 2.0, 3.0, 4.0], "y": pyarrow.chunked_array(words)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    assert read_scores(tmp_path / "a.parquet").labels.tolist() == ["x", "y", "z", "y"]


@pytest.mark.parametrize(
    "header", [["p_1", "p_0", "y"], ["p_1", "p_3", "p_2", "y"], [*sorted(f"p{k}" for k in range(12)), "y"]]
)
def test_columns_that_are_numbered_in_another_order_are_refused(tmp_path, header):
    n_classes = len(header) - 1
    rows = [[*range(n_classes), k % 2] for k in range(4)]
    path = csv_file(tmp_path / "a.csv", header, rows)
    with pytest.raises(DataError, match="must be in the order of the classes"):
        read_scores(path)
    assert read_scores(path, columns=header[:-1]).scores.shape == (4, n_classes)
    for names in (["p0", "p1", "p2"], ["p_1", "p_2", "p_3"], ["q3", "p1", "p2"], ["p7", "p3", "p4"], ["1", "0", "2"]):
        assert read_scores(csv_file(tmp_path / "b.csv", [*names, "y"], [[1, 2, 3, 0]])).scores.shape == (1, 3)


def test_a_table_without_labels_or_without_commas_is_refused(tmp_path):
    """The last column would be the labels: "labels are text ('-0.0015', ...)"."""
    unlabelled = csv_file(tmp_path / "a.csv", NAMES, LOGITS)
    with pytest.raises(
        DataError, match=r"a column of labels, such as y or label; the last one, 'cat', holds fractions.*--labels"
    ):
        read_scores(unlabelled)
    semicolons = tmp_path / "b.csv"
    semicolons.write_text("a;b;label\n1;2;0\n")
    with pytest.raises(DataError, match=r"a;b;label\. Separate the columns with commas"):
        read_scores(semicolons)


def test_levels_are_read_and_are_no_scores(tmp_path):
    scores, labels, levels = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    np.savez(tmp_path / "a.npz", logits=scores, y=labels, levels=levels)
    rows = np.column_stack([scores, labels, levels])
    header = "ant,bee,truth,Level"
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header=header, comments="", fmt=["%g"] * 2 + ["%d"] * 2)
    for file in (read_scores(tmp_path / "a.npz"), read_scores(tmp_path / "a.csv")):
        np.testing.assert_array_equal(file.scores, scores)
        assert file.labels.astype(int).tolist() == labels.tolist()
        np.testing.assert_array_equal(file.levels, levels)
    as_score = read_scores(tmp_path / "a.csv", columns=["ant", "Level"], labels="truth")
    assert as_score.levels is None
    assert as_score.scores.shape == (4, 2)
    assert read_scores(tmp_path / "a.csv", columns=["ant"], labels="bee", levels="truth").levels.tolist() == [
        0,
        1,
        0,
        1,
    ]
    np.savez(tmp_path / "b.npz", logits=scores, y=labels, strength=levels)
    assert read_scores(tmp_path / "b.npz").levels is None
    np.testing.assert_array_equal(read_scores(tmp_path / "b.npz", levels="strength").levels, levels)
    with pytest.raises(DataError, match="'nothing' with levels"):
        read_scores(tmp_path / "b.npz", levels="nothing")
