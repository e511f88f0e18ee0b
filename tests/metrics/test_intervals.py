"""Bootstrap intervals, the null ECE, and the shape of results."""

import json
import sys

import numpy as np
import pytest

from driftcal import metrics
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import softmax
from driftcal.errors import InputError, MissingExtra, UnknownName
from driftcal.metrics.all_metrics import NAMES, AllMetrics
from driftcal.metrics.bootstrap import image_numbers, resample_counts
from driftcal.metrics.classwise import ClassProbabilities
from driftcal.metrics.intervals import bootstrap_interval
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.scores_and_labels import check_probabilities


def make(n=300, n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * 2
    y = np.array([rng.choice(n_classes, p=p) for p in softmax(logits / 1.3)])
    return logits, y


def drawn_samples(seed, replicate, n):
    counts = np.empty(n)
    resample_counts(seed, replicate, counts)
    return np.repeat(np.arange(n), counts.astype(int))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_replicate_is_the_metric_of_resampled_samples(n_classes):
    logits, y = make(120, n_classes)
    samples = SampleScores.of(LabelledLogits(logits, y))
    replicates = AllMetrics.of(samples, 15).replicates(np.arange(120), 7, seed=3)
    for r in (0, 6):
        drawn = drawn_samples(3, r, 120)
        evaluation = metrics.evaluate(y[drawn], logits[drawn])
        assert dict(zip(NAMES, replicates[r], strict=True)) == pytest.approx(
            {k: getattr(evaluation, k) for k in NAMES}, abs=1e-9
        )


def test_a_replicate_of_class_1_is_too():
    logits, y = make(120, 2)
    p = softmax(logits)[:, 1]
    samples = SampleScores.of(check_probabilities(y, p), positive_class=True)
    replicates = AllMetrics.of(samples, 15).replicates(np.arange(120), 2, seed=3)
    drawn = drawn_samples(3, 1, 120)
    evaluation = metrics.evaluate(y[drawn], p[drawn], score_type="probabilities")
    assert dict(zip(NAMES, replicates[1], strict=True)) == pytest.approx(
        {k: getattr(evaluation, k) for k in NAMES}, abs=1e-9
    )


@pytest.mark.parametrize("from_logits", [True, False])
def test_class_wise_replicates_are_those_of_resampled_samples(from_logits):
    logits, y = make(80, 4)
    p = softmax(logits)
    data = ClassProbabilities.of(LabelledLogits(logits, y) if from_logits else check_probabilities(y, p))
    resampling = (np.arange(80), np.arange(80), 5, 11)
    classwise, marginal = data.classwise_replicates(15, *resampling), data.marginal_replicates(15, *resampling)
    for r in range(5):
        drawn = drawn_samples(11, r, 80)
        assert classwise[r] == pytest.approx(metrics.classwise_calibration_error(y[drawn], p[drawn]), abs=1e-12)
        assert marginal[r] == pytest.approx(
            metrics.debiased_calibration_error(y[drawn], p[drawn], kind="marginal"), abs=1e-9
        )


def test_samples_of_an_image_are_drawn_together():
    logits, y = make(100)
    copies = metrics.evaluate(np.tile(y, 4), np.tile(logits, (4, 1)), intervals=True, groups=np.tile(np.arange(100), 4))
    single = metrics.evaluate(y, logits, intervals=True)
    for name in ("accuracy", "nll", "ece", "ks", "smooth_ece"):
        low, high = single.intervals[name].low, single.intervals[name].high
        # one image four times is one image: independent samples would halve the width
        assert copies.intervals[name].high == pytest.approx(high, abs=1e-9), name
        if copies.intervals[name].low > 0 < low:
            assert copies.intervals[name].low == pytest.approx(low, abs=1e-9), name


def test_the_same_seed_gives_the_same_interval_with_any_number_of_threads(monkeypatch):
    logits, y = make()
    first = metrics.evaluate(y, logits, intervals=True, n_resamples=100, random_state=5, per_class=True)
    monkeypatch.setenv("DRIFTCAL_THREADS", "1")
    again = metrics.evaluate(y, logits, intervals=True, n_resamples=100, random_state=5, per_class=True)
    other = metrics.evaluate(y, logits, intervals=True, n_resamples=100, random_state=6)
    assert first.to_dict() == again.to_dict()
    assert first.intervals["nll"] != other.intervals["nll"]


def test_samples_of_weight_0_are_left_out():
    logits, y = make(60)
    weights = np.ones(60)
    weights[::3] = 0
    kept = weights > 0
    options = {"intervals": True, "n_resamples": 50, "per_class": True}
    with_zeros = metrics.evaluate(y, logits, sample_weight=weights, groups=np.arange(60), **options)
    without = metrics.evaluate(y[kept], logits[kept], **options)
    assert with_zeros.metrics() == pytest.approx(without.metrics(), abs=1e-12)
    for name, i in without.intervals.items():
        assert (with_zeros.intervals[name].low, with_zeros.intervals[name].high) == pytest.approx(
            (i.low, i.high), abs=1e-9
        )


@pytest.mark.parametrize("method", ["basic", "bias-corrected"])
def test_intervals_hold_the_estimate_and_stay_in_range(method):
    logits, y = make(40)
    evaluation = metrics.evaluate(y, logits, intervals=True, n_resamples=100, method=method, per_class=True)
    assert set(evaluation.intervals) == set(evaluation.metrics())
    for name, value in evaluation.metrics().items():
        assert value in evaluation.intervals[name], name
    assert evaluation.intervals["ece"].low >= 0
    wide = metrics.evaluate(y, logits, intervals=True, n_resamples=100, method=method, confidence_level=0.99)
    assert wide.intervals["nll"].high >= evaluation.intervals["nll"].high


def test_bad_options_are_named():
    logits, y = make(10)
    with pytest.raises(InputError, match="confidence_level must lie between 0 and 1"):
        metrics.evaluate(y, logits, intervals=True, confidence_level=95)
    with pytest.raises(InputError, match="n_resamples must be a whole number of at least 2"):
        metrics.evaluate(y, logits, n_resamples=0)
    with pytest.raises(InputError, match="groups must name the image of each sample"):
        metrics.evaluate(y, logits, intervals=True, groups=[1, 2])
    with pytest.raises(UnknownName, match="interval method 'percentile'"):
        bootstrap_interval(0.5, np.ones(3), method="percentile")
    for n_bins in (0, -3, 2.5, 10.0, "15"):
        for call in (
            lambda m: metrics.evaluate(y, logits, n_bins=m),
            lambda m: metrics.Statistics.of(y, logits, n_bins=m),
            lambda m: metrics.classwise_calibration_error(y, softmax(logits), n_bins=m),
            lambda m: metrics.equal_mass_calibration_error(y, softmax(logits), n_bins=m),
            lambda m: metrics.null_ece(y, softmax(logits), n_bins=m),
        ):
            with pytest.raises(InputError, match="n_bins must be a whole number"):
                call(n_bins)
    with pytest.raises(UnknownName, match="did you mean 'marginal'"):
        metrics.debiased_calibration_error(y, softmax(logits), kind="marginals")
    with pytest.raises(InputError, match="bandwidth must be above 0"):
        metrics.smooth_calibration_error(y, softmax(logits), bandwidth=0)
    with pytest.raises(InputError, match="same bins"):
        _ = metrics.Statistics.of(y, logits) + metrics.Statistics.of(y, logits, n_bins=10)


def test_swapped_arguments_are_recognised():
    logits, y = make(10)
    p = softmax(logits)
    for metric in metrics.METRICS.values():
        with pytest.raises(InputError, match=r"must come as \(y_true, probabilities\).*Swap them"):
            metric(p, y)
    with pytest.raises(InputError, match="Swap them"):
        metrics.expected_calibration_error(p[:, 1], y > 2)
    for call in (metrics.evaluate, metrics.Statistics.of):
        with pytest.raises(InputError, match=r"must come as \(y_true, scores\).*Swap them"):
            call(logits, y)


def test_wrong_labels_and_probabilities_are_named():
    _, y = make(10)
    p = np.full((10, 5), 0.2)
    with pytest.raises(InputError, match=r"sample 0 has 5"):
        metrics.brier_score(np.full(10, 5), p)
    with pytest.raises(InputError, match=r"probabilities must sum to 1"):
        metrics.brier_score(y, p / 2)
    with pytest.raises(InputError, match=r"at least one sample"):
        metrics.brier_score([], np.zeros((0, 5)))
    with pytest.raises(InputError, match=r"positive sum"):
        metrics.brier_score(y, p, sample_weight=np.zeros(10))


def test_results_are_readable_and_can_be_written_as_json():
    logits, y = make(50)
    evaluation = metrics.evaluate(y, logits, intervals=True, n_resamples=50, n_bins=10)
    text = repr(evaluation)
    for part in (
        "50 samples, 5 classes",
        "ECE, 10 equal-width bins",
        "null ECE",
        "0 samples clipped at 1e-15",
    ):
        assert part in text
    assert json.loads(json.dumps(evaluation.to_dict()))["intervals"]["ece"] == list(
        evaluation.to_dict()["intervals"]["ece"]
    )
    frame = evaluation.to_frame()
    assert list(frame.columns) == ["value", "low", "high"]
    assert frame.loc["ece", "value"] == evaluation.ece


def test_frames_name_their_extra(monkeypatch):
    logits, y = make(5)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'pip install "driftcal\[pandas\]"'):
        metrics.evaluate(y, logits).to_frame()


