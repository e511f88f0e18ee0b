"""The same logits and labels in any container give the same calibrator; edge cases have defined results."""

import numpy as np
import pandas as pd
import pytest

import driftcal
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.core.numerics import softmax
from driftcal.core.validation import for_kernel
from driftcal.errors import InputError, LabelsError, NoFiniteOptimum, ProbabilitiesError

NAMES = sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features)
NEED_T = ("ts", "ets", "ts-ir", "hts", "pts", "window-ts", "level-ts")


@pytest.fixture(scope="module")
def data():
    """Logits that float16 holds exactly, and labels without the last class."""
    rng = np.random.default_rng(7)
    logits = (rng.normal(size=(70, 5)) * 3).astype(np.float16).astype(np.float64)
    y = np.where(rng.random(70) < 0.6, logits[:, :4].argmax(axis=1), rng.integers(0, 4, 70))
    return logits, y


def memory_map(logits, tmp_path):
    np.save(tmp_path / "logits.npy", logits.astype(np.float32))
    return np.load(tmp_path / "logits.npy", mmap_mode="r")


def torch_tensor(logits, _):
    torch = pytest.importorskip("torch")
    return torch.tensor(logits, dtype=torch.float32, requires_grad=True)


def read_only(logits, _):
    logits = logits.copy()
    logits.flags.writeable = False
    return logits


class FakeTensor:
    """Like a tensor of another framework: no array until it is detached and on the CPU."""

    def __init__(self, values):
        self.values, self.dtype = values, values.dtype

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


CONTAINERS = {
    "float16": lambda z, _: z.astype(np.float16),
    "float32": lambda z, _: z.astype(np.float32),
    "big-endian": lambda z, _: z.astype(">f8"),
    "big-endian float32": lambda z, _: z.astype(">f4"),
    "long double": lambda z, _: z.astype(np.longdouble),
    "Fortran order": lambda z, _: np.asfortranarray(z),
    "negative strides": lambda z, _: z[::-1, ::-1].copy()[::-1, ::-1],
    "every other sample": lambda z, _: np.repeat(z, 2, axis=0)[::2],
    "read-only": read_only,
    "list": lambda z, _: z.tolist(),
    "tuple of tuples": lambda z, _: tuple(map(tuple, z)),
    "pandas": lambda z, _: pd.DataFrame(z, columns=list("abcde"), index=range(70, 0, -1)),
    "memory map": memory_map,
    "torch": torch_tensor,
    "tensor-like": lambda z, _: FakeTensor(z),
    "map of samples": lambda z, _: z.reshape(7, 2, 5, 5),
}


@pytest.mark.parametrize("container_name", CONTAINERS)
@pytest.mark.parametrize("name", NAMES)
def test_any_container_and_dtype_gives_the_same_result(name, container_name, data, tmp_path):
    logits, y = data
    container = CONTAINERS[container_name](logits, tmp_path)
    labels = y.reshape(7, 2, 5) if container_name == "map of samples" else y
    expected = make_calibrator(name).fit(logits, y).predict_proba(logits)
    p = make_calibrator(name).fit(container, labels).predict_proba(container)
    assert p.dtype == np.float64
    assert p.shape == ((7, 2, 5, 5) if container_name == "map of samples" else expected.shape)
    np.testing.assert_allclose(p.reshape(expected.shape), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_whole_numbers_are_logits_too(name, dtype, data):
    logits, y = np.round(data[0] * 3) + 60, data[1]
    expected = make_calibrator(name).fit(logits, y).predict_proba(logits)
    whole_numbers = logits.astype(dtype)
    p = make_calibrator(name).fit(whole_numbers, y).predict_proba(whole_numbers)
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-9)


