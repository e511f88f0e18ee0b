"""Bootstrap intervals, the floor, and the shape of results."""

import json
import sys

import numpy as np
import pytest

from driftcal import metrics
from driftcal.errors import InputError, MissingExtra, UnknownName
from driftcal.metrics.bootstrap import draw, interval_of, units_of
from driftcal.metrics.classwise import ClassScores
from driftcal.metrics.scores import Scores
from driftcal.metrics.summary import NAMES, Summary
from driftcal.numerics import softmax
from driftcal.rows import Rows


def make(n=300, n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * 2
    y = np.array([rng.choice(n_classes, p=p) for p in softmax(logits / 1.3)])
    return logits, y


def drawn_rows(seed, replicate, n):
    counts = np.empty(n)
    draw(seed, replicate, counts)
    return np.repeat(np.arange(n), counts.astype(int))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_replicate_is_the_metric_of_resampled_rows(n_classes):
    logits, y = make(120, n_classes)
    scores = Scores.of_logits(Rows(logits, y))
    replicates = Summary.of_scores(scores, 15).replicates(np.arange(120), 7, seed=3)
    for r in (0, 6):
        rows = drawn_rows(3, r, 120)
        seen = metrics.evaluate(logits[rows], y[rows])
        assert dict(zip(NAMES, replicates[r], strict=True)) == pytest.approx(
            {k: getattr(seen, k) for k in NAMES}, abs=1e-9
        )


def test_a_replicate_of_class_1_is_too():
    logits, y = make(120, 2)
    p = softmax(logits)[:, 1]
    replicates = Summary.of_scores(Scores.of_probabilities(y, p), 15).replicates(np.arange(120), 2, seed=3)
    rows = drawn_rows(3, 1, 120)
    seen = metrics.evaluate_probabilities(y[rows], p[rows])
    assert dict(zip(NAMES, replicates[1], strict=True)) == pytest.approx({k: getattr(seen, k) for k in NAMES}, abs=1e-9)


@pytest.mark.parametrize("from_logits", [True, False])
def test_class_wise_replicates_are_those_of_resampled_rows(from_logits):
    logits, y = make(80, 4)
    p = softmax(logits)
    source = ClassScores.of_logits(Rows(logits, y)) if from_logits else ClassScores.of_probabilities(y, p, None)
    where = (np.arange(80), np.arange(80), 5, 11)
    classwise, marginal = source.classwise_replicates(15, *where), source.marginal_replicates(15, *where)
    for r in range(5):
        rows = drawn_rows(11, r, 80)
        assert classwise[r] == pytest.approx(metrics.classwise_calibration_error(y[rows], p[rows]), abs=1e-12)
        assert marginal[r] == pytest.approx(
            metrics.debiased_calibration_error(y[rows], p[rows], kind="marginal"), abs=1e-9
        )


def test_rows_of_an_image_are_drawn_together():
    logits, y = make(100)
    copies = metrics.evaluate(np.tile(logits, (4, 1)), np.tile(y, 4), intervals=True, groups=np.tile(np.arange(100), 4))
    single = metrics.evaluate(logits, y, intervals=True)
    for name in ("accuracy", "nll", "ece", "ks", "smooth_ece"):
        low, high = single.intervals[name].low, single.intervals[name].high
        # one image four times is one image: independent rows would halve the width
        assert copies.intervals[name].high == pytest.approx(high, abs=1e-9), name
        if copies.intervals[name].low > 0 < low:
            assert copies.intervals[name].low == pytest.approx(low, abs=1e-9), name


def test_same_seed_same_interval_whatever_the_threads(monkeypatch):
    logits, y = make()
    first = metrics.evaluate(logits, y, intervals=True, draws=100, seed=5, per_class=True)
    monkeypatch.setenv("DRIFTCAL_THREADS", "1")
    again = metrics.evaluate(logits, y, intervals=True, draws=100, seed=5, per_class=True)
    other = metrics.evaluate(logits, y, intervals=True, draws=100, seed=6)
    assert first.to_dict() == again.to_dict()
    assert first.intervals["nll"] != other.intervals["nll"]


def test_rows_without_weight_do_not_exist():
    logits, y = make(60)
    weights = np.ones(60)
    weights[::3] = 0
    kept = weights > 0
    options = {"intervals": True, "draws": 50, "per_class": True}
    with_zeros = metrics.evaluate(logits, y, sample_weight=weights, groups=np.arange(60), **options)
    without = metrics.evaluate(logits[kept], y[kept], **options)
    assert with_zeros.metrics() == pytest.approx(without.metrics(), abs=1e-12)
    for name, i in without.intervals.items():
        assert (with_zeros.intervals[name].low, with_zeros.intervals[name].high) == pytest.approx(
            (i.low, i.high), abs=1e-9
        )


@pytest.mark.parametrize("method", ["basic", "bias-corrected"])
def test_intervals_hold_the_estimate_and_stay_in_range(method):
    logits, y = make(40)
    seen = metrics.evaluate(logits, y, intervals=True, draws=100, method=method, per_class=True)
    assert set(seen.intervals) == set(seen.metrics())
    for name, value in seen.metrics().items():
        assert value in seen.intervals[name], name
    assert seen.intervals["ece"].low >= 0
    wide = metrics.evaluate(logits, y, intervals=True, draws=100, method=method, level=0.99)
    assert wide.intervals["nll"].high >= seen.intervals["nll"].high


def test_bad_options_are_named():
    logits, y = make(10)
    with pytest.raises(InputError, match="level must lie between 0 and 1"):
        metrics.evaluate(logits, y, intervals=True, level=95)
    with pytest.raises(InputError, match="draws must be at least 2"):
        metrics.evaluate(logits, y, draws=0)
    with pytest.raises(InputError, match="groups must name the image of each row"):
        metrics.evaluate(logits, y, intervals=True, groups=[1, 2])
    with pytest.raises(UnknownName, match="interval method 'percentile'"):
        interval_of(0.5, np.ones(3), method="percentile")
    for n_bins in (0, -3, 2.5, 10.0, "15"):
        for call in (
            lambda m: metrics.evaluate(logits, y, n_bins=m),
            lambda m: metrics.Statistics.of(logits, y, n_bins=m),
            lambda m: metrics.classwise_calibration_error(y, softmax(logits), n_bins=m),
            lambda m: metrics.equal_mass_calibration_error(y, softmax(logits), n_bins=m),
            lambda m: metrics.ece_floor(y, softmax(logits), n_bins=m),
        ):
            with pytest.raises(InputError, match="n_bins must be a whole number"):
                call(n_bins)
    with pytest.raises(UnknownName, match="did you mean 'marginal'"):
        metrics.debiased_calibration_error(y, softmax(logits), kind="marginals")
    with pytest.raises(InputError, match="bandwidth must be above 0"):
        metrics.smooth_calibration_error(y, softmax(logits), bandwidth=0)
    with pytest.raises(InputError, match="same bins"):
        _ = metrics.Statistics.of(logits, y) + metrics.Statistics.of(logits, y, n_bins=10)


def test_swapped_arguments_are_recognised():
    logits, y = make(10)
    p = softmax(logits)
    for metric in metrics.METRICS.values():
        with pytest.raises(InputError, match=r"must come as \(y_true, probabilities\).*Swap them"):
            metric(p, y)
    with pytest.raises(InputError, match="Swap them"):
        metrics.expected_calibration_error(p[:, 1], y > 2)
    with pytest.raises(InputError, match=r"must come as \(logits, y\)"):
        metrics.evaluate(y, logits)
    with pytest.raises(InputError, match=r"must come as \(logits, y\)"):
        metrics.Statistics.of(y, logits)


def test_wrong_labels_and_probabilities_are_named():
    _, y = make(10)
    p = np.full((10, 5), 0.2)
    with pytest.raises(InputError, match=r"row 0 holds 5"):
        metrics.brier_score(np.full(10, 5), p)
    with pytest.raises(InputError, match=r"rows of probabilities must sum to 1"):
        metrics.brier_score(y, p / 2)
    with pytest.raises(InputError, match=r"at least one row"):
        metrics.brier_score([], np.zeros((0, 5)))
    with pytest.raises(InputError, match=r"positive sum"):
        metrics.brier_score(y, p, sample_weight=np.zeros(10))
    with pytest.raises(InputError, match=r"from_probabilities"):
        metrics.evaluate(p, y)


def test_results_read_well_and_travel():
    logits, y = make(50)
    seen = metrics.evaluate(logits, y, intervals=True, draws=50, n_bins=10)
    text = repr(seen)
    for part in (
        "50 rows, 5 classes",
        "ECE, 10 equal-width bins",
        "a calibrated model would show",
        "0 rows clipped at 1e-15",
    ):
        assert part in text
    assert json.loads(json.dumps(seen.to_dict()))["intervals"]["ece"] == list(seen.to_dict()["intervals"]["ece"])
    frame = seen.to_frame()
    assert list(frame.columns) == ["value", "low", "high"]
    assert frame.loc["ece", "value"] == seen.ece


def test_frames_name_their_extra(monkeypatch):
    logits, y = make(5)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'pip install "driftcal\[pandas\]"'):
        metrics.evaluate(logits, y).to_frame()


