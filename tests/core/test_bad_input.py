"""Bad input raises the documented error. Its message names the argument, what it must be, what it is, and a way out."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import driftcal
from driftcal import errors as e
from driftcal import metrics
from driftcal.calibrators import make_calibrator

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(12, 3)) * 3
Y = np.where(np.arange(12) % 3 == 0, 1, Z.argmax(axis=1))
P = driftcal.Uncalibrated().fit(Z, Y).predict_proba(Z)
TS = driftcal.TemperatureScaling().fit(Z, Y)


def changed(array, index, value):
    array = np.array(array, dtype=float if isinstance(value, float) else None)
    array[index] = value
    return array


def fit(logits=Z, y=Y, **kwargs):
    return lambda: driftcal.TemperatureScaling().fit(logits, y, **kwargs)


class Source:
    def __init__(self, *chunks):
        self.chunks = chunks

    def __iter__(self):
        return iter(self.chunks)


class Changing(Source):
    """The first reads get the number of columns and scan; every later one yields other samples."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return iter(self.chunks[0] if self.reads <= 3 else self.chunks[1])


HALVES = [(Z[:6], Y[:6]), (Z[6:], Y[6:])]

#: case -> (call, error, then parts of the message: the argument, what it must be, what it is, the way out)
CASES = {
    "NaN": (fit(changed(Z, (4, 1), np.nan)), e.LogitsError, "logits", "must be finite", "sample 4 holds NaN", "Drop such samples"),
    "+inf": (fit(changed(Z, (7, 0), np.inf)), e.LogitsError, "logits", "must be finite", "sample 7 holds +inf", "overflow"),
    "a sample of -inf": (fit(changed(Z, 2, -np.inf)), e.LogitsError, "logits", "one per sample must be finite", "sample 2 is -inf in every column", "Drop such samples"),
    "a logit of 1e200": (fit(changed(Z, (5, 1), 1e200)), e.LogitsError, "logits", "must be finite", "sample 5 holds a number beyond", "overflow"),
    "a single number": (fit(3.0, [0]), e.LogitsError, "logits", "at least one axis", "a single number", "(n, classes)"),
    "no columns": (fit(np.zeros((4, 0)), [0] * 4), e.LogitsError, "logits", "a column per class", "(4, 0)", "(n, classes)"),
    "empty": (fit(np.zeros((0, 3)), []), e.LogitsError, "logits", "at least one sample", "empty", "Check the path"),
    "ragged samples": (fit([[1.0, 2.0], [3.0]], [0, 1]), e.LogitsError, "logits", "rectangular", "numpy says", "Pad or drop"),
    "text as logits": (fit(Z.astype(str)), e.LogitsError, "logits", "real numbers", "dtype <U", "Convert the columns"),
    "complex logits": (fit(Z + 1j), e.LogitsError, "logits", "real numbers", "complex128", "Convert"),
    "bool logits": (fit(Z > 0), e.LogitsError, "logits", "real numbers", "bool", "Convert"),
    "sparse logits": (fit(scipy.sparse.csr_array(Z)), e.LogitsError, "logits", "must be dense", "csr_array", "toarray()"),
    "a numpy mask": (fit(np.ma.masked_less(Z, 0)), e.LogitsError, "logits", "must not have masked entries", "under the mask", "Fill or drop"),
    "probabilities as logits": (fit(P), e.LogitsError, "logits", "unnormalised", "sums to 1", "from_probabilities"),
    "label too large": (fit(y=changed(Y, 3, 12)), e.LabelsError, "labels", "0..2", "sample 3 has 12", "subtract 1"),
    "label -1": (fit(y=changed(Y, 3, -1)), e.LabelsError, "labels", "0..2", "sample 3 has -1", "counts from 1"),
    "too few labels": (fit(y=Y[:-2]), e.LabelsError, "y", "one label per sample", "12 samples and 10 labels", "same data"),
    "no labels": (lambda: driftcal.TemperatureScaling().fit(Z), e.LabelsError, "y", "a label per sample", "missing", "fit(logits, y)"),
    "a fraction as label": (fit(y=changed(Y, 5, 0.5)), e.LabelsError, "y", "whole numbers or class names", "sample 5 has 0.5", "swapped"),
    "an infinite label": (fit(y=changed(Y, 5, np.inf)), e.LabelsError, "y", "whole numbers", "sample 5 has inf", "swapped"),
    "NaN as label": (fit(y=changed(Y, 5, np.nan)), e.LabelsError, "y", "whole numbers", "sample 5 has nan", "swapped"),
    "pandas.NA as label": (fit(y=np.array([pd.NA, *Y[1:]], object)), e.LabelsError, "y", "one kind for all samples", "missing values", "drop samples"),
    "only None as labels": (fit(y=[None] * 12), e.LabelsError, "y", "one kind", "missing values", "drop samples without a label"),
    "two ones in one-hot": (fit(y=changed(np.eye(3)[Y], 6, 1.0)), e.LabelsError, "one-hot y", "single 1 per sample", "sample 6 has 3", "Multi-label"),
    "one-hot without a one": (fit(y=changed(np.eye(3)[Y], 6, 0.0)), e.LabelsError, "one-hot y", "single 1 per sample", "sample 6 has 0", "Multi-label"),
    "logits as labels": (fit(y=Z), e.LabelsError, "y", "one-hot samples of 0 and 1", "other values", "swapped"),
    "names mixed with numbers": (fit(y=np.array(["a", "b", 3] * 4, object)), e.LabelsError, "y", "class names or numbers", "numbers and text", "Convert one"),
    "names without their order": (fit(y=["a", "b"] * 6), e.LabelsError, "labels", "in the order of the model's outputs", "text ('a', 'b')", "classes=['a', 'b', ...]"),
    "an unknown name": (lambda: driftcal.TemperatureScaling(classes=["a", "b", "c"]).fit(Z, ["a", "b", "x"] * 4), e.LabelsError, "labels", "among classes, 'a', 'b', 'c'", "sample 2 has 'x'", "classes=[...]"),
    "dates as labels": (fit(y=np.array(["2021-01-01"] * 12, "datetime64[D]")), e.LabelsError, "y", "integers, class names or one-hot", "datetime64", "Convert"),
    "classes named twice": (lambda: driftcal.TemperatureScaling(classes=["a", "a", "b"]).fit(Z, Y), e.InputError, "classes", "each of the 3 columns", "2 of them different", "column order"),
    "negative weight": (fit(sample_weight=changed(np.ones(12), 9, -1.0)), e.WeightsError, "sample_weight", "at least 0", "sample 9 has -1.0", "Use 0"),
    "NaN weight": (fit(sample_weight=changed(np.ones(12), 9, np.nan)), e.WeightsError, "sample_weight", "finite", "sample 9 has nan", "Use 0"),
    "too few weights": (fit(sample_weight=[1, 2]), e.WeightsError, "sample_weight", "one number per sample", "12 samples", "Leave it out"),
    "all weights 0": (fit(sample_weight=np.zeros(12)), e.WeightsError, "sample_weight", "positive sum", "all weights are zero", "Leave it out"),
    "weights of 1e300": (fit(sample_weight=np.full(12, 1e300)), e.WeightsError, "sample_weight", "sum to a number between", "1.2e+301", "one factor"),
    "weights of 1e-300": (fit(sample_weight=np.full(12, 1e-300)), e.WeightsError, "sample_weight", "sum to a number between", "1.2e-299", "one factor"),
    "features": (fit(features=Z), e.InputError, "TemperatureScaling", "logits only", "features or reference was given", "Leave them out"),
    "correct on every sample": (fit(y=Z.argmax(axis=1)), e.NoFiniteOptimum, "temperature", "error to measure confidence by", "correct on every tuning sample", "Tune on more samples"),
    "incorrect on every sample": (fit(y=Z.argmin(axis=1)), e.NoFiniteOptimum, "temperature", "match", "no better than chance", "t_max=5"),
    "true class masked": (fit(changed(Z, (3, Y[3]), -np.inf)), e.NoFiniteOptimum, "logit", "finite logit for every true class", "masked with -inf", "weight 0"),
    "t_max of 0": (lambda: driftcal.TemperatureScaling(t_max=0).fit(Z, Y), e.InputError, "t_max", "positive number", "0", "Leave it out"),
    "t_max as text": (lambda: driftcal.TemperatureScaling(t_max="5").fit(Z, Y), e.InputError, "t_max", "positive number", "'5'", "Leave it out"),
    "no bins": (lambda: driftcal.HistogramBinning(n_bins=0).fit(Z, Y), e.InputError, "n_bins", "at least 1", "0", "default is 10"),
    "unknown strategy": (lambda: driftcal.HistogramBinning(strategy="equal").fit(Z, Y), e.InputError, "strategy", "'mass' or 'width'", "'equal'", "usual one"),
    "unknown calibrator": (lambda: make_calibrator("tss"), e.UnknownName, "calibrator", "Known", "'tss'", "did you mean 'ts'"),
    "unknown parameter": (lambda: make_calibrator("ts", bins=3), e.InputError, "'ts'", "takes", "'bins'", "Leave it out"),
    "unfitted": (lambda: driftcal.PlattScaling().predict_proba(Z), e.NotFittedError, "PlattScaling", "must be fitted", "it is not", "fit(logits, y) first"),
    "unfitted save": (lambda: driftcal.PlattScaling().save("x.safetensors"), e.NotFittedError, "calibrator", "only a fitted", "is not", "fit(logits, y) first"),
    "wrong class count": (lambda: TS.predict_proba(np.zeros((2, 5))), e.LogitsError, "logits", "3 columns", "they have 5", "Load the calibrator"),
    "NaN at prediction": (lambda: TS.predict_proba([[0.0, np.nan, 1.0]]), e.LogitsError, "logits", "must be finite", "sample 0 holds NaN", "Drop such samples"),
    "+inf at prediction": (lambda: TS.predict([[0.0, np.inf, 1.0]]), e.LogitsError, "logits", "must be finite", "sample 0 holds +inf", "overflow"),
    "-inf at prediction": (lambda: TS.predict_log_proba(np.full((1, 3), -np.inf)), e.LogitsError, "logits", "one per sample", "-inf in every column", "Drop"),
    "chunks at prediction": (lambda: TS.predict_proba(Source(*HALVES)), e.LogitsError, "logits", "an array", "a source of chunks", "one by one"),
    "a generator": (lambda: driftcal.TemperatureScaling().fit(c for c in HALVES), e.LogitsError, "source of chunks", "more than once", "generator", "starts again"),
    "labels beside chunks": (lambda: driftcal.TemperatureScaling().fit(Source(*HALVES), Y), e.InputError, "y and sample_weight", "left out", "they were given", "each chunk"),
    "chunks without labels": (lambda: driftcal.TemperatureScaling().fit(Source(Z, Z)), e.LogitsError, "source", "must yield (logits, y)", "ndarray", "Yield tuples"),
    "no chunks": (lambda: driftcal.TemperatureScaling().fit(Source()), e.LogitsError, "logits", "at least one sample", "yields nothing", "Check the path"),
    "chunks of two widths": (lambda: driftcal.TemperatureScaling().fit(Source((Z, Y), (Z[:, :2], Y % 2))), e.LogitsError, "chunks", "3 columns", "one has 2", "two models"),
    "chunks that grow": (lambda: driftcal.IsotonicRegression().fit(Changing(HALVES, HALVES * 2)), e.LogitsError, "source of chunks", "same samples", "12 samples", "Fix the order"),
    "chunks that shrink": (lambda: driftcal.IsotonicRegression().fit(Changing(HALVES, HALVES[:1])), e.LogitsError, "source of chunks", "same samples", "a later one", "Fix the order"),
    "chunks with new labels": (lambda: driftcal.IsotonicRegression().fit(Changing(HALVES, [(Z, Y + 7)])), e.LogitsError, "source of chunks", "same samples", "labels 0..2", "Fix the order"),
    "logits as probabilities": (lambda: driftcal.from_probabilities(Z), e.ProbabilitiesError, "probabilities", "lie in [0, 1]", "it holds", "If these are logits"),
    "samples that sum to 2": (lambda: driftcal.from_probabilities(np.full((2, 4), 0.5)), e.ProbabilitiesError, "probabilities", "sum to 1", "sample 0 sums to 2", "normalise"),
    "NaN probabilities": (lambda: driftcal.from_probabilities([[np.nan, 1.0, 0.0]]), e.ProbabilitiesError, "probabilities", "lie in [0, 1]", "nan", "If these are logits"),
    "swapped metric arguments": (lambda: metrics.expected_calibration_error(P, Y), e.InputError, "arguments", "(y_true, probabilities)", "fractions", "Swap"),
    "swapped binary arguments": (lambda: metrics.brier_score(P[:, 0], Y % 2), e.InputError, "arguments", "(y_true, probabilities)", "fractions", "Swap"),
    "swapped evaluate arguments": (lambda: metrics.evaluate(Z, Y), e.InputError, "arguments", "(y_true, scores)", "", "Swap"),
    "logits in a metric": (lambda: metrics.expected_calibration_error(Y, Z), e.ProbabilitiesError, "probabilities", "[0, 1]", "it holds", "evaluate(y, logits)"),
    "metric of too few labels": (lambda: metrics.accuracy(Y[:5], P), e.LabelsError, "y", "one label per sample", "12 samples and 5 labels", "same data"),
    "metric of no samples": (lambda: metrics.accuracy([], np.zeros((0, 3))), e.InputError, "probabilities", "at least one sample", "empty", "Check"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_raises_an_error_with_the_way_out(case):
    call, error, *parts = CASES[case]
    with pytest.raises(e.DriftcalError) as raised:
        call()
    assert isinstance(raised.value, error)
    message = str(raised.value)
    assert [part for part in parts if part not in message] == [], message
    assert message.endswith((".", "?"))


@pytest.mark.parametrize("name", ["ts", "ps", "hb", "irm"])
def test_all_calibrators_refuse_bad_logits(name):
    for bad in (changed(Z, (4, 1), np.nan), changed(Z, (4, 1), np.inf), np.zeros((0, 3)), P):
        with pytest.raises(e.LogitsError):
            make_calibrator(name).fit(bad, Y[: len(bad)])


@pytest.mark.parametrize("name", ["ir", "irm", "ps", "beta"])
@pytest.mark.parametrize(
    "other", [40 * np.abs(Z) + 5, Z + np.inf, Z * np.nan, Z - 1e60], ids=["larger", "inf", "nan", "smaller"]
)
def test_other_logits_in_a_later_pass_are_refused(name, other):
    source = Changing(HALVES, [(other, Y)])
    source.reads = -1  # the pass that stores numbers per sample still reads the first samples
    with pytest.raises(e.LogitsError, match="same order"):
        driftcal.make_calibrator(name).fit(source)


@pytest.mark.parametrize("other", [40 * np.abs(Z) + 5, Z + np.inf, Z * np.nan, Z - 1e60])
def test_other_logits_give_no_score_beyond_the_intervals(other):
    from driftcal.calibrators.nonparametric.kernels.accumulate import INVERSE, TOP, _write_other_scores

    norms, scores = np.empty(2), np.empty(3)
    norms[TOP], norms[INVERSE] = Z[0].max(), 1 / np.exp(Z[0] - Z[0].max()).sum()
    _write_other_scores(other[0], 0, norms, 1.0, scores)
    assert (scores <= 1).all()


@pytest.mark.parametrize("constant", [0, 3000])  # a constant added to all logits changes nothing
@pytest.mark.parametrize("name", ["ts", "ets", "ir", "irm", "ts-ir", "ps", "hb", "pbmc", "vs", "beta", "spline", "hts"])
def test_a_source_that_shuffles_is_refused_or_makes_no_difference(name, constant):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3)) * 2 + constant
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)

    class Shuffling:
        def __iter__(self):
            order = rng.permutation(600)
            return iter([(logits[part], y[part]) for part in np.split(order, 4)])

    needs_order = name in {"ir", "irm", "ts-ir", "ps", "hb", "pbmc", "beta"}  # they store numbers per sample
    if needs_order:
        with pytest.raises(e.LogitsError, match="Remove shuffling and augmentation"):
            make_calibrator(name).fit(Shuffling())
    else:
        p = make_calibrator(name).fit(Shuffling()).predict_proba(logits)
        np.testing.assert_allclose(p, make_calibrator(name).fit(logits, y).predict_proba(logits), atol=1e-9)


