"""Every spelling of a label means the same column, and text is never sorted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import driftcal
from driftcal.core.labels import MOST_CLASSES, ClassLookup, as_columns, columns_and_names
from driftcal.data import from_arrays
from driftcal.errors import DriftcalError, InputError, LabelsError

columns_of_labels = st.integers(3, 13).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=1, max_size=30))
)

SPELLINGS = {
    "integers": lambda y: y,
    "uint8": lambda y: y.astype(np.uint8),
    "floats": lambda y: y.astype(float),
    "objects": lambda y: y.astype(object),
    "float objects": lambda y: y.astype(float).astype(object),
    "text": lambda y: y.astype(str),
    "bytes": lambda y: y.astype("S"),
    "text objects": lambda y: y.astype(str).astype(object),
    "pandas text": lambda y: pd.Series(y.astype(str), dtype="string"),
    "pandas categories": lambda y: pd.Series(y.astype(str)).astype("category"),
    "nullable integers": lambda y: pd.Series(y, dtype="Int64"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(columns_of_labels)
def test_every_spelling_of_columns_means_the_same_columns(spelling, case):
    n_classes, labels = case
    y = SPELLINGS[spelling](np.array(labels))
    columns, classes = as_columns(y, n_classes, len(labels))
    assert columns.tolist() == labels
    assert columns.dtype == np.int64
    assert classes.tolist() == list(range(n_classes))
    assert columns_and_names(y)[0].tolist() == labels
    assert columns_and_names(y, [f"class {k}" for k in range(n_classes)])[0].tolist() == labels


@given(columns_of_labels, st.randoms(use_true_random=False))
def test_a_name_means_its_position_in_classes(case, random):
    n_classes, labels = case
    for classes in ([f"name {k}" for k in range(n_classes)], list(range(100, 100 + n_classes))):
        random.shuffle(classes)
        y = np.array([classes[label] for label in labels])
        columns, returned = as_columns(y, n_classes, len(labels), classes=classes)
        assert columns.tolist() == labels
        assert returned.tolist() == classes
        assert as_columns(y.astype(str), n_classes, len(labels), classes=classes)[0].tolist() == labels
        assert as_columns(y, n_classes, len(labels), classes=[str(name) for name in classes])[0].tolist() == labels
        assert columns_and_names(y, classes) == (pytest.approx(columns), tuple(map(str, classes)))
        assert ClassLookup(classes).columns(y.tolist()).tolist() == labels


@given(columns_of_labels)
def test_one_hot_samples_are_columns(case):
    n_classes, labels = case
    for dtype in (int, float, bool):
        one_hot = np.eye(n_classes, dtype=dtype)[labels]
        assert as_columns(one_hot, n_classes, len(labels))[0].tolist() == labels


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0"), max_size=4) | st.integers(-1, 13).map(str),
        min_size=1,
        max_size=8,
    ),
    st.integers(2, 12),
)
def test_any_text_is_columns_or_refused(labels, n_classes):
    if set(labels) <= {str(column) for column in range(n_classes)}:
        columns, _ = as_columns(labels, n_classes, len(labels))
        assert [str(column) for column in columns] == labels
    else:
        with pytest.raises(LabelsError, match=r"pass classes=\[.*\] in the order of the model's outputs"):
            as_columns(labels, n_classes, len(labels))


def test_ten_is_not_sorted_before_two():
    y = np.arange(12)
    assert as_columns(y.astype(str), 12, 12)[0].tolist() == y.tolist()
    logits = np.random.default_rng(0).normal(size=(600, 12)) * 3
    labels = (logits / 2 + np.random.default_rng(1).gumbel(size=logits.shape)).argmax(axis=1)
    by_number = driftcal.TemperatureScaling().fit(logits, labels)
    by_text = driftcal.TemperatureScaling().fit(logits, labels.astype(str))
    assert by_text.temperature_ == by_number.temperature_


@pytest.mark.parametrize(
    ("y", "n_classes", "message"),
    [
        (["cat", "dog", "cat"], 2, r"labels are text \('cat', 'dog'\).*pass classes=\['cat', 'dog'\] in the order"),
        (["cat", "dog", "cat"], 3, r"pass classes=\['cat', 'dog', \.\.\.\]"),
        (list("fedcba"), 6, r"text \('a', 'b', 'c', \.\.\.\).*classes=\['a', 'b', 'c', \.\.\.\]"),
        (["1", "2", "3"], 3, r"text \('1', '2', '3'\)"),  # they count from 1
        (["00", "01"], 2, r"text \('00', '01'\)"),
        (["0", "1.0"], 2, r"text \('0', '1.0'\)"),
        (["-1", "0"], 2, r"text \('-1', '0'\)"),
        (["0", "cat"], 2, "text"),
        (["9" * 30], 2, "text"),
        ([True, False, True], 3, "truth values, which label two classes"),
    ],
)
def test_labels_that_could_be_misread_are_refused(y, n_classes, message):
    with pytest.raises(LabelsError, match=message):
        as_columns(y, n_classes, len(y))


def test_truth_values_label_two_classes():
    assert as_columns([True, False], 2, 2)[0].tolist() == [1, 0]
    assert as_columns([True, False], 2, 2, classes=["no", "yes"])[0].tolist() == [1, 0]
    assert as_columns([True, False], 2, 2, classes=[True, False])[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (["a", "b", "x"], ["a", "b", "c"], r"must be among classes, 'a', 'b', 'c'; sample 2 has 'x'"),
        (["a", "1", "b"], ["a", "b", "c"], "sample 1 has '1'"),  # "1" beside names is a name
        ([1, 2, 0], ["1", "2", "3"], "sample 2 has 0"),
        ([10, 20, 1], [10, 20, 30], "sample 2 has 1"),
        (["b", "b", "a"], ["a", "b", "b"], "each of the 3 columns once"),
    ],
)
def test_an_unknown_label_is_named_with_its_sample(y, classes, message):
    with pytest.raises(InputError, match=message):
        as_columns(y, 3, 3, classes=classes)


def test_numbers_are_columns_where_no_class_is_a_number():
    names = ["cat", "dog", "eel"]
    assert as_columns([2, 0], 3, 2, classes=names)[0].tolist() == [2, 0]
    assert as_columns(["2", "0"], 3, 2, classes=names)[0].tolist() == [2, 0]
    assert as_columns([5, 3], 3, 2, classes=[3, 5, 7])[0].tolist() == [1, 0]
    assert as_columns(["5", "3"], 3, 2, classes=[3, 5, 7])[0].tolist() == [1, 0]
    assert as_columns([2, 0], 3, 2, classes=["0", "1", "2"])[0].tolist() == [2, 0]


NONE, NAMED, NUMBERED = None, ["cat", "dog", "eel"], ["eel", 0, "1"]
REFUSED = -2


@pytest.mark.parametrize(
    ("label", "no_classes", "names", "numbers"),
    [
        (1, 1, 1, 2),
        (1.0, 1, 1, 2),
        ("1", 1, 1, 2),
        ("1.0", REFUSED, REFUSED, 2),
        ("01", REFUSED, REFUSED, 2),
        ("cat", REFUSED, 0, REFUSED),
        ("eel", REFUSED, 2, 0),
        (True, REFUSED, REFUSED, 2),
        (7, 7, 7, REFUSED),  # the range is checked when the samples are read
    ],
)
def test_the_table_of_the_module(label, no_classes, names, numbers):
    for classes, column in ((NONE, no_classes), (NAMED, names), (NUMBERED, numbers)):
        if column == REFUSED:
            with pytest.raises(LabelsError):
                as_columns([label], 3, 1, classes=classes)
        else:
            assert as_columns([label], 3, 1, classes=classes)[0].tolist() == [column]


def test_one_hot_samples_are_columns_where_classes_are_numbers():
    one_hot = [[0, 1, 0], [0, 0, 1]]
    for classes in (["1", "2", "3"], [10, 20, 30], ["cat", "dog", "eel"]):
        assert as_columns(one_hot, 3, 2, classes=classes)[0].tolist() == [1, 2]


def test_a_stream_reads_the_text_of_a_number_as_a_column_beside_names():
    """An array refuses the mixture; a stream reads label by label, and a CSV file holds numbers as text."""
    lookup = ClassLookup(["cat", "dog"])
    assert lookup.columns(["dog", "0", "1.0", 1, "cow", "2", 2, "-1"]).tolist() == [1, 0, 1, 1, -1, -1, -1, -1]
    with pytest.raises(LabelsError, match="sample 1 has '0'"):
        as_columns(["dog", "0"], 2, 2, classes=["cat", "dog"])


def test_large_class_numbers_are_not_rounded():
    ids = [2**60, 2**60 + 1, 2**60 + 2]
    assert as_columns([ids[1], ids[2]], 3, 2, classes=ids)[0].tolist() == [1, 2]
    assert ClassLookup([str(k) for k in ids]).columns([ids[2], 2**60 + 3]).tolist() == [2, -1]


def test_data_may_hold_samples_of_no_class():
    assert columns_and_names([0, -1, 2])[0].tolist() == [0, -1, 2]
    assert columns_and_names(["0", "-1", "2"]) == (pytest.approx([0, -1, 2]), ("0", "1", "2"))
    assert columns_and_names([7, -1], [5, 7])[0].tolist() == [1, -1]
    assert columns_and_names([-1, 1], [-1, 1, 4])[0].tolist() == [0, 1]  # here -1 is a class
    assert columns_and_names(["a", "-1"], ["a", "b"])[0].tolist() == [0, -1]


def test_classes_with_the_same_name_are_matched_by_column_only():
    names = ["crane", "dog", "crane"]
    assert columns_and_names([0, 1, 2], names)[0].tolist() == [0, 1, 2]
    with pytest.raises(LabelsError, match="'crane' is the name of several columns"):
        columns_and_names(["dog", "crane"], names)


def test_identifiers_are_refused_as_columns():
    with pytest.raises(LabelsError, match="sample 1 has 20240131, which would be one of 20240132 classes"):
        columns_and_names([20240101, 20240131])
    assert MOST_CLASSES >= 100_000


@pytest.mark.parametrize("classes", [None, ["cat", "dog"]])
def test_numbers_beyond_int64_are_no_columns(classes):
    y = np.array([0, 2**64 - 1], np.uint64)  # as int64 the second would be -1: a sample of no class
    with pytest.raises(LabelsError, match="sample 1 has 18446744073709551615, which is no column"):
        columns_and_names(y, classes)


@pytest.mark.parametrize(
    "y",
    [["cat", None], [None, None], [float("nan"), 1.0], [0.5, 1.0], [1 + 1j, 0], [b"\xff", b"a"], [[1], [2, 3]], [[0, 1], [1, 0]],
     [np.float16(60000), np.float16("inf")]],
)  # fmt: skip
@pytest.mark.parametrize("classes", [None, ["cat", "dog"]])
def test_values_that_are_no_labels_are_refused(y, classes):
    labels = np.empty(2, object)
    labels[:] = y
    with pytest.raises(LabelsError):
        as_columns(labels, 2, 2, classes=classes)
    with pytest.raises(LabelsError):
        columns_and_names(labels, classes)


def test_a_bad_label_is_named_with_its_chunk():
    logits = np.random.default_rng(0).normal(size=(6, 3))
    chunks = [(logits[:4], ["a", "b", "c", "a"]), (logits[4:], ["a", "z"])]
    with pytest.raises(LabelsError, match=r"sample 1 has 'z'.*chunk 1, which begins at sample 4\.$"):
        driftcal.Uncalibrated(classes=list("abc")).fit(chunks)
    with pytest.raises(LabelsError, match=r"pass classes=\['a', 'b', 'c'\]"):
        driftcal.Uncalibrated().fit(chunks)


@pytest.mark.parametrize("use", [lambda x, y: from_arrays(x, y), lambda x, y: driftcal.open_source((x, y))])
def test_data_with_text_labels_ask_for_class_names(use):
    x = np.zeros((3, 4))
    with pytest.raises(DriftcalError, match=r"pass class_names=\['ant', 'bee'\] in the order of the model's outputs"):
        use(x, ["bee", "ant", "bee"])
    assert use(x, ["2", "0", "1"]).labels.tolist() == [2, 0, 1]


def test_a_file_of_text_labels_asks_for_class_names(tmp_path):
    path = tmp_path / "val.npz"
    np.savez(path, x=np.zeros((3, 4)), y=["bee", "ant", "bee"])
    with pytest.raises(DriftcalError, match="pass class_names="):
        driftcal.open_source(path)
    assert driftcal.open_source(path, class_names=["bee", "cow", "ant"]).labels.tolist() == [0, 2, 0]


def test_a_frame_whose_columns_were_sorted_as_text_is_refused():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 12)), columns=[f"p_{k}" for k in range(12)])
    y = (2 * frame.to_numpy() + rng.gumbel(size=frame.shape)).argmax(axis=1)
    as_text = frame[sorted(frame.columns)]
    for use in (
        lambda scores: driftcal.make_calibrator("ts").fit(scores, y),
        lambda scores: driftcal.metrics.evaluate(y, scores, score_type="logits"),
    ):
        use(frame)
        with pytest.raises(InputError, match="'p_10' stands where that of 2"):
            use(as_text)