NAMES_OF_CLASSES = ["zebra", "ant", "bee", "cat", "dog"]
LABELS = {
    "int": lambda y: y,
    "uint8": lambda y: y.astype(np.uint8),
    "float": lambda y: y.astype(float),
    "list": lambda y: y.tolist(),
    "column": lambda y: y[:, None],
    "pandas": lambda y: pd.Series(y, index=range(len(y), 0, -1)),
    "nullable pandas": lambda y: pd.Series(y, dtype="Int64"),
    "object": lambda y: y.astype(object),
    "one-hot": lambda y: np.eye(5, dtype=int)[y],
    "one-hot float": lambda y: np.eye(5)[y],
    "one-hot bool": lambda y: np.eye(5, dtype=bool)[y],
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("name", NAMES)
def test_any_kind_of_labels_gives_the_same_result(name, kind, data):
    logits, y = data
    expected = make_calibrator(name).fit(logits, y)
    fitted = make_calibrator(name).fit(logits, LABELS[kind](y))
    assert np.array_equal(fitted.predict_proba(logits), expected.predict_proba(logits))
    assert fitted.classes_.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.Categorical, lambda v: np.array(v, object)])
def test_names_of_classes(kind, data):
    logits, y = data
    names = kind([NAMES_OF_CLASSES[c] for c in y])
    for name in NAMES:
        cal = make_calibrator(name, classes=NAMES_OF_CLASSES).fit(logits, names)
        expected = make_calibrator(name).fit(logits, y)
        assert np.array_equal(cal.predict_proba(logits), expected.predict_proba(logits))
        assert cal.predict(logits).tolist() == [NAMES_OF_CLASSES[c] for c in expected.predict(logits)]


def test_names_without_an_order_are_refused(data):
    logits, y = data
    four = logits[:, :4]
    names = np.array(["a", "b", "c", "d"])
    with pytest.raises(LabelsError, match=r"pass classes=\['a', 'b', 'c', 'd'\]"):
        driftcal.IsotonicRegression().fit(four, names[y])
    other = make_calibrator("ts", classes=[10, 20, 30, 40]).fit(four, 10 * (y + 1))
    assert set(other.predict(four)) <= {10, 20, 30, 40}


@pytest.mark.parametrize("name", NAMES)
def test_binary_shapes_agree(name):
    rng = np.random.default_rng(3)
    score = (rng.normal(size=90) * 3).astype(np.float32)
    y = (score + rng.normal(size=90) * 4 > 0).astype(int)
    two = np.stack([np.full(90, 7.0), score.astype(float) + 7.0], axis=1)
    flat, column = (
        make_calibrator(name).fit(z, y, score_type="logits").predict_proba(z) for z in (score, score[:, None])
    )
    assert flat.shape == (90, 2)
    assert np.array_equal(flat, column)
    np.testing.assert_allclose(flat, make_calibrator(name).fit(two, y).predict_proba(two), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_scores_with_one_column_need_a_score_type_which_is_kept(name, tmp_path):
    rng = np.random.default_rng(3)
    p = rng.uniform(0.02, 0.98, 200)
    y = (rng.random(200) < 0.2 + 0.6 * p).astype(int)
    with pytest.raises(InputError, match="need score_type"):
        make_calibrator(name).fit(p, y)
    cal = make_calibrator(name).fit(p, y, score_type="probabilities")
    assert cal.score_type_ == "probabilities"
    same = make_calibrator(name).fit(np.log(np.stack([1 - p, p], axis=1)), y)
    np.testing.assert_allclose(
        cal.predict_proba(p), same.predict_proba(np.log(np.stack([1 - p, p], axis=1))), atol=1e-6
    )
    again = driftcal.load(cal.save(tmp_path / "cal.safetensors"))
    assert again.score_type_ == "probabilities"
    with pytest.raises(
        ProbabilitiesError, match=r'score_type="probabilities", as in fit.*calibrator that was fitted on logits'
    ):
        again.predict_proba([-3.0, 4.0])
    assert np.array_equal(again.predict_proba(p), cal.predict_proba(p))


@pytest.mark.parametrize("name", NAMES)
def test_masked_classes_get_exactly_0_at_fit_and_at_prediction(name, data):
    logits, y = data[0].copy(), data[1]
    logits[:, 4] = -np.inf  # no label has this class
    logits[np.arange(70), (y + 1) % 4] = np.where(np.arange(70) % 3 == 0, -np.inf, logits[np.arange(70), (y + 1) % 4])
    cal = make_calibrator(name).fit(logits, y)
    p = cal.predict_proba(logits)
    assert (p[np.isneginf(logits)] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-13)
    alone = np.array([[-np.inf, -np.inf, 3.0, -np.inf, -np.inf]])
    assert cal.predict_proba(alone).tolist() == [[0, 0, 1, 0, 0]]
    assert cal.predict_log_proba(alone).tolist() == [[-np.inf, -np.inf, 0, -np.inf, -np.inf]]
    if name in ("ir", "irm", "hb", "pbmc", "ps", "base"):  # a masked class may even be the true one
        make_calibrator(name).fit(np.vstack([logits, alone]), np.append(y, 0))


def test_raw_marginals_of_pbmc_keep_masked_classes_at_0(data):
    logits = data[0].copy()
    logits[::4, 4] = -np.inf
    p = driftcal.PlattBinning(normalise=False).fit(logits, data[1]).predict_proba(logits)
    assert (p[::4, 4] == 0).all()
    assert np.abs(p.sum(axis=1) - 1).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("logits", "y"),
    [
        ([[3.0, 1.0, 0.0]], [0]),
        ([[3.0, 1.0, 0.0]], [2]),
        (np.random.default_rng(0).normal(size=(20, 3)) * 9, np.zeros(20, int)),
        (np.eye(3)[[0, 1, 2, 0]] * 1e4, [0, 1, 2, 0]),
        (np.eye(3)[[0, 1, 2, 0]] * 1e4, [1, 2, 0, 2]),
        (np.zeros((8, 3)), [0, 1, 2, 0, 1, 2, 0, 0]),
        (np.full((8, 3), -1e4), [0] * 8),
        (np.random.default_rng(0).choice([-1e4, 1e4], size=(20, 3)), np.arange(20) % 3),
    ],
    ids=[
        "one correct",
        "one incorrect",
        "one class",
        "all correct",
        "all incorrect",
        "flat",
        "flat, one class",
        "±1e4",
    ],
)
def test_degenerate_samples_have_a_defined_result_or_the_documented_error(name, logits, y):
    try:
        cal = make_calibrator(name).fit(logits, y)
    except NoFiniteOptimum as error:
        assert name in NEED_T
        assert "best temperature" in str(error)  # noqa: PT017
        return
    p = cal.predict_proba(logits)
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in NEED_T if "t_max" in make_calibrator(name).get_params()])
def test_a_cap_is_reached_where_the_best_temperature_is_infinite(name):
    logits = np.random.default_rng(0).normal(size=(30, 3))
    cal = make_calibrator(name, t_max=5).fit(logits, logits.argmin(axis=1))
    assert 0 < cal.temperature_ <= 5
    assert make_calibrator(name, t_max=5).fit(np.zeros((9, 3)), np.arange(9) % 3).predict_proba(
        [[1.0, 0, 0]]
    ).shape == (1, 3)