def test_statistics_compare_and_refuse_strangers():
    logits, y = make(20)
    one = metrics.Statistics.of(logits, y)
    assert one == metrics.Statistics.of(logits, y)
    assert one != metrics.Statistics.of(-logits, y)
    assert one != "statistics"
    with pytest.raises(TypeError):
        _ = one + 1
    confidence, outcome = one.curve
    assert np.isnan(confidence[one.bin_rows == 0]).all()
    assert np.nansum(one.histogram * np.abs(confidence - outcome)) == pytest.approx(one.ece)


def test_differences_are_paired():
    logits, y = make(400)
    sure = metrics.evaluate(1.2 * logits, y, intervals=True, draws=200)
    soft = metrics.evaluate(logits, y, intervals=True, draws=200)
    value, interval = metrics.difference(sure, soft, "nll")
    assert value == pytest.approx(sure.nll - soft.nll)
    alone = sure.intervals["nll"]
    assert interval.high - interval.low < 0.7 * (alone.high - alone.low)
    assert metrics.difference(sure, sure)[1] == metrics.Interval(0.0, 0.0, 0.95)
    with pytest.raises(InputError, match="intervals=True, the same draws"):
        metrics.difference(sure, metrics.evaluate(logits, y))
    with pytest.raises(UnknownName, match="metric in both evaluations 'eec'"):
        metrics.difference(sure, soft, "eec")


