"""scikit-learn's digits with a small network that is trained on them, for experiments without a download."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from driftcal.data import Source
from driftcal.models import open_model
from driftcal.paper.networks.registry import Network

#: Samples to train the network, to tune calibrators, and to test.
SPLIT = (597, 600, 600)


def split_digits(source: Source) -> tuple[Source, ...]:
    """The training, validation and test samples of scikit-learn's digits."""
    return source.split(*SPLIT, random_state=0)


def train_digits(train: Source) -> Any:
    """A small neural network: accurate in domain, over-confident under shift."""
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    network = MLPClassifier((64,), learning_rate_init=0.005, max_iter=120, tol=0, n_iter_no_change=120, random_state=0)
    inputs = train.inputs().reshape(len(train), -1).astype(np.float64)
    # one thread: the matrices are small, and the weights must not depend on the number of threads
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # training stops after a fixed number of epochs on purpose
        return network.fit(inputs, train.labels)


def open_digits_network(train: Source) -> Network:
    """The trained network; far outside [0, 1] some of its probabilities are exactly 0."""
    return Network("mlp", open_model(train_digits(train), outputs="probabilities", name="small neural network"))
