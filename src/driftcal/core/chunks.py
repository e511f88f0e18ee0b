"""What comes as more than one array: sources of chunks, and frames whose columns have names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from driftcal import checks
from driftcal.errors import InputError, LogitsError
from driftcal.types import AnyArray, Array, Labels, Logits, Weights


def classes_of_chunks(source: Any, classes: Sequence[Any] | None) -> Array:
    """The classes of a source of chunks, from `classes` or the width of the first chunk."""
    if iter(source) is source:
        raise LogitsError(
            "a source of chunks must be readable more than once; an iterator or generator was given, which is empty after one pass. "
            "Pass an object whose __iter__ starts anew."
        )
    for chunk in source:
        scores, _ = checks.as_logits(_parts(chunk)[0])
        return np.arange(scores.shape[1]) if classes is None else checks.as_classes(classes, scores.shape[1])
    raise LogitsError(
        "logits must hold at least one row; the source of chunks yields nothing. Check the path or the filter behind it."
    )


def _parts(chunk: Any) -> tuple[Any, Any, Any]:
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise LogitsError(
            f"a source must yield (logits, y) or (logits, y, sample_weight); it yielded {type(chunk).__name__}. Yield tuples."
        )
    return chunk[0], chunk[1], chunk[2] if len(chunk) == 3 else None


def iterate_chunks(source: Any, classes: Array) -> Iterator[tuple[Logits, Labels, Weights | None]]:
    """The chunks of `source`, each checked like an array."""
    first: list[str] | None = None
    for chunk in source:
        logits, y, sample_weight = _parts(chunk)
        first = first or column_names(logits)
        check_columns(logits, first, "a later chunk", "", LogitsError, "Put the columns of all chunks into one order.")
        scores, _ = checks.as_logits(logits)
        if scores.shape[1] != len(classes):
            raise LogitsError(
                f"all chunks must have {len(classes)} columns, as the first; one has {scores.shape[1]}. Are two models mixed?"
            )
        labels, _ = checks.as_labels(y, len(classes), len(scores), classes=classes.tolist())
        yield scores, labels, checks.as_weights(sample_weight, len(scores))


def column_names(logits: AnyArray) -> list[str] | None:
    """The names of a frame's columns, if all of them are strings."""
    names = list(getattr(logits, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def check_columns(
    frame: AnyArray, fitted: Sequence[Any] | None, name: str, owner: str, error: type[InputError], way_out: str = ""
) -> None:
    """Refuse a frame whose columns are not those of fit in the same order; what has no names passes."""
    names = column_names(frame)
    if names and fitted is not None and names != list(fitted):
        raise error(
            f"{name} must have the columns of fit in the same order, {list(fitted)[:3]} …; they have {names[:3]} …. "
            f"{way_out or f'Pass {name}[{owner}.feature_names_in_].'}"
        )


def class_order(scores: AnyArray, y: AnyArray, classes: Sequence[Any] | None) -> Sequence[Any] | None:
    """The class of each column, in order: as given, or as the columns of a frame are named; None where nothing says it."""
    names = column_names(scores)
    if classes is None or not names:
        return _column_classes(names, y) if classes is None else classes
    given = list(classes)
    if given != names and sorted(map(str, given)) == sorted(names):
        raise InputError(
            f"classes must come in the order of the frame's columns, {names[:3]} …; they are {given[:3]} …. Leave them out."
        )
    return classes


def _column_classes(names: list[str] | None, y: AnyArray) -> list[str] | None:
    """The names of a frame's columns, if all labels are among them, or if they name the columns of one-hot labels."""
    if not names or y is None:
        return None
    if (own := column_names(y)) and sorted(own) == sorted(names):
        return names
    with contextlib.suppress(TypeError, ValueError):  # y is checked, and refused, elsewhere
        if set(np.ravel(np.asarray(y, object)).tolist()) <= set(names):
            return names
    return None
