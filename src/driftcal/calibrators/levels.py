"""The rungs of a noise ladder: labelled rows apart by the level they come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Labels, Logits, Weights


def split_by_level(rows: LabelledLogits, levels: AnyArray) -> list[LabelledLogits]:
    """The rows of each level, the clean ones (level 0) first; without levels all rows are clean.

    A rung whose rows all have weight 0 is left out.

    >>> rows = LabelledLogits([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]], [1, 0, 1])
    >>> [rung.n for rung in split_by_level(rows, [0, 0, 1])]
    [2, 1]
    """
    if levels is None:
        return [rows]
    logits, labels, weights = rows._array or _gathered(rows)
    steps = _as_levels(levels, rows.n)
    by_level = []
    for step in np.unique(steps):
        chosen = _where(steps == step)
        weight = None if weights is None else weights[chosen]
        if weight is None or weight.sum() > 0:
            by_level.append(LabelledLogits(logits[chosen], labels[chosen], weight))
        elif step == 0:
            raise InputError("the clean level needs rows with weight; all rows of level 0 have weight 0.")
    return by_level


def level_weights(n_levels: int, clean_weight: float | None) -> list[float] | None:
    """The weight of a row of each rung, where the clean one is to have the share `clean_weight` of all weight.

    None is the paper's 1/N: every rung alike. Weights are 1 on average, so that they count rows.

    >>> level_weights(5, 0.6)
    [3.0, 0.5, 0.5, 0.5, 0.5]
    """
    if clean_weight is None:
        return None
    if isinstance(clean_weight, bool) or not isinstance(clean_weight, (int, float)) or not 0 < clean_weight < 1:
        raise InputError(
            f"clean_weight must be between 0 and 1, the share of the clean rows in all weight; it is {clean_weight!r}. "
            "0.5 is a good middle, None weights all levels alike as the paper does."
        )
    if n_levels == 1:
        return [1.0]
    return [n_levels * clean_weight] + [n_levels * (1 - clean_weight) / (n_levels - 1)] * (n_levels - 1)


def joined(by_level: Sequence[LabelledLogits], shares: Sequence[float]) -> LabelledLogits:
    """All rungs as one set of rows in which each has its share of all weight.

    >>> one, two = LabelledLogits([[0.0, 1.0], [2.0, 0.0]], [1, 0]), LabelledLogits([[0.0, 3.0]], [1])
    >>> joined([one, two], [0.5, 0.5]).weight
    3.0
    """
    parts = [level_data._array or _gathered(level_data) for level_data in by_level]
    total = sum(level_data.weight for level_data in by_level)
    weights = [
        (np.ones(len(labels)) if given is None else given) * (share * total / level_data.weight)
        for (_, labels, given), share, level_data in zip(parts, shares, by_level, strict=True)
    ]
    logits, labels = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return LabelledLogits(logits, labels, np.concatenate(weights), classes=None)


def _gathered(rows: LabelledLogits) -> tuple[Logits, Labels, Weights]:
    """Rows that are read chunk by chunk, in memory: their rungs are asked for one by one."""
    blocks = list(rows.blocks())
    logits, labels, weights = ([getattr(b, name) for b in blocks] for name in ("logits", "labels", "weights"))
    return np.concatenate(logits), np.concatenate(labels), np.concatenate(weights)


def _as_levels(levels: AnyArray, n: int) -> Array:
    values = validation.as_array(levels, "levels").reshape(-1)
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((np.floor(values) == values).all()))
    if not whole or len(values) != n:
        raise InputError(
            f"levels must hold one whole number per row of logits; there are {n} rows and it has {len(values)} entries of dtype "
            f"{values.dtype}. Number the rungs of the ladder, 0 for clean."
        )
    if values.min() != 0:
        raise InputError(
            f"levels must count from 0, the clean rows; the least is {values.min()}. Add the clean rows as level 0."
        )
    return values


def _where(mask: Array) -> slice | Array:
    """The places that are set: a slice where they are neighbours, so that a rung of a large array is no copy."""
    places = np.flatnonzero(mask)
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places
