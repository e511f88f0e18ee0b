"""Laws that hold for every calibrator in the registry and any logits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.core.numerics import log_softmax, softmax
from driftcal.errors import DidNotConverge, NoFiniteOptimum

pytestmark = pytest.mark.law

NAMES = sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features)
#: their tuning loss is never higher than that of the uncalibrated model
NEVER_WORSE = ["beta", "dirichlet", "ets", "hts", "ir", "irm", "ps", "pts", "svs", "ts", "vs"]
#: without a finite temperature these raise
NEED_T = ("ts", "ets", "ts-ir", "hts", "pts", "window-ts", "level-ts")
#: their loss is infinite where a true class is masked
NEED_TRUTH = ("vs", "svs", "dirichlet")
#: training a network amplifies the last digit of its sums
ROUNDING = {"pts": 1e-6}
FEW = settings(max_examples=15, derandomize=True)


def problem(seed, n=60, n_classes=4, scale=3.0, *, error_rate=0.3, missing=False):
    """Logits of an over-confident model that is mostly correct, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * scale
    y = logits.argmax(axis=1)
    flip = rng.random(n) < error_rate
    y[flip] = rng.integers(0, n_classes, flip.sum())
    y[:3] = np.argsort(logits[:3], axis=1)[:, -2]  # never separable
    return logits, np.where(y == n_classes - 1, 0, y) if missing else y


@st.composite
def difficult_data(draw):
    """Any size of logits up to 1e4, ties, masked classes, missing classes, labels of all kinds, one sample to many."""
    n, n_classes = draw(st.sampled_from([1, 2, 5, 37])), draw(st.sampled_from([2, 3, 4, 7]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = rng.normal(size=(n, n_classes)) * draw(st.sampled_from([0.0, 1e-6, 1.0, 10.0, 1e4]))
    if draw(st.booleans()):
        logits = np.round(logits)
    if draw(st.booleans()):
        masked = rng.random(logits.shape) < 0.3
        masked[np.arange(n), rng.integers(0, n_classes, n)] = False
        logits[masked] = -np.inf
    kind = draw(st.sampled_from(["random", "correct", "incorrect", "one class", "mostly correct"]))
    y = {"correct": logits.argmax(axis=1), "incorrect": logits.argmin(axis=1)}.get(kind, rng.integers(0, n_classes, n))
    y = np.full(n, y[0]) if kind == "one class" else y
    y = np.where(rng.random(n) < 0.7, logits.argmax(axis=1), y) if kind == "mostly correct" else y
    weights = draw(st.sampled_from([None, rng.random(n) + 1e-3, rng.integers(0, 3, n) + (np.arange(n) == 0)]))
    return logits.astype(draw(st.sampled_from(["f4", "f8"]))), y, weights


def fitted(name, logits, y, **kwargs) -> Calibrator:
    return make_calibrator(name).fit(logits, y, **kwargs)


def numbers(calibrator):
    return [np.asarray(getattr(calibrator, name)) for name in calibrator.fitted]


def agree(a, b, tolerance=1e-9):
    tolerance = max(tolerance, max(ROUNDING.get(name, 0) for name in NAMES if CALIBRATORS[name] is type(a)))
    for x, y in zip(numbers(a), numbers(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    logits = problem(99, 50, a.n_features_in_)[0]
    np.testing.assert_allclose(a.predict_proba(logits), b.predict_proba(logits), rtol=0, atol=tolerance)


def same_bits(a, b):
    assert all(np.array_equal(x, y) for x, y in zip(numbers(a), numbers(b), strict=True))


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(difficult_data())
def test_any_logits_give_probabilities_or_a_driftcal_error(name, data):
    logits, y, weights = data
    if len(y) > 1 and ((logits >= 0) & (np.abs(logits.sum(axis=1, keepdims=True) - 1) <= 1e-3)).all():
        return  # rounded logits that are probabilities are refused; another test covers them
    try:
        cal = fitted(name, logits, y, sample_weight=weights)
    except DidNotConverge as error:
        assert isinstance(error, NoFiniteOptimum)  # noqa: PT017
        masked = np.isneginf(logits[np.arange(len(y)), y]) & (
            np.ones(len(y)) if weights is None else weights > 0
        ).astype(bool)
        assert name in NEED_T or (name in NEED_TRUTH and masked.any())
        return
    for z in (logits, problem(1, 5, logits.shape[1], 100.0)[0]):
        p, log_p = cal.predict_proba(z), cal.predict_log_proba(z)
        assert ((p >= 0) & (p <= 1)).all()  # false for NaN
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-13)
        assert (log_p <= 0).all()
        np.testing.assert_allclose(np.exp(log_p), p, rtol=1e-9, atol=1e-300)
        assert (p[np.isneginf(z)] == 0).all()
        if cal.keeps_accuracy:
            assert np.array_equal(cal.predict(z), z.argmax(axis=1))
            assert (p[np.arange(len(z)), z.argmax(axis=1)] == p.max(axis=1)).all()
    report = cal.fit_report_
    assert report.passes >= 2
    assert report.seconds > 0
    if name in NEVER_WORSE and not report.warnings:
        assert report.after <= report.before + 1e-12 * max(1, report.before)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(seed=st.integers(0, 10**6))
def test_a_constant_added_to_the_logits_of_a_sample_changes_nothing(name, seed):
    logits, y = problem(seed)
    logits = np.round(logits * 2**20) / 2**20  # so that the sums below are exact
    moved = logits + 2.0 ** np.random.default_rng(seed).integers(-3, 15, (len(y), 1))
    a, b = fitted(name, logits, y), fitted(name, moved, y)
    agree(a, b, 1e-12)
    np.testing.assert_allclose(a.predict_proba(logits), a.predict_proba(moved), rtol=0, atol=1e-13)


@FEW
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 30.0, 1e4]), n_classes=st.sampled_from([2, 3, 10]))
def test_temperature_scaling_lowers_its_loss_and_finds_1_on_its_own_output(seed, scale, n_classes):
    logits, y = problem(seed, 90, n_classes, scale)
    ts = fitted("ts", logits, y)
    samples = np.arange(len(y))
    loss = [
        -log_softmax(logits, b)[samples, y].mean()
        for b in (1, 1 / ts.temperature_, 1.001 / ts.temperature_, 0.999 / ts.temperature_)
    ]
    assert loss[1] == pytest.approx(ts.fit_report_.after, rel=1e-12)
    assert loss[0] == pytest.approx(ts.fit_report_.before, rel=1e-12)
    assert loss[1] <= min(loss) * (1 + 1e-14)
    again = fitted("ts", ts.predict_log_proba(logits), y)
    assert again.temperature_ == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("name", NEVER_WORSE)
