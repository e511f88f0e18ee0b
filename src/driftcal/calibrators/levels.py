"""Splitting samples by their perturbation level, and the weight of each level."""

from __future__ import annotations

import numpy as np

from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.scalars import is_number
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array


def split_by_level(data: LabelledLogits, levels: AnyArray) -> list[LabelledLogits]:
    """The samples of each level, level 0 (clean) first; without levels all samples are clean.

    A level whose samples all have weight 0 is left out.

    >>> data = LabelledLogits([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]], [1, 0, 1])
    >>> [part.n_samples for part in split_by_level(data, [0, 0, 1])]
    [2, 1]
    """
    return list(number_levels(data, levels).values())


def number_levels(data: LabelledLogits, levels: AnyArray) -> dict[int, LabelledLogits]:
    """As `split_by_level`, by the number of the level."""
    if levels is None:
        return {0: data}
    logits, labels, weights = data.arrays()
    level_of_sample = _as_levels(levels, data.n_samples)
    by_level = {}
    for level in np.unique(level_of_sample):
        chosen = _indices(level_of_sample == level)
        weight = None if weights is None else weights[chosen]
        if weight is None or weight.sum() > 0:
            by_level[int(level)] = LabelledLogits(logits[chosen], labels[chosen], weight)
        elif level == 0:
            raise InputError("the clean level needs samples with weight; all samples of level 0 have weight 0.")
    return by_level


def level_weights(n_levels: int, clean_weight: float | None) -> list[float] | None:
    """The weight of one sample of each level, so that the clean level has the share `clean_weight` of all weight.

    Weights are 1 on average. None is the paper's choice: every level has the same weight, 1/N.

    >>> level_weights(5, 0.6)
    [3.0, 0.5, 0.5, 0.5, 0.5]
    """
    if clean_weight is None:
        return None
    check_clean_weight(clean_weight)
    if n_levels == 1:
        return [1.0]
    return [n_levels * clean_weight] + [n_levels * (1 - clean_weight) / (n_levels - 1)] * (n_levels - 1)


def check_clean_weight(clean_weight: float) -> None:
    """Refuse a clean weight that is no share between 0 and 1."""
    if not is_number(clean_weight) or not 0 < clean_weight < 1:
        raise InputError(
            f"clean_weight must be between 0 and 1, the share of the clean samples in all weight; it is {clean_weight!r}. "
            "0.5 is a usual middle; None weights all levels alike, as the paper does."
        )


def _as_levels(levels: AnyArray, n_samples: int) -> Array:
    values = validation.as_array(levels, "levels").reshape(-1)
    are_whole = values.dtype.kind in "iu" or (
        values.dtype.kind == "f" and bool((np.isfinite(values) & (np.floor(values) == values)).all())
    )
    if not are_whole or len(values) != n_samples:
        raise InputError(
            f"levels must hold one whole number per sample of logits; there are {n_samples} samples and it has {len(values)} entries "
            f"of dtype {values.dtype}. Number the perturbation levels, 0 for clean."
        )
    if values.min() != 0:
        raise InputError(
            f"levels must count from 0, the clean samples; the least is {values.min()}. Add the clean samples as level 0."
        )
    return values


def _indices(mask: Array) -> slice | Array:
    """The indices that are set, as a slice if they are consecutive: a slice of a large array is no copy."""
    indices = np.flatnonzero(mask)
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices
