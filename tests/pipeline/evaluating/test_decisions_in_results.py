"""What a threshold keeps is in the results, in their file, in the table and in the report."""

import numpy as np
import pytest

import driftcal
from driftcal.report import result_table


def scores(n=800, seed=0):
    rng = np.random.default_rng(seed)
    logits = 4 * rng.normal(size=(n, 4))
    return logits, (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def calibrated():
    fitted = driftcal.fit(*scores(), method="ts")
    return fitted.with_threshold(fitted.threshold(accuracy=0.9))


@pytest.fixture(scope="module")
def results(calibrated, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    driftcal.evaluate(calibrated, *scores(seed=1), n_resamples=0).save(folder)
    return driftcal.Results.load(folder)


def test_rows_hold_what_the_threshold_keeps(calibrated, results):
    logits, y = scores(seed=1)
    p = calibrated.predict_proba(logits)
    accepted, correct = p.max(axis=1) >= calibrated.decision_threshold.confidence, p.argmax(axis=1) == y
    row = results.row("ts", "in domain", 0)
    assert row.decision["n_accepted"] == accepted.sum()
    assert row.decision["coverage"] == accepted.mean()
    assert row.decision["accuracy"] == pytest.approx(correct[accepted].mean())
    assert row.accuracy_at_coverage[-1] == pytest.approx(row.accuracy)
    half = np.argsort(-p.max(axis=1), kind="stable")[:400]
    assert row.accuracy_at_coverage[9] == pytest.approx(correct[half].mean())


def test_table_and_report_show_them(results, tmp_path):
    (line,) = result_table(results, "decisions").rows
    assert line["coverage"] == results.row("ts", "in domain", 0).decision["coverage"]
    page = driftcal.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="decisions"' in page
    assert "Accuracy against coverage" in page


def test_nothing_accepted_is_none(calibrated):
    strict = driftcal.Threshold(1.0, "coverage", 0.1, 0.1, 1.0, 0.9, 0.05, 100)
    results = driftcal.evaluate(calibrated.with_threshold(strict), np.zeros((50, 4)), np.arange(50) % 4, n_resamples=0)
    assert results.row("ts", "in domain", 0).decision == {"coverage": 0.0, "accuracy": None, "n_accepted": 0}
    assert "decisions" in repr(result_table(results, "decisions"))