@FEW
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 30.0, 1e3]))
def test_tuning_never_raises_its_own_loss(name, seed, scale):
    report = fitted(name, *problem(seed, 70, 3, scale)).fit_report_
    assert report.after <= report.before * (1 + 1e-12)


def test_the_reported_losses_are_those_of_the_predictions():
    logits, y = problem(3, 200, 5)
    hits = np.eye(5)[y]
    p = softmax(logits)
    for name in ("ets", "ts-ir", "ir", "irm", "hb"):
        cal = fitted(name, logits, y)
        assert cal.fit_report_.before == pytest.approx(((p - hits) ** 2).sum(axis=1).mean(), rel=1e-12)
    ets = fitted("ets", logits, y)
    assert ets.fit_report_.after == pytest.approx(
        ((ets.predict_proba(logits) - hits) ** 2).sum(axis=1).mean(), rel=1e-12
    )


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(seed=st.integers(0, 10**6))
def test_whole_weights_are_repeated_samples_and_weight_0_is_a_dropped_sample(name, seed):
    logits, y = problem(seed, 80)
    weights = np.random.default_rng(seed).integers(0, 4, len(y))
    weights[:3] = 1
    logits[weights == 0] = [0, 0, 0, -np.inf]
    y[weights == 0] = 3  # its loss would be infinite
    repeated = np.repeat(np.arange(len(y)), weights)
    agree(fitted(name, logits, y, sample_weight=weights), fitted(name, logits[repeated], y[repeated]))
    same = fitted(name, logits[weights > 0], y[weights > 0], sample_weight=weights[weights > 0] * 3.5)
    if (
        not same.fit_report_.warnings and not same.uses_sample_count
    ):  # Platt's smoothed targets and priors count samples
        agree(fitted(name, logits, y, sample_weight=weights), same)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(seed=st.integers(0, 10**6))