def test_sources_and_rows_are_refused_with_a_reason():
    logits, y = make(10)
    with pytest.raises(InputError, match="must be left out when Rows are given"):
        metrics.evaluate(Rows(logits, y), y)
    assert metrics.evaluate(Rows(logits, y)).to_dict() == metrics.evaluate(logits, y).to_dict()

    class Nothing:
        def __iter__(self):
            return iter(())

    with pytest.raises(InputError, match="yields nothing"):
        metrics.evaluate(Nothing())
    with pytest.raises(InputError, match="more than once"):
        metrics.evaluate(pair for pair in [(logits, y)])


def test_torch_and_pandas_are_welcome():
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    logits, y = make(30)
    plain = metrics.evaluate(logits, y).to_dict()
    assert metrics.evaluate(torch.from_numpy(logits).requires_grad_(), torch.from_numpy(y)).to_dict() == plain
    assert metrics.evaluate(pandas.DataFrame(logits), pandas.Series(y)).to_dict() == plain
    p = softmax(logits)
    ece = metrics.expected_calibration_error(y, p)
    assert metrics.expected_calibration_error(pandas.Series(y), pandas.DataFrame(p)) == ece
    assert metrics.expected_calibration_error(torch.from_numpy(y), torch.from_numpy(p)) == ece
    binary = metrics.expected_calibration_error(y > 2, p[:, 0])
    assert metrics.expected_calibration_error(pandas.Series(y > 2), pandas.Series(p[:, 0])) == binary
    assert metrics.expected_calibration_error((y > 2).tolist(), p[:, 0].tolist()) == binary


def test_units_follow_names():
    assert units_of(["b", "a", "b", "c"], np.array([0, 1, 3]), 4).tolist() == [1, 0, 2]
