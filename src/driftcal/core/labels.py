"""Labels to columns: the only place that decides which column of the outputs a label stands for.

Integers, whole floats and one-hot samples are columns; so are truth values where there are two classes. Text that spells
columns ("0", "1", ..., "10") is read as numbers, never sorted. Any other text needs the classes in the order of the columns,
because nothing else says which output belongs to which name. Where classes are numbers themselves (``classes=[10, 20]``),
labels are matched by value.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from driftcal.core.validation import as_array, column_names
from driftcal.errors import InputError, LabelsError
from driftcal.types import AnyArray, Array, Labels

#: The label of a sample that belongs to none of the classes, in data sets that allow such samples.
NO_CLASS = -1

#: Largest number of classes that is read off the labels alone: a larger label is an identifier or a date.
MOST_CLASSES = 1_000_000

_COLUMN = re.compile(r"0|[1-9][0-9]{0,8}")  # the canonical decimal of a column: "01" and "1.0" are names
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def as_columns(
    y: AnyArray, n_classes: int, n_samples: int, *, classes: Sequence[Any] | None = None, argument: str = "classes"
) -> tuple[Labels, Array]:
    """The column of each label, and the class of each column.

    Whether integers lie in 0..C-1 is checked when the samples are read.

    Parameters
    ----------
    y
        Labels in any form that the module describes, one per sample; or (n_samples, n_classes) with a single 1 per sample.
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
    frame: Any = y
    names = list(getattr(frame, "columns", ()))
    if classes is not None and names != list(classes) and sorted(map(str, names)) == sorted(map(str, classes)):
        frame = frame[list(classes)]  # one-hot samples in a frame whose columns are in another order
    array = as_array(frame, "y", LabelsError)
    if array.ndim >= 2 and array.shape[-1] == n_classes and array.size == n_samples * n_classes:
        array = _from_one_hot(array.reshape(n_samples, n_classes))
    array = array.reshape(-1)
    if len(array) != n_samples:
        raise LabelsError(
            f"y must hold one label per sample; there are {n_samples} samples and {len(array)} labels. Were both cut from the same data?"
        )
    if classes is None:
        return _without_classes(_plain(array), n_classes, argument), np.arange(n_classes)
    checked = as_classes(classes, n_classes, argument)
    return _with_classes(_plain(array), checked.tolist(), argument), checked


def check_range(labels: Labels, n_classes: int) -> None:
    """Refuse labels that are no columns."""
    outside = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(outside):
        raise out_of_range(int(outside[0]), int(labels[outside[0]]), n_classes)


def out_of_range(sample: int, label: int, n_classes: int) -> LabelsError:
    """The error for a label that is no column."""
    return LabelsError(
        f"labels must be 0..{n_classes - 1} for {n_classes} classes; sample {sample} has {label}. "
        "If your file counts from 1, subtract 1; leave out samples whose class is unknown."
    )