def test_statistics_compare_and_refuse_other_types():
    logits, y = make(20)
    one = metrics.Statistics.of(y, logits)
    assert one == metrics.Statistics.of(y, logits)
    assert one != metrics.Statistics.of(y, -logits)
    assert one != "statistics"
    with pytest.raises(TypeError):
        _ = one + 1
    confidence, outcome = one.curve
    assert np.isnan(confidence[one.bin_count == 0]).all()
    assert np.nansum(one.histogram * np.abs(confidence - outcome)) == pytest.approx(one.ece)


def test_differences_are_paired():
    logits, y = make(400)
    sharp = metrics.evaluate(y, 1.2 * logits, intervals=True, n_resamples=200)
    soft = metrics.evaluate(y, logits, intervals=True, n_resamples=200)
    value, interval = metrics.difference(sharp, soft, "nll")
    assert value == pytest.approx(sharp.nll - soft.nll)
    alone = sharp.intervals["nll"]
    assert interval.high - interval.low < 0.7 * (alone.high - alone.low)
    assert metrics.difference(sharp, sharp)[1] == metrics.Interval(0.0, 0.0, 0.95)
    with pytest.raises(InputError, match="intervals=True, the same n_resamples"):
        metrics.difference(sharp, metrics.evaluate(y, logits))
    with pytest.raises(UnknownName, match="metric in both evaluations 'eec'"):
        metrics.difference(sharp, soft, "eec")


