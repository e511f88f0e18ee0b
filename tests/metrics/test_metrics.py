"""Laws of every metric, for any data."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftcal
from driftcal import metrics
from driftcal.core.numerics import softmax
from driftcal.errors import InputError, UnknownName
from driftcal.metrics import METRICS, Statistics
from driftcal.metrics.all_metrics import RANGES
from driftcal.metrics.bins import bin_edges, bin_index, bin_indices

FEW = settings(max_examples=25)
SHAPES = [(1, 3), (7, 3), (40, 2), (61, 10), (30, 1000)]


@st.composite
def labelled(draw, min_samples=1):
    """Logits up to ±1e4 with ties and masked classes, labels that miss some classes, weights that are whole or not."""
    n, n_classes = draw(st.integers(min_samples, 40)), draw(st.sampled_from([3, 4, 7]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = rng.normal(size=(n, n_classes)) * draw(st.sampled_from([0.1, 2.0, 30.0, 1e4]))
    if draw(st.booleans()):
        logits = np.round(logits)
    if draw(st.booleans()):
        logits[:, 0] = -np.inf
    y = rng.integers(0, draw(st.integers(1, n_classes)), n)
    weights = rng.integers(0, 4, n).astype(float) if draw(st.booleans()) else rng.random(n)
    weights[0] = max(weights[0], 1.0)
    return logits, y, weights


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def agree(name, value, expected):
    """Compare squares of debiased errors: near 0 the root of a difference turns rounding of 1e-16 into 1e-8."""
    if "debiased" in name:
        return value**2 == pytest.approx(expected**2, rel=1e-9, abs=1e-14)
    return value == close(expected)


@pytest.mark.parametrize("name", METRICS)
@FEW
@given(labelled())
def test_a_metric_is_a_number_in_its_range(name, data):
    logits, y, weights = data
    value = METRICS[name](y, softmax(logits), sample_weight=weights)
    low, high = RANGES.get(name, (0, 1))
    assert isinstance(value, float)
    assert math.isfinite(value)
    assert low - 1e-12 <= value <= high + 1e-12


@pytest.mark.parametrize("name", METRICS)
@FEW
@given(labelled(), st.integers(0, 99))
def test_the_order_of_samples_does_not_matter(name, data, seed):
    logits, y, weights = data
    p = softmax(logits)
    order = np.random.default_rng(seed).permutation(len(y))
    shuffled = METRICS[name](y[order], p[order], sample_weight=weights[order])
    assert agree(name, shuffled, METRICS[name](y, p, sample_weight=weights))


@pytest.mark.parametrize("name", METRICS)
@FEW
@given(labelled())
def test_whole_weights_are_repeated_samples(name, data):
    logits, y, weights = data
    p, counts = softmax(logits), np.ceil(weights).astype(int)
    counts[1:2] = 0
    repeated = METRICS[name](np.repeat(y, counts), np.repeat(p, counts, axis=0))
    assert agree(name, METRICS[name](y, p, sample_weight=counts), repeated)


@pytest.mark.parametrize("name", [name for name in METRICS if "debiased" not in name])
@FEW
@given(labelled())
def test_the_scale_of_weights_does_not_matter(name, data):
    logits, y, weights = data
    weights = weights + 0.1234567
    p = softmax(logits)
    assert METRICS[name](y, p, sample_weight=weights / weights.sum()) == close(
        METRICS[name](y, p, sample_weight=weights)
    )


def test_data_without_ties_agrees_in_every_metric():
    rng = np.random.default_rng(0)
    logits, y, weights = rng.normal(size=(50, 4)), rng.integers(0, 4, 50), rng.random(50)
    evaluation = metrics.evaluate(y, logits, sample_weight=weights, per_class=True)
    for name, metric in METRICS.items():
        assert getattr(evaluation, name) == close(metric(y, softmax(logits), sample_weight=weights)), name


@FEW
@given(labelled())
def test_evaluate_agrees_with_the_functions_and_with_probabilities(data):
    logits, y, weights = data
    evaluation = metrics.evaluate(y, logits, sample_weight=weights, per_class=True)
    p = softmax(logits)
    of_probabilities = metrics.evaluate(y, p, score_type="probabilities", sample_weight=weights, per_class=True)
    # the last digit of a probability depends on how it was computed, and may part a tie or cross an edge
    sorted_columns = np.sort(np.column_stack([p, p.max(axis=1)]), axis=0)
    apart = (np.diff(sorted_columns, axis=0) > 1e-9).all() and (np.abs(p[..., None] - bin_edges(15)) > 1e-9).all()
    continuous = ("accuracy", "brier", "nll", "entropy", "calibration_gap", "smooth_ece")
    for name, metric in METRICS.items():
        assert agree(name, getattr(of_probabilities, name), metric(y, p, sample_weight=weights)), name
        if apart or name in continuous:
            assert agree(name, getattr(evaluation, name), getattr(of_probabilities, name)), name


@FEW
@given(labelled(min_samples=2), st.integers(1, 39), st.sampled_from([1, 2, 10, 15]))
def test_shards_merge_to_the_whole(data, cut, n_bins):
    logits, y, weights = data
    cut = min(cut, len(y) - 1)
    weights = weights + 0.5
    a, b = slice(0, cut), slice(cut, None)
    both = [Statistics.of(y[part], logits[part], sample_weight=weights[part], n_bins=n_bins) for part in (a, b)]
    whole = Statistics.of(y, logits, sample_weight=weights, n_bins=n_bins)
    merged = both[0] + both[1]
    assert (merged.n_samples, merged.n_clipped) == (whole.n_samples, whole.n_clipped)
    assert (merged.bin_count == whole.bin_count).all()
    for name in ("total_weight", "accuracy", "nll", "brier", "entropy", "calibration_gap", "ece", "mce", "null_ece"):
        assert getattr(merged, name) == close(getattr(whole, name)), name


@FEW
@given(labelled(), st.sampled_from([1, 3, 8]))
def test_a_source_of_chunks_gives_the_same_numbers(data, step):
    logits, y, weights = data
    weights = weights + 0.5

    class Chunks:
        def __iter__(self):
            starts = range(0, len(y), step)
            return iter([(logits[s : s + step], y[s : s + step], weights[s : s + step]) for s in starts])

    one = metrics.evaluate(y, logits, sample_weight=weights)
    many = metrics.evaluate(Chunks())
    assert many.to_dict() == {k: close(v) for k, v in one.to_dict().items()}


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
@FEW
def test_every_confidence_is_in_exactly_one_bin(n_bins, seed):
    rng = np.random.default_rng(seed)
    edges = bin_edges(n_bins)
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), rng.random(20), [5e-324]])
    near = near[(near >= 0) & (near <= 1)]
    index = np.array([bin_index(c, edges) for c in near])
    assert (bin_indices(near, edges) == index).all()
    expected = np.clip(np.searchsorted(edges, near, side="left") - 1, 0, n_bins - 1)
    assert (index == expected).all()
    statistics = Statistics.of(np.ones(len(near), int), near, score_type="probabilities", n_bins=n_bins)
    assert statistics.bin_count.sum() == len(near) == statistics.n_samples
    assert (statistics.bin_count == np.bincount(expected, minlength=n_bins)).all()


@FEW
@given(labelled(), st.sampled_from([1, 10, 15]))
def test_the_decomposition_sums_to_the_score(data, n_bins):
    logits, y, weights = data
    p = softmax(logits)
    d = metrics.brier_decomposition(y, p, n_bins=n_bins, sample_weight=weights)
    parts = d.reliability - d.resolution + d.uncertainty + d.within_bin_variance - 2 * d.within_bin_covariance
    assert parts == pytest.approx(d.score, abs=1e-12)
    squared = (p.max(axis=1) - (p.argmax(axis=1) == y)) ** 2
    assert d.score == pytest.approx(np.average(squared, weights=weights), abs=1e-12)


@FEW
@given(labelled(), st.floats(-100, 100))
def test_a_constant_added_to_a_sample_changes_nothing(data, shift):
    logits, y, weights = data
    if np.abs(logits[np.isfinite(logits)]).max() > 200 or len(y) < 2:
        return
    one = metrics.evaluate(y, np.round(logits), sample_weight=weights)
    other = metrics.evaluate(y, np.round(logits) + np.round(shift), sample_weight=weights)
    assert other.to_dict() == one.to_dict()


@FEW
@given(labelled())
def test_errors_bound_each_other(data):
    logits, y, weights = data
    evaluation = metrics.evaluate(y, logits, sample_weight=weights)
    slack = 1e-9
    assert abs(evaluation.calibration_gap) <= evaluation.ece + slack
    assert evaluation.ece <= evaluation.mce + slack
    assert abs(evaluation.calibration_gap) <= evaluation.ks + slack
    assert abs(evaluation.calibration_gap) <= evaluation.smooth_ece + slack
    assert evaluation.entropy <= math.log(logits.shape[1]) + slack


@pytest.mark.parametrize(("n", "n_classes"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_shape_and_dtype(n, n_classes, dtype):
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(n, n_classes)) * 3).astype(dtype)
    y = rng.integers(0, n_classes, n)
    evaluation = metrics.evaluate(y, logits, intervals=True, n_resamples=20, per_class=True)
    exact = metrics.evaluate(y, logits.astype(np.float64), per_class=True)
    assert evaluation.metrics() == {k: close(v) for k, v in exact.metrics().items()}
    assert all(math.isfinite(v) for v in evaluation.metrics().values())
    assert all(evaluation.metrics()[k] in i for k, i in evaluation.intervals.items())


@pytest.mark.parametrize("correct", [True, False])
def test_all_correct_and_all_incorrect(correct):
    logits = np.eye(4)[[0, 1, 2, 3, 0]] * 1e4
    y = np.array([0, 1, 2, 3, 0]) if correct else np.array([1, 2, 3, 0, 1])
    evaluation = metrics.evaluate(y, logits, intervals=True, n_resamples=50, per_class=True)
    assert evaluation.accuracy == correct
    assert evaluation.n_clipped == (0 if correct else 5)
    assert evaluation.ece == evaluation.mce == evaluation.ks == (not correct)
    assert evaluation.nll == pytest.approx(0 if correct else -math.log(1e-15))
    assert evaluation.error_auroc == 0.5
    assert evaluation.aurc == (not correct)
    assert all(math.isfinite(v) for v in evaluation.metrics().values())


def test_the_smallest_cases():
    one = metrics.evaluate([0], [[2.0, 1.0, 0.0]], intervals=True, n_resamples=10, per_class=True)
    assert all(math.isfinite(v) for v in one.metrics().values())
    only_class_0 = metrics.evaluate(np.zeros(9, int), np.zeros((9, 3)), per_class=True)
    assert only_class_0.accuracy == 1
    assert only_class_0.ece == pytest.approx(2 / 3)


def test_samples_with_several_axes_and_class_names():
    rng = np.random.default_rng(0)
    maps, y = rng.normal(size=(2, 3, 4, 5)), rng.integers(0, 5, (2, 3, 4))
    flat = metrics.evaluate(y.reshape(-1), maps.reshape(-1, 5))
    assert metrics.evaluate(y, maps).to_dict() == flat.to_dict()
    named = np.array(list("abcde"))[y]
    assert metrics.evaluate(named, maps, classes=list("abcde")).to_dict() == flat.to_dict()


def test_binary_conventions():
    rng = np.random.default_rng(0)
    z = rng.normal(size=50) * 2
    y = rng.integers(0, 2, 50)
    p = 1 / (1 + np.exp(-z))
    one = metrics.evaluate(y, z, score_type="logits")
    two = metrics.evaluate(y, np.stack([0 * z, z], axis=1))
    same = metrics.evaluate(y, p, score_type="probabilities")
    assert one.metrics() == {k: close(v) for k, v in same.metrics().items()}
    assert metrics.evaluate(y, z[:, None], score_type="logits").to_dict() == one.to_dict()
    for name in ("accuracy", "nll", "entropy", "aurc", "error_auroc"):
        assert getattr(one, name) == close(getattr(two, name))
    assert two.brier == close(2 * one.brier)
    index = np.clip(np.searchsorted(bin_edges(15), p) - 1, 0, 14)
    assert one.ece == close(np.abs(np.bincount(index, p - y, 15)).sum() / 50)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_scores_of_one_column_need_their_type(shape):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    p = np.clip(0.5 + (2 * y - 1) * 0.25 + 0.3 * rng.normal(size=500), 0.001, 0.999)
    scores = p.reshape(shape)
    for call in (metrics.evaluate, Statistics.of):
        with pytest.raises(InputError, match=r'scores with one column need score_type.*score_type="probabilities"'):
            call(y, scores)
        # the values lie in [0, 1] either way: only score_type decides
        assert call(y, scores, score_type="probabilities").accuracy == ((p > 0.5) == y).mean()
        assert call(y, scores, score_type="logits").accuracy == y.mean()
    assert metrics.accuracy(y, scores) == ((p > 0.5) == y).mean()
    with pytest.raises(UnknownName, match="did you mean 'logits'"):
        metrics.evaluate(y, scores, score_type="logit")


def test_probabilities_are_not_taken_for_logits():
    y, p = np.array([0, 1, 2]), np.full((3, 3), [0.2, 0.3, 0.5])
    with pytest.raises(InputError, match='Pass score_type="probabilities"'):
        metrics.evaluate(y, p)
    assert metrics.evaluate(y, p, score_type="probabilities").nll == close(metrics.negative_log_likelihood(y, p))


@pytest.mark.parametrize("n_bins", range(1, 101))
def test_every_edge_is_in_the_bin_below_it(n_bins):
    edges = np.array([m / n_bins for m in range(1, n_bins + 1)])
    assert bin_edges(n_bins).tolist() == [0, *edges]
    assert bin_indices(edges, bin_edges(n_bins)).tolist() == list(range(n_bins))
    above = np.nextafter(edges[:-1], 1)  # the next float belongs to the bin above
    assert bin_indices(above, bin_edges(n_bins)).tolist() == list(range(1, n_bins))


def test_public_names():
    assert driftcal.metrics is metrics
    assert driftcal.expected_calibration_error is metrics.expected_calibration_error
    assert set(METRICS) <= set(RANGES) | {"classwise_ece", "marginal_debiased_ece"}
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in METRICS)


@pytest.mark.parametrize("n_bins", [0, True, 15.0, "15", 10**9, 10**30])
def test_a_number_of_bins_that_cannot_be_is_refused(n_bins):
    with pytest.raises(InputError, match="n_bins must be a whole number"):
        metrics.expected_calibration_error([0, 1], [[0.4, 0.6], [0.3, 0.7]], n_bins=n_bins)