def test_squared_error_has_a_temperature_where_the_likelihood_has_none():
    # A few samples are certain and incorrect: by likelihood the best T is infinite, by squared error it is finite.
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3))
    y = logits.argmax(axis=1)
    logits[:8] *= 1e4
    y[:8] = logits[:8].argmin(axis=1)
    y[8] = logits[8].argmin()
    with pytest.raises(NoFiniteOptimum, match="no better than chance"):
        make_calibrator("ts").fit(logits, y)
    assert make_calibrator("ets").fit(logits, y).temperature_ < 1


def test_an_empty_class_and_huge_width():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 3_000)).astype(np.float32)
    y = np.array([5, 9, 2_999, 5, 1, 0])
    for name in ("base", "ir", "irm", "hb", "ps", "pbmc"):
        p = make_calibrator(name).fit(logits, y).predict_proba(logits)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)


def test_a_single_sample_with_weight_is_enough():
    logits = np.random.default_rng(0).normal(size=(9, 3))
    y = logits.argmax(axis=1)
    p = driftcal.IsotonicRegression().fit(logits, y, sample_weight=np.arange(9) == 4).predict_proba(logits)
    assert np.isfinite(p).all()
    assert driftcal.Uncalibrated().fit(logits, y).predict_proba(logits) == pytest.approx(softmax(logits))


def test_read_only_logits_are_neither_copied_nor_compiled_for_anew(tmp_path):
    logits = memory_map(np.ones((6, 3)), tmp_path)[2:5]
    block = for_kernel(logits)
    assert block.flags.writeable  # to the compiler the same type as any array
    assert block.ctypes.data == logits.ctypes.data
    assert not logits.flags.writeable