def test_sources_and_labelled_logits_come_alone():
    logits, y = make(10)
    with pytest.raises(InputError, match="must be left out when LabelledLogits"):
        metrics.evaluate(LabelledLogits(logits, y), logits)
    with pytest.raises(InputError, match="y_true must be left out"):
        metrics.evaluate(y, LabelledLogits(logits, y))
    with pytest.raises(InputError, match="must hold logits"):
        metrics.evaluate(LabelledLogits(logits, y), score_type="probabilities")
    assert metrics.evaluate(LabelledLogits(logits, y)).to_dict() == metrics.evaluate(y, logits).to_dict()

    class Nothing:
        def __iter__(self):
            return iter(())

    with pytest.raises(InputError, match="yields nothing"):
        metrics.evaluate(Nothing())
    with pytest.raises(InputError, match="more than once"):
        metrics.evaluate(pair for pair in [(logits, y)])


def test_torch_and_pandas_are_accepted():
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    logits, y = make(30)
    plain = metrics.evaluate(y, logits).to_dict()
    assert metrics.evaluate(torch.from_numpy(y), torch.from_numpy(logits).requires_grad_()).to_dict() == plain
    assert metrics.evaluate(pandas.Series(y), pandas.DataFrame(logits)).to_dict() == plain
    p = softmax(logits)
    ece = metrics.expected_calibration_error(y, p)
    assert metrics.expected_calibration_error(pandas.Series(y), pandas.DataFrame(p)) == ece
    assert metrics.expected_calibration_error(torch.from_numpy(y), torch.from_numpy(p)) == ece
    binary = metrics.expected_calibration_error(y > 2, p[:, 0])
    assert metrics.expected_calibration_error(pandas.Series(y > 2), pandas.Series(p[:, 0])) == binary
    assert metrics.expected_calibration_error((y > 2).tolist(), p[:, 0].tolist()) == binary


def test_images_are_numbered_by_their_names():
    assert image_numbers(["b", "a", "b", "c"], np.array([0, 1, 3]), 4).tolist() == [1, 0, 2]
