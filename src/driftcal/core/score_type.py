"""Whether scores are logits or probabilities: the caller says it, and values are never used to guess."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.core.validation import from_probabilities, is_chunked
from driftcal.errors import InputError, UnknownName
from driftcal.types import AnyArray

#: What scores can be.
SCORE_TYPES = ("logits", "probabilities")


def resolve_score_type(scores: Any, score_type: str | None, *, default: str = "logits", name: str = "scores") -> str:
    """`score_type`, or `default` for scores with a column per class; scores with one column need `score_type`.

    A single column is ambiguous: 0.7 is a probability of class 1 or a log-odds of class 1, and both are valid.

    >>> resolve_score_type([[0.0, 1.0, 2.0]], None), resolve_score_type([0.7], "probabilities")
    ('logits', 'probabilities')
    """
    if score_type is not None:
        if score_type not in SCORE_TYPES:
            raise UnknownName.of("score_type", str(score_type), SCORE_TYPES)
        return score_type
    if has_one_column(scores):
        raise InputError(
            f"{name} with one column need score_type: they are log-odds or probabilities of class 1, and values do not show "
            f"which; their shape is {_shape(scores)}. "
            'Pass score_type="probabilities" or score_type="logits".'
        )
    return default


def has_one_column(scores: Any) -> bool:
    """Whether scores are those of class 1 alone: one axis, or a last axis of length 1.

    >>> has_one_column([0.2, 0.7]), has_one_column([[0.2], [0.7]]), has_one_column([[0.2, 0.8]])
    (True, True, False)
    """
    shape = _shape(scores)
    return shape is not None and (len(shape) == 1 or (len(shape) > 1 and shape[-1] == 1))


def _shape(scores: Any) -> tuple[int, ...] | None:
    """The shape of an array or of the first chunk of a source; None if it has none."""
    if is_chunked(scores):
        first = None if iter(scores) is scores else next(iter(scores), None)  # an iterator would lose its first chunk
        scores = first[0] if isinstance(first, tuple) and first else None
    try:
        return None if scores is None else tuple(np.shape(scores))
    except ValueError:  # ragged lists have no shape; the check of the scores refuses them later
        return None


def to_logits(scores: AnyArray, score_type: str) -> AnyArray:
    """Scores of either type as logits."""
    return scores if score_type == "logits" else from_probabilities(scores)
