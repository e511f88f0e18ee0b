"""Labels to columns: which column of the model's outputs a label stands for.

One rule holds for arrays (`as_columns`, `columns_and_names`) and for single labels of a stream (`ClassLookup`). It
depends on the classes: none declared, names only (``["cat", "dog"]``), or some numbers (``[10, 20]``, ``["1", "2"]``).

=================== ======================= ============================= ========================
label               no classes              classes are names             some classes are numbers
=================== ======================= ============================= ========================
whole number 1, 1.0 column 1                column 1                      the class equal to 1
True, False         1, 0 of two classes     1, 0 of two classes           the class equal to 1, 0
text "1"            column 1                column 1, see below           the class equal to 1
text "1.0", "01"    error                   error; in a stream column 1   the class equal to 1
text "cat"          error                   the class "cat"               the class "cat"
one-hot sample      the column of its 1     the column of its 1           the column of its 1
=================== ======================= ============================= ========================

A label that matches no class is an error in an array and -1 (`NO_CLASS`) in a stream. `columns_and_names` has no scores
to compare shapes with, so it refuses one-hot samples.
An array of text is read as columns only if every label spells one: "1" beside "cat" is an error. A stream decides label
by label and cannot compare. It reads "1" and "1.0" as column 1, because CSV files hold numbers as text, and pandas
writes 1.0 where other labels are missing.

Text is never sorted: the order of names says nothing about the order of outputs. The exception is
`DriftCalibratedClassifier`, which sorts the classes as scikit-learn does (``np.unique``) and then calls `as_columns`.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from driftcal.core.validation import NUMBER_KINDS, as_array, column_names
from driftcal.errors import DriftcalError, InputError, LabelsError
from driftcal.types import AnyArray, Array, Labels

#: The label of a sample that belongs to none of the classes, in data sets that allow such samples.
NO_CLASS = -1
#: Text with more digits is no number: Python refuses to convert it, and no class has such a name.
_MAX_DIGITS = 4000

#: Text with more characters is no label. An array of text has the width of its longest one for every sample.
_MAX_CHARACTERS = 1000

#: Largest number of classes that labels alone may imply: a larger label is an identifier or a date.
MOST_CLASSES = 1_000_000

_COLUMN = re.compile(r"0|[1-9][0-9]{0,8}")  # the usual spelling of a column: "01" and "1.0" are names
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})")  # a column with the number of a class at its end
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

# numpy's codes of dtypes, `dtype.kind`
_TEXT, _BOOL, _FLOAT, _INTEGERS = "U", "b", "f", "iu"
#: Python objects, bytes, and numpy's text of variable length.
_OBJECTS = "OST"


def as_columns(
    y: AnyArray, n_classes: int, n_samples: int, *, classes: Sequence[Any] | None = None, argument: str = "classes"
) -> tuple[Labels, Array]:
    """The column of each label, and the class of each column.

    Whether integers lie in 0..C-1 is checked when the samples are read.

    Parameters
    ----------
    y
        Labels in any form that the module describes, one per sample; or (n_samples, n_classes) with a single 1 per
        sample.
    n_classes, n_samples
        The shape of the scores.
    classes
        The class of each column, in order. None: labels are columns.
    argument
        What the caller calls `classes`, for messages.

    >>> as_columns(["cat", "dog", "cat"], 2, 3, classes=["dog", "cat"])
    (array([1, 0, 1]), array(['dog', 'cat'], dtype='<U3'))
    >>> as_columns(["2", "10"], 12, 2)[0]
    array([ 2, 10])
    """
    if y is None:
        raise LabelsError("y must hold a label per sample; it is missing. Pass fit(logits, y).")
    if classes is not None:
        _check_ordered(classes, argument)
    array = as_array(_in_order_of_classes(y, classes), "y", LabelsError)
    is_one_hot = array.ndim >= 2 and array.shape[-1] == n_classes and array.size == n_samples * n_classes
    if is_one_hot:
        columns = from_one_hot(array.reshape(n_samples, n_classes))
        return columns, np.arange(n_classes) if classes is None else as_classes(classes, n_classes, argument)
    array = array.reshape(-1)
    if len(array) != n_samples:
        raise LabelsError(
            f"y must hold one label per sample; there are {n_samples} samples and {len(array)} labels. Were both cut from the same data?"
        )
    if classes is None:
        return _read_columns(_normalised(array), n_classes, argument), np.arange(n_classes)
    checked = as_classes(classes, n_classes, argument)
    return _match_classes(_normalised(array), checked.tolist(), argument), checked


def _in_order_of_classes(y: Any, classes: Sequence[Any] | None) -> Any:
    """`y`, or, for one-hot samples in a frame with a column per class, its columns in the order of `classes`."""
    names = list(getattr(y, "columns", ()))
    if classes is not None and names != list(classes) and sorted(map(str, names)) == sorted(map(str, classes)):
        return y[list(classes)]
    return y


def check_range(labels: Labels, n_classes: int) -> None:
    """Refuse labels outside 0..n_classes-1."""
    outside = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(outside):
        raise out_of_range(int(outside[0]), int(labels[outside[0]]), n_classes)


def out_of_range(sample: int, label: int, n_classes: int) -> LabelsError:
    """The error for a label outside 0..n_classes-1."""
    return LabelsError(
        f"labels must be 0..{n_classes - 1} for {n_classes} classes; sample {sample} has {label}. "
        "If your file counts from 1, subtract 1; leave out samples whose class is unknown."
    )


def columns_and_names(
    y: AnyArray, class_names: Sequence[Any] | None = None, *, argument: str = "class_names"
) -> tuple[Labels, tuple[str, ...]]:
    """The column of each label and the names of the classes, for data without scores.

    Without `class_names`, the number of classes is the largest label plus 1. -1 marks a sample of no class.

    >>> columns_and_names(["0", "2", "1"])
    (array([0, 2, 1]), ('0', '1', '2'))
    >>> columns_and_names([7, -1, 3], class_names=[3, 7])
    (array([ 1, -1,  0]), ('3', '7'))
    """
    array = as_array(y, "y", LabelsError)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1 or not len(array):
        raise LabelsError(
            f"y must hold one label per sample, shape (n,); its shape is {array.shape}. Take the argmax of one-hot labels."
        )
    if class_names is not None:
        names = list(class_names)
        columns = _match_classes(_normalised(array), names, argument, allow_no_class=True)
        return columns, tuple(str(name) for name in names)
    labels = _read_columns(_normalised(array), None, argument)
    n_classes = max(2, int(labels.max()) + 1)
    if n_classes > MOST_CLASSES:
        raise LabelsError(
            f"y must hold columns from 0; sample {labels.argmax()} has {labels.max()}, which would be one of {n_classes} classes. "
            f"Pass {argument}=[...] if labels are not columns."
        )
    return labels, tuple(str(column) for column in range(n_classes))


def in_order_of_names(
    labels: Labels, stored_names: Sequence[str], class_names: Sequence[str] | None
) -> tuple[Labels, tuple[str, ...]]:
    """The columns of labels that count the names of a data set, also if these names are numbers; and the names of the columns.

    >>> in_order_of_names(np.array([0, 2, -1]), ["0", "1", "10"], ["10", "1", "0"])
    (array([ 2,  0, -1]), ('10', '1', '0'))
    """
    stored, names = ([str(name) for name in listed] for listed in (stored_names, class_names or stored_names))
    is_named = set(stored) <= set(names)  # otherwise these are other names for the same columns
    if is_named and stored != names and labels.max() < len(stored):
        labels = np.array([*map(names.index, stored), NO_CLASS])[labels]
    return labels, tuple(names)


def as_classes(classes: Sequence[Any], n_classes: int, argument: str = "classes") -> Array:
    """The classes of `n_classes` columns, all different."""
    _check_ordered(classes, argument)
    names = as_array(list(classes), argument)
    if len(names) != n_classes or len(set(names.tolist())) != n_classes:
        raise InputError(
            f"{argument} must name each of the {n_classes} columns once; it holds {len(names)} names, "
            f"{len(set(names.tolist()))} of them different. List them in column order."
        )
    return names


def _check_ordered(classes: Any, argument: str) -> None:
    if isinstance(classes, set | frozenset):
        raise InputError(f"{argument} must come in the order of the columns; a set has none. Pass a list.")
    if not isinstance(classes, Iterable):
        kind = type(classes).__name__
        raise InputError(f"{argument} must be a list of names in the order of the columns; it is one {kind}.")


def declared_classes(scores: AnyArray, y: AnyArray, classes: Sequence[Any] | None) -> Sequence[Any] | None:
    """The class of each column: `classes`, or the column names of a frame that match the labels, or None."""
    names = column_names(scores)
    if classes is not None:
        _check_ordered(classes, "classes")
    if classes is None or not names:
        return _classes_of_frame(names, y) if classes is None else classes
    if list(classes) != names and sorted(map(str, classes)) == sorted(names):
        raise InputError(
            f"classes must come in the order of the frame's columns, {names[:3]} …; they are {list(classes)[:3]} …. Leave them out."
        )
    return classes


def check_numbered(names: Sequence[str], owner: str, error: type[DriftcalError] = InputError) -> None:
    """Refuse columns that are numbered by their names in another order, as after sorting: p_0, p_1, p_10, p_2, …"""
    numbered = [_NUMBERED.fullmatch(name) for name in names]
    numbers = [int(match[2]) for match in numbered if match]
    are_classes = len({match and match[1] for match in numbered}) == 1 and len(numbers) == len(names) > 1
    if are_classes and sorted(numbers) in (list(range(len(names))), list(range(1, len(names) + 1))):
        for name, number, place in zip(names, numbers, sorted(numbers), strict=True):
            if number != place:
                raise error(
                    f"the columns of {owner} must be in the order of the classes; {name!r} stands where that of {place} is expected. "
                    "Sort them by number, or name the class of each column."
                )


def _classes_of_frame(names: list[str] | None, y: AnyArray) -> list[str] | None:
    """The column names of a frame, if all labels are among them or if one-hot labels have the same columns."""
    if not names or y is None:
        return None
    if (label_names := column_names(y)) and sorted(label_names) == sorted(names):
        return names
    with contextlib.suppress(TypeError, ValueError):  # labels that cannot be compared; as_columns refuses them
        if set(np.ravel(np.asarray(y, object)).tolist()) <= set(names):
            return names
    check_numbered(names, "the frame")
    return None


class ClassLookup:
    """The column that a single label stands for, by the table of this module.

    Text is compared first: "1" is the class "1". Then numbers: 1, 1.0 and "1.0" are the class "1" too. If no class is a
    number, numbers are columns. Among the classes "1", "2" and "3", a 0 is unknown.

    >>> ClassLookup(["cat", "dog"]).columns(["dog", "cow", 0]).tolist()
    [1, -1, 0]
    >>> ClassLookup(["1", "2", "3"]).columns([1, "2.0", 0]).tolist()
    [0, 1, -1]
    """

    def __init__(self, classes: Sequence[Any]) -> None:
        # reversed: of two classes with the same name, the first is used
        self.by_text: dict[str, int] = {str(name): column for column, name in reversed(list(enumerate(classes)))}
        numbers = [_number(name) for name in classes]
        #: Whether some class is a number. Labels that are numbers are then classes, not columns.
        self.has_numbers = any(number is not None for number in numbers)
        if not self.has_numbers:
            numbers = list(range(len(classes)))
        self.by_number: dict[int | float, int] = {
            number: column for column, number in reversed(list(enumerate(numbers))) if number is not None
        }

    def column(self, label: Any) -> int:
        """The column of `label`, or -1."""
        try:
            column = self.by_text.get(str(label))
        except ValueError:  # Python writes no whole numbers of more than 4,300 digits
            return NO_CLASS
        if column is not None:
            return column
        number = _number(label)
        return NO_CLASS if number is None else self.by_number.get(number, NO_CLASS)

    def columns(self, labels: Iterable[Any]) -> Labels:
        """The column of each label, -1 if it is unknown."""
        return np.array([self.column(label) for label in labels], np.int64).reshape(-1)


def is_missing(label: Any) -> bool:
    """Whether a label is absent: None, NaN, or pandas' NA.

    >>> [is_missing(label) for label in (None, float("nan"), 0, "", [1])]
    [True, True, False, False, False]
    """
    if label is None or type(label).__name__ in ("NAType", "NaTType"):  # without importing pandas
        return True
    return isinstance(label, float | np.floating) and math.isnan(label)


def from_one_hot(samples: Array) -> Labels:
    """The column of the single 1 of each sample (n, classes)."""
    if samples.dtype.kind not in NUMBER_KINDS or not np.isin(samples, (0, 1)).all():
        raise LabelsError(
            f"y must be integers, names or one-hot samples of 0 and 1; its shape is {samples.shape} but it holds other values. "
            "Are the arguments swapped?"
        )
    ones = samples.astype(np.int64).sum(axis=1)
    bad = np.flatnonzero(ones != 1)
    if len(bad):
        raise LabelsError(
            f"one-hot y must have a single 1 per sample; sample {bad[0]} has {ones[bad[0]]}. Multi-label data is not supported."
        )
    labels: Labels = samples.argmax(axis=1)
    return labels


def _normalised(array: Array) -> Array:
    """Labels as an array of one dtype: text, integers or truth values."""
    if array.dtype.kind in _OBJECTS:
        array = _from_objects(array)
    if array.dtype.kind == _FLOAT:
        array = array.astype(np.float64)
        bad = np.flatnonzero(~((np.floor(array) == array) & (np.abs(array) < 2**53)))  # NaN is not equal to itself
        if len(bad):
            raise LabelsError(
                f"y must hold whole numbers or class names; sample {bad[0]} has {array[bad[0]]}. Are the arguments swapped?"
            )
        return array.astype(np.int64)
    if array.dtype.kind not in _INTEGERS + _BOOL + _TEXT:
        raise LabelsError(
            f"y must hold integers, class names or one-hot samples; it has dtype {array.dtype}. Convert it first."
        )
    return array


def _from_objects(array: Array) -> Array:
    try:
        values = [label.decode() if isinstance(label, bytes) else label for label in array.tolist()]
    except UnicodeDecodeError as error:
        raise LabelsError(f"y must hold names in UTF-8; reading bytes failed: {error}. Decode them first.") from error
    kinds = {
        "missing values" if is_missing(label) else "text" if isinstance(label, str) else "numbers" for label in values
    }
    if len(kinds) > 1 or kinds == {"missing values"}:
        raise LabelsError(
            f"y must hold class names or numbers, one kind for all samples; it holds {' and '.join(sorted(kinds))}. "
            "Convert one into the other, and drop samples without a label."
        )
    labels = text_labels(values) if kinds == {"text"} else as_array(values, "y", LabelsError)
    if labels.ndim != 1:
        raise LabelsError(f"y must hold one label per sample; sample 0 has {values[0]!r}. Choose one of them.")
    return labels


def text_labels(values: Sequence[str]) -> Array:
    """Labels of text as an array."""
    longest = max(range(len(values)), key=lambda i: len(values[i]), default=0)
    if len(values) and len(values[longest]) > _MAX_CHARACTERS:
        raise LabelsError(
            f"labels must have at most {_MAX_CHARACTERS:,} characters; sample {longest} has {len(values[longest]):,}, beginning with "
            f"{values[longest][:20]!r}. Is it another column?"
        )
    return np.array(values, str)


def _read_columns(labels: Array, n_classes: int | None, argument: str) -> Labels:
    """Labels without declared classes: numbers, or text that spells them. Without `n_classes`, -1 is allowed."""
    if labels.dtype.kind == _BOOL:
        return _from_truth_values(labels, n_classes)
    if labels.dtype.kind == _TEXT:
        texts = set(labels.tolist()) - ({str(NO_CLASS)} if n_classes is None else set())
        if not all(_COLUMN.fullmatch(text) and (n_classes is None or int(text) < n_classes) for text in texts):
            raise _unknown_order(sorted(texts), n_classes, argument)
    return _whole_numbers(labels)


def _whole_numbers(labels: Array) -> Labels:
    """Labels as int64. Larger unsigned numbers would become negative, and -1 is no class."""
    if labels.dtype.kind == "u" and labels.size and labels.max() > np.iinfo(np.int64).max:
        raise LabelsError(
            f"y must hold columns or classes; sample {labels.argmax()} has {labels.max()}, which is no column. Is it an identifier?"
        )
    return labels.astype(np.int64)


def _match_classes(labels: Array, classes: list[Any], argument: str, *, allow_no_class: bool = False) -> Labels:
    """Labels with declared classes: classes, or columns if no class is a number."""
    lookup = ClassLookup(classes)
    if labels.dtype.kind == _BOOL and not lookup.has_numbers:
        return _from_truth_values(labels, len(classes))
    if _are_columns(labels, lookup, len(classes)):
        return _whole_numbers(labels)
    values, first_sample, inverse = np.unique(labels, return_index=True, return_inverse=True)
    if lookup.has_numbers:
        columns = lookup.columns(values.tolist())
    else:  # here "1" is a name, because some other label does not spell a column
        columns = np.array([lookup.by_text.get(name, NO_CLASS) for name in values.tolist()], np.int64)
    is_unknown = columns == NO_CLASS
    if allow_no_class:
        is_unknown &= values.astype(str) != str(NO_CLASS)
    if is_unknown.any():
        sample = int(first_sample[is_unknown].min())
        raise _unknown_label(sample, labels[sample].item(), classes, argument)
    _check_names_differ(values, classes, argument)
    return columns[inverse.reshape(-1)]


def _are_columns(labels: Array, lookup: ClassLookup, n_classes: int) -> bool:
    """Whether labels are columns and not classes."""
    if lookup.has_numbers:  # the classes 0, 1, 2, … are equal to their columns, so labels need no search
        return labels.dtype.kind in _INTEGERS and lookup.by_number == {k: k for k in range(n_classes)}
    if labels.dtype.kind != _TEXT:
        return True
    return all(_COLUMN.fullmatch(text) and text not in lookup.by_text for text in set(labels.tolist()))


def _check_names_differ(labels: Array, classes: list[Any], argument: str) -> None:
    """Refuse text labels that are the name of several classes."""
    names = list(map(str, classes))
    ambiguous = [label for label in labels.tolist() if isinstance(label, str) and names.count(label) > 1]
    if ambiguous:
        raise LabelsError(
            f"{argument} must have different names for classes that labels name; {ambiguous[0]!r} is the name of several columns. "
            "Pass labels as column numbers, or rename the classes."
        )


def _unknown_label(sample: int, label: Any, classes: list[Any], argument: str) -> LabelsError:
    listed = ", ".join(map(repr, classes[:10])) + (", ..." if len(classes) > 10 else "")
    return LabelsError(
        f"labels must be among {argument}, {listed}; sample {sample} has {label!r}. "
        f"Correct it, or pass {argument}=[...] with every class in the order of the model's outputs."
    )


def _from_truth_values(array: Array, n_classes: int | None) -> Labels:
    if n_classes is not None and n_classes != 2:
        raise LabelsError(
            f"y must hold a column 0..{n_classes - 1} or a class per sample; it holds truth values, which label two classes. "
            "Pass integers or class names."
        )
    return array.astype(np.int64)


def _unknown_order(names: list[str], n_classes: int | None, argument: str) -> LabelsError:
    """The error for text labels without declared classes."""
    all_listed = len(names) <= 5
    listed = ", ".join(map(repr, names if all_listed else names[:3])) + ("" if all_listed else ", ...")
    # some classes may have no sample: their names are not among the labels
    example = f"{listed}, ..." if all_listed and n_classes not in (None, len(names)) else listed
    of_model = (
        " With a model: open_model(model, class_names=[...]). On the command line: --classes A,B,..."
        if argument == "class_names"
        else ""
    )
    return LabelsError(
        f"labels are text ({listed}), and nothing says which output each name belongs to: pass {argument}=[{example}] "
        f"in the order of the model's outputs.{of_model}"
    )


def _number(value: Any) -> int | float | None:
    """`value` as a number, exact where it is whole; None for other text, NaN and infinity."""
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text) or len(text) > _MAX_DIGITS:
            return None
        value = float(text) if set(text) - set("+-0123456789") else int(text)
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