def test_the_order_of_samples_does_not_matter(name, seed):
    logits, y = problem(seed, 80)
    order = np.random.default_rng(seed).permutation(len(y))
    agree(fitted(name, logits, y), fitted(name, logits[order], y[order]))


class Chunks:
    """A source that can be read again and again."""

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(seed=st.integers(0, 10**6))
def test_any_chunking_gives_the_same(name, seed):
    logits, y = problem(seed, 90)
    rng = np.random.default_rng(seed)
    weights = rng.random(len(y)) + 0.1
    cuts = np.sort(rng.integers(0, len(y), rng.integers(0, 6)))  # empty chunks too
    source = Chunks(*zip(*(np.split(a, cuts) for a in (logits, y, weights)), strict=True))
    agree(make_calibrator(name).fit(source), fitted(name, logits, y, sample_weight=weights))


@pytest.mark.parametrize("name", NAMES)
def test_many_blocks_threads_and_callers_at_once_give_the_same_bits(name, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", 256)
    monkeypatch.setattr("driftcal.calibrators.nonparametric.kernels.accumulate._SERIAL_SCORES", 64)
    logits, y = problem(5, 1000, 6)
    fits = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("DRIFTCAL_THREADS", threads)
        fits.append(fitted(name, logits, y))
    monkeypatch.setattr(
        "driftcal.calibrators.nonparametric.kernels.accumulate._MANY_SCORES", 1
    )  # larger blocks add whole weights, in whatever order
    with ThreadPoolExecutor(4) as pool:
        fits += pool.map(lambda _: fitted(name, logits, y), range(4))
    for other in fits[1:]:
        same_bits(fits[0], other)
        assert np.array_equal(fits[0].predict_proba(logits), other.predict_proba(logits))
    monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", 1 << 18)
    agree(fits[0], fitted(name, logits, y))


@pytest.mark.parametrize("name", NAMES)
def test_edges_and_curve_points_are_scores_of_the_fit(name):
    logits, y = problem(8, 1003, 7)
    cal = fitted(name, logits.astype("f4"), y)
    if name in ("hb", "pbmc"):
        from driftcal.calibrators.scaling.platt import platt_kernel

        scores = softmax(logits.astype("f4")) if name == "hb" else np.empty(logits.shape)
        if name == "pbmc":
            platt_kernel(logits.astype("f4"), scores, cal.slopes_, cal.intercepts_)
        for c in range(7):
            assert np.isin(cal.bin_edges_[c], scores[:, c]).all()
    if "curve_scores_" in cal.fitted:
        scale = 1 / getattr(cal, "temperature_", 1.0)
        assert np.isin(cal.curve_scores_, softmax(logits.astype("f4"), scale)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_second_fit_replaces_the_first_and_a_failed_fit_changes_nothing(name):
    first, second = problem(1, 50, 5), problem(2, 60, 3)
    cal = fitted(name, *first)
    same_bits(cal.fit(*second), fitted(name, *second))
    before = cal.predict_proba(second[0])
    with pytest.raises(ValueError, match="NaN"):
        cal.fit(np.full((4, 7), np.nan), [0, 1, 2, 3])
    if name in NEED_T:
        with pytest.raises(NoFiniteOptimum, match="correct on every tuning sample"):
            cal.fit(first[0], first[0].argmax(axis=1))
    assert np.array_equal(cal.predict_proba(second[0]), before)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_clones(name):
    cal = fitted(name, *problem(1))
    unfitted = clone(cal)
    assert unfitted.get_params() == cal.get_params()
    assert not unfitted.__sklearn_is_fitted__()
    assert unfitted.set_params(classes=["a", "b", "c", "d"]) is unfitted
    assert unfitted.get_params()["classes"] == ["a", "b", "c", "d"]
    report = cal.fit_report_
    assert report.to_dict().keys() == {"loss", "before", "after", "passes", "seconds", "warnings"}
    assert cal.n_features_in_ == 4
    assert report.loss


def test_a_million_equal_weights_add_up():
    n = 1_000_000
    irm = make_calibrator("irm").fit(np.zeros((n, 2), np.float32), np.zeros(n, int), sample_weight=np.full(n, 0.1))
    np.testing.assert_allclose(irm.predict_proba(np.zeros((1, 2))), 0.5)