def columns_and_names(
    y: AnyArray, class_names: Sequence[Any] | None = None, *, argument: str = "class_names"
) -> tuple[Labels, tuple[str, ...]]:
    """The column of each label, and the names of the classes, of data whose number of classes only the labels tell.

    Without `class_names` there are as many classes as the largest label says. -1 marks a sample of no class.

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
        return _with_classes(_plain(array), names, argument, allow_no_class=True), tuple(str(name) for name in names)
    labels = _without_classes(_plain(array), None, argument)
    n_classes = max(2, int(labels.max()) + 1)
    if n_classes > MOST_CLASSES:
        raise LabelsError(
            f"y must hold columns from 0; sample {labels.argmax()} has {labels.max()}, which would be one of {n_classes} classes. "
            f"Pass {argument}=[...] if labels are not columns."
        )
    return labels, tuple(str(column) for column in range(n_classes))


def as_classes(classes: Sequence[Any], n_classes: int, argument: str = "classes") -> Array:
    """The classes of `n_classes` columns, all different."""
    if isinstance(classes, set | frozenset):
        raise InputError(f"{argument} must come in the order of the columns; a set has none. Pass a list.")
    names = as_array(list(classes), argument)
    if len(names) != n_classes or len(set(names.tolist())) != n_classes:
        raise InputError(
            f"{argument} must name each of the {n_classes} columns once; it holds {len(names)} names, "
            f"{len(set(names.tolist()))} of them different. List them in column order."
        )
    return names


def declared_classes(scores: AnyArray, y: AnyArray, classes: Sequence[Any] | None) -> Sequence[Any] | None:
    """The class of each column: `classes`, or the column names of a frame that match the labels; None if nothing says it."""
    names = column_names(scores)
    if classes is None or not names:
        return _classes_of_frame(names, y) if classes is None else classes
    if list(classes) != names and sorted(map(str, classes)) == sorted(names):
        raise InputError(
            f"classes must come in the order of the frame's columns, {names[:3]} …; they are {list(classes)[:3]} …. Leave them out."
        )
    return classes


def _classes_of_frame(names: list[str] | None, y: AnyArray) -> list[str] | None:
    """The column names of a frame, if all labels are among them or if one-hot labels have the same columns."""
    if not names or y is None:
        return None
    if (label_names := column_names(y)) and sorted(label_names) == sorted(names):
        return names
    with contextlib.suppress(TypeError, ValueError):  # as_columns refuses such labels and says why
        if set(np.ravel(np.asarray(y, object)).tolist()) <= set(names):
            return names
    return None


class ClassLookup:
    """The column that a single label stands for.

    A label that spells a class comes first. 1, 1.0 and "1.0" are the class "1" as well. A whole number that is no class counts
    columns from 0, but only where no class is a number: among the classes "1", "2" and "3" a 0 is a mistake.

    >>> ClassLookup(["cat", "dog"]).columns(["dog", "cow", 0]).tolist()
    [1, -1, 0]
    >>> ClassLookup(["1", "2", "3"]).columns([1, "2.0", 0]).tolist()
    [0, 1, -1]
    """

    def __init__(self, classes: Sequence[Any]) -> None:
        # reversed: of two classes of one name the first counts
        self.by_text: dict[str, int] = {str(name): column for column, name in reversed(list(enumerate(classes)))}
        numbers = [_number(name) for name in classes]
        #: Whether numbers are matched with classes by value, and not counted as columns.
        self.has_numbers = any(number is not None for number in numbers)
        if not self.has_numbers:
            numbers = list(range(len(classes)))
        self.by_number: dict[int | float, int] = {
            number: column for column, number in reversed(list(enumerate(numbers))) if number is not None
        }

    def column(self, label: Any) -> int:
        """The column of `label`, or -1."""
        column = self.by_text.get(str(label))
        if column is not None:
            return column
        number = _number(label)
        return NO_CLASS if number is None else self.by_number.get(number, NO_CLASS)

    def columns(self, labels: Iterable[Any]) -> Labels:
        """The column of each label, -1 where it is no class."""
        return np.array([self.column(label) for label in labels], np.int64).reshape(-1)


def is_missing(label: Any) -> bool:
    """Whether a label is absent: None, NaN, or pandas' NA.

    >>> [is_missing(label) for label in (None, float("nan"), 0, "", [1])]
    [True, True, False, False, False]
    """
    if label is None or type(label).__name__ in ("NAType", "NaTType"):  # without importing pandas
        return True
    return isinstance(label, float | np.floating) and math.isnan(label)


def _from_one_hot(samples: Array) -> Labels:
    if samples.dtype.kind not in "fiub" or not np.isin(samples, (0, 1)).all():
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


def _plain(array: Array) -> Array:
    """Labels as an array of text, whole numbers or truth values."""
    if array.dtype.kind in "OST":
        array = _from_objects(array)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~((np.floor(array) == array) & (np.abs(array) < 2**53)))  # NaN is not equal to itself
        if len(bad):
            raise LabelsError(
                f"y must hold whole numbers or class names; sample {bad[0]} has {array[bad[0]]}. Are the arguments swapped?"
            )
        return array.astype(np.int64)
    if array.dtype.kind not in "iubU":
        raise LabelsError(
            f"y must hold integers, class names or one-hot samples; it has dtype {array.dtype}. Convert it first."
        )
    return array


def _from_objects(array: Array) -> Array:
    values = [label.decode() if isinstance(label, bytes) else label for label in array.tolist()]
    kinds = {
        "missing values" if is_missing(label) else "text" if isinstance(label, str) else "numbers" for label in values
    }
    if len(kinds) > 1 or kinds == {"missing values"}:
        raise LabelsError(
            f"y must hold class names or numbers, one kind for all samples; it holds {' and '.join(sorted(kinds))}. "
            "Convert one into the other, and drop samples without a label."
        )
    return np.array(values, str) if kinds == {"text"} else np.array(values)


def _without_classes(array: Array, n_classes: int | None, argument: str) -> Labels:
    """Labels that can only be columns: numbers, or text that spells them. Without `n_classes`, -1 is no class."""
    if array.dtype.kind == "b":
        return _from_truth_values(array, n_classes)
    if array.dtype.kind == "U":
        texts = set(array.tolist()) - ({str(NO_CLASS)} if n_classes is None else set())
        if not all(_COLUMN.fullmatch(text) and (n_classes is None or int(text) < n_classes) for text in texts):
            raise _unknown_order(sorted(texts), n_classes, argument)
    return array.astype(np.int64)


def _with_classes(array: Array, classes: list[Any], argument: str, *, allow_no_class: bool = False) -> Labels:
    """Labels by class, and columns where no class is a number."""
    lookup = ClassLookup(classes)
    if not lookup.has_numbers:
        if array.dtype.kind == "b":
            return _from_truth_values(array, len(classes))
        if array.dtype.kind != "U" or _spells_columns(array, lookup):
            return array.astype(np.int64)
    elif array.dtype.kind in "iu" and lookup.by_number == {k: k for k in range(len(classes))}:
        return array.astype(np.int64)
    values, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    find = lookup.column if lookup.has_numbers else lambda name: lookup.by_text.get(name, NO_CLASS)
    columns = np.array([find(value) for value in values.tolist()], np.int64)
    unknown = columns < 0
    if allow_no_class:
        unknown &= values.astype(str) != str(NO_CLASS)
    if unknown.any():
        sample = int(first[unknown].min())
        shown = ", ".join(map(repr, classes[:10])) + (", ..." if len(classes) > 10 else "")
        raise LabelsError(
            f"labels must be among {argument}, {shown}; sample {sample} has {array[sample].item()!r}. "
            f"Correct it, or pass {argument}=[...] with every class in the order of the model's outputs."
        )
    twice = [name for name in values.tolist() if isinstance(name, str) and list(map(str, classes)).count(name) > 1]
    if twice:
        raise LabelsError(
            f"{argument} must tell classes apart that labels name; {twice[0]!r} is the name of several columns. "
            "Pass labels as column numbers, or rename the classes."
        )
    return columns[inverse.reshape(-1)]


def _spells_columns(array: Array, lookup: ClassLookup) -> bool:
    return all(_COLUMN.fullmatch(text) and text not in lookup.by_text for text in set(array.tolist()))


def _from_truth_values(array: Array, n_classes: int | None) -> Labels:
    if n_classes is not None and n_classes != 2:
        raise LabelsError(
            f"y must hold a column 0..{n_classes - 1} or a class per sample; it holds truth values, which label two classes. "
            "Pass integers or class names."
        )
    return array.astype(np.int64)


def _unknown_order(names: list[str], n_classes: int | None, argument: str) -> LabelsError:
    few = names[: 5 if len(names) <= 5 else 3]
    shown = ", ".join(map(repr, few)) + ("" if few == names else ", ...")
    wish = shown if few != names or n_classes in (None, len(names)) else f"{shown}, ..."
    return LabelsError(
        f"labels are text ({shown}), and nothing says which output each name belongs to: pass {argument}=[{wish}] "
        "in the order of the model's outputs."
    )


def _number(value: Any) -> int | float | None:
    """`value` as a number, exact where it is whole; None for other text, NaN and infinity."""
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return None
        value = float(text) if set(text) - set("+-0123456789") else int(text)
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
