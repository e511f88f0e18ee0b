"""Probabilities that are shares of votes, as those of forests: a class without a vote gets a share of one more vote."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.types import AnyArray, Float64

#: Classes of scikit-learn whose probabilities are means over trees or neighbours.
_FORESTS = ("ForestClassifier", "BaggingClassifier")
_NEIGHBOURS = "KNeighborsClassifier"


def n_votes(estimator: Any) -> int | None:
    """Over how many trees or neighbours a fitted scikit-learn classifier averages; None for other models.

    Pipelines and searches are judged by their last step.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> n_votes(RandomForestClassifier(7).fit([[0], [1]], [0, 1]))
    7
    """
    final = getattr(estimator, "best_estimator_", estimator)
    steps = getattr(final, "steps", None)
    if steps:
        return n_votes(steps[-1][1])
    names = {base.__name__ for base in type(final).__mro__ if base.__module__.startswith("sklearn.")}
    if names & set(_FORESTS):
        return len(final.estimators_)
    return int(final.n_neighbors) if _NEIGHBOURS in names else None


def with_one_more_vote(probabilities: AnyArray, n: int) -> Float64:
    """Probabilities that n voters gave, as if one more voter gave every class the same: (n p + 1/C) / (n + 1).

    A class without a vote would have the logarithm −∞, and one sample of such a class would decide the temperature alone.
    No probability changes by more than 1 / (n + 1), and the order of the classes stays.

    >>> with_one_more_vote([[1.0, 0.0]], 9).tolist()
    [[0.95, 0.05]]
    """
    p = np.asarray(probabilities, np.float64)
    smoothed: Float64 = (n * p + 1 / p.shape[1]) / (n + 1)
    return smoothed


def probabilities_of(estimator: Any, inputs: Any) -> Float64:
    """`predict_proba` of a scikit-learn classifier, with one more vote if it averages votes."""
    probabilities: Float64 = np.asarray(estimator.predict_proba(inputs))
    n = n_votes(estimator)
    return probabilities if n is None else with_one_more_vote(probabilities, n)


def note_on_votes(estimator: Any) -> str:
    """What `probabilities_of` changes, as a sentence for explanations; empty if nothing."""
    n = n_votes(estimator)
    if n is None:
        return ""
    return (
        f"The model averages {n} votes; its probabilities are smoothed as if one more vote were shared by all classes, because a "
        "class without a vote would have no finite logit."
    )
