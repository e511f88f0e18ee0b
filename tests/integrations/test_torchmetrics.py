"""Metrics with torchmetrics' interface equal driftcal's own, over batches and over ranks."""

import socket

import numpy as np
import pytest
import torch
import torchmetrics

from driftcal import metrics
from driftcal.errors import InputError
from driftcal.integrations.torchmetrics import (
    NAMES,
    BrierScore,
    CalibrationError,
    CalibrationGap,
    CalibrationMetrics,
    MaximumCalibrationError,
    NegativeLogLikelihood,
)

rng = np.random.default_rng(0)
LOGITS = rng.normal(size=(900, 5)) * 4
LABELS = (LOGITS / 2 + rng.gumbel(size=LOGITS.shape)).argmax(axis=1)
WHOLE = metrics.evaluate(LABELS, LOGITS)


def batches(n: int = 70):
    for low in range(0, len(LABELS), n):
        yield torch.from_numpy(LOGITS[low : low + n]), torch.from_numpy(LABELS[low : low + n])


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (CalibrationError, "ece"),
        (MaximumCalibrationError, "mce"),
        (CalibrationGap, "calibration_gap"),
        (BrierScore, "brier"),
        (NegativeLogLikelihood, "nll"),
    ],
)
def test_batches_equal_one_array(metric, name):
    over_batches = metric()
    for scores, labels in batches():
        over_batches.update(scores, labels)
    assert over_batches.compute().item() == pytest.approx(getattr(WHOLE, name), rel=1e-12)


def test_memory_does_not_grow_and_reset_forgets():
    metric = CalibrationMetrics(n_bins=10)
    sizes = set()
    for scores, labels in batches():
        metric.update(scores, labels)
        sizes.add(metric.sums.numel())
    assert sizes == {77}
    assert set(metric.compute()) == set(NAMES)
    metric.reset()
    with pytest.warns(UserWarning, match="before the"), pytest.raises(InputError, match="has seen none"):
        metric.compute()


def test_probabilities_are_declared():
    probabilities = torch.softmax(torch.from_numpy(LOGITS), 1)
    metric = CalibrationError(score_type="probabilities")
    metric.update(probabilities, torch.from_numpy(LABELS))
    assert metric.compute().item() == pytest.approx(WHOLE.ece, rel=1e-9)
    with pytest.raises(InputError, match="score_type"):
        CalibrationError(score_type="auto")
    with pytest.raises(InputError, match="probabilities"):
        CalibrationError().update(probabilities, torch.from_numpy(LABELS))


def test_in_a_collection_beside_torchmetrics():
    ece = torchmetrics.classification.MulticlassCalibrationError(num_classes=5, n_bins=15)
    collection = torchmetrics.MetricCollection({"ours": CalibrationError(), "theirs": ece})
    for scores, labels in batches():
        collection.update(scores.float(), labels)
    found = collection.compute()
    assert found["ours"].item() == pytest.approx(found["theirs"].item(), abs=1e-6)


def _rank(rank: int, port: int) -> None:
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    metric = CalibrationError()
    for number, (scores, labels) in enumerate(batches()):
        if number % 2 == rank:
            metric.update(scores, labels)
    assert metric.compute().item() == pytest.approx(WHOLE.ece, rel=1e-12)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_ranks_are_merged():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_rank, (port,), nprocs=2)