@pytest.mark.parametrize("size", [1, 600])
@pytest.mark.parametrize("name", ["irm", "ps"])
def test_a_source_may_differ_in_its_last_digits(name, size):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3)).astype(np.float32)
    logits[::7, 2] = -np.inf
    logits[::5] *= 1e-4  # differences near 0, too
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)

    class Computing:
        def __iter__(self):
            computed = logits + rng.normal(0, 2e-5, logits.shape).astype(np.float32)
            yield from ((computed[low : low + size], y[low : low + size]) for low in range(0, 600, size))

    p = make_calibrator(name).fit(Computing()).predict_proba(logits)
    assert np.abs(p - make_calibrator(name).fit(logits, y).predict_proba(logits)).mean() < 0.01


def test_chunks_may_be_cut_differently_in_every_pass():
    class Recut:
        cuts = 0

        def __iter__(self):
            self.cuts += 1
            return iter([(Z[: self.cuts], Y[: self.cuts]), (Z[self.cuts :], Y[self.cuts :])])

    np.testing.assert_array_equal(
        make_calibrator("irm").fit(Recut()).predict_proba(Z), make_calibrator("irm").fit(Z, Y).predict_proba(Z)
    )


def test_a_bad_number_of_threads_is_named(monkeypatch):
    monkeypatch.setenv("DRIFTCAL_THREADS", "many")
    with pytest.raises(e.InputError, match=r"DRIFTCAL_THREADS must be a whole number of at least 1; it is 'many'"):
        fit()()


def test_the_errors_are_python_errors_too():
    assert issubclass(e.InputError, ValueError)
    assert issubclass(e.NotFittedError, (ValueError, AttributeError))
    assert issubclass(e.DidNotConverge, RuntimeError)
    assert len(CASES) > 60


def test_rounded_probabilities_are_refused_as_logits():
    rounded = np.round(P, 2)
    assert abs(rounded.sum(axis=1) - 1).max() > 1e-3
    with pytest.raises(e.LogitsError, match=r"so these are probabilities.*divided by their sums"):
        make_calibrator("ts").fit(rounded, Y)
