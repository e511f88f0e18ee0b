"""The laws that every calibrator obeys, as one function to run on a new one."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import CALIBRATORS, Calibrator, register_calibrator
from driftcal.calibrators.fitted_array import check_arrays
from driftcal.calibrators.serialization import load
from driftcal.errors import LogitsError
from driftcal.types import Array, Float64, Labels

_TOLERANCE = 1e-9


def check_calibrator(kind: type[Calibrator], *, random_state: int = 0, tolerance: float = _TOLERANCE) -> list[str]:
    """Run the laws of a calibrator on `kind`; raise `AssertionError` that names the first law it breaks.

    The laws: parameters survive a clone; fitted attributes are as declared; probabilities are valid and masked classes get 0; the
    predicted class is kept if `keeps_accuracy`; a constant added to a sample's logits, the order of samples and the way they are
    cut into chunks do not matter; whole weights are repeated samples; NaN is refused; a file gives the same probabilities to
    the bit; ONNX and torch agree with Python, where they are installed and the calibrator has an `export_map`.

    Parameters
    ----------
    kind
        A subclass of :class:`driftcal.LogitCalibrator` whose parameters all have defaults. It need not be registered.
    random_state
        The seed of the logits it is tried on.
    tolerance
        By how much probabilities may differ where rounding may differ.

    Returns
    -------
    list of str
        The laws that were checked.

    >>> from driftcal import TemperatureScaling
    >>> len(check_calibrator(TemperatureScaling)) > 8
    True
    """
    problem = _Problem(kind, random_state, tolerance)
    checked = []
    with _registered(kind):
        for law in _LAWS:
            try:
                was_checked = law(problem)
            except Exception as broken:  # whatever the calibrator raises
                reason = str(broken) if isinstance(broken, AssertionError) else f"{type(broken).__name__}: {broken}"
                raise AssertionError(f"{kind.__name__}: {law.__doc__} {reason}") from broken
            if was_checked is not False:
                checked.append(str(law.__doc__))
    return checked


class _Problem:
    """Labelled logits of an over-confident model with errors in every class, and a calibrator fitted on them."""

    def __init__(self, kind: type[Calibrator], random_state: int, tolerance: float) -> None:
        if kind.needs_features:
            raise ValueError(f"{kind.__name__} reads layer features, which these laws do not cover. Test it by hand.")
        rng = np.random.default_rng(random_state)
        self.kind, self.tolerance = kind, tolerance
        self.logits: Float64 = np.round(rng.normal(size=(120, 4)) * 3 * 2**20) / 2**20  # sums below stay exact
        correct = rng.random(120) < 0.7
        self.labels: Labels = np.where(correct, self.logits.argmax(axis=1), rng.integers(0, 4, 120))
        self.weights = rng.integers(1, 4, 120)
        self.fitted = self.fit(self.logits, self.labels)

    def fit(self, logits: Any, labels: Labels | None, **options: Any) -> Calibrator:
        return self.kind().fit(logits, labels, **options)

    def assert_same(self, other: Calibrator, what: str) -> None:
        difference = float(np.abs(self.fitted.predict_proba(self.logits) - other.predict_proba(self.logits)).max())
        assert difference <= self.tolerance, f"{what}: probabilities differ by {difference:.3g}."


def _parameters(problem: _Problem) -> None:
    """Parameters must survive a clone."""
    made = problem.kind()
    assert clone(made).get_params() == made.get_params(), "clone() gives other parameters: store each one unchanged."


def _fitted_attributes(problem: _Problem) -> None:
    """Fitted attributes must be as declared."""
    fitted = problem.fitted
    values = {name: getattr(fitted, name, None) for name in fitted.fitted}
    missing = [name for name, value in values.items() if value is None]
    assert not missing, f"fit() must set {missing[0]}, which `fitted` declares."
    try:
        check_arrays(values, fitted.fitted, fitted.n_features_in_)
        fitted._check_fitted()
    except ValueError as error:
        raise AssertionError(str(error)) from error


def _valid_probabilities(problem: _Problem) -> None:
    """Probabilities must be valid."""
    extreme = np.array([[1e4, 0, 0, 0], [0, 0, 0, 0], [0, -1e4, 5, 5], [1, 2, -np.inf, 3]])
    for logits in (problem.logits, extreme):
        p, log_p = problem.fitted.predict_proba(logits), problem.fitted.predict_log_proba(logits)
        assert p.shape == logits.shape, f"predict_proba() of {logits.shape} has shape {p.shape}."
        assert ((p >= 0) & (p <= 1)).all(), "a probability is NaN or outside [0, 1]."
        assert np.abs(p.sum(axis=1) - 1).max() < 1e-12, "the probabilities of a sample do not sum to 1."
        assert np.allclose(np.exp(log_p), p, rtol=1e-9, atol=1e-300), "predict_log_proba() is not the logarithm."
        assert (p[np.isneginf(logits)] == 0).all(), "a masked class (-inf) must get probability 0."


def _accuracy(problem: _Problem) -> bool:
    """The predicted class must be kept, since keeps_accuracy is True."""
    if not problem.fitted.keeps_accuracy:
        return False
    p = problem.fitted.predict_proba(problem.logits)
    top = p[np.arange(len(p)), problem.logits.argmax(axis=1)]
    assert (top == p.max(axis=1)).all(), "another class became the most likely one."
    return True


def _constant(problem: _Problem) -> None:
    """A constant added to a sample's logits must not matter."""
    moved = problem.logits + 2.0 ** np.arange(len(problem.logits))[:, None].clip(0, 10)
    problem.assert_same(problem.fit(moved, problem.labels), "fitted on moved logits")
    difference = np.abs(problem.fitted.predict_proba(moved) - problem.fitted.predict_proba(problem.logits)).max()
    assert difference <= problem.tolerance, f"predicted on moved logits: probabilities differ by {difference:.3g}."


def _order(problem: _Problem) -> None:
    """The order of the samples must not matter."""
    order = np.random.default_rng(1).permutation(len(problem.labels))
    problem.assert_same(problem.fit(problem.logits[order], problem.labels[order]), "fitted in another order")


def _chunks(problem: _Problem) -> None:
    """The way samples are cut into chunks must not matter."""
    chunks = [(problem.logits[:50], problem.labels[:50]), (problem.logits[50:], problem.labels[50:])]
    problem.assert_same(problem.fit(chunks, None), "fitted on two chunks")


def _whole_weights(problem: _Problem) -> None:
    """Whole weights must be repeated samples."""
    repeated = np.repeat(np.arange(len(problem.labels)), problem.weights)
    weighted = problem.fit(problem.logits, problem.labels, sample_weight=problem.weights)
    by_hand = problem.fit(problem.logits[repeated], problem.labels[repeated])
    difference = np.abs(weighted.predict_proba(problem.logits) - by_hand.predict_proba(problem.logits)).max()
    assert difference <= problem.tolerance, f"probabilities differ by {difference:.3g}."


def _one_by_one(problem: _Problem) -> None:
    """predict_proba must look at each sample alone."""
    together = problem.fitted.predict_proba(problem.logits[:10])
    alone: Array = np.concatenate([problem.fitted.predict_proba(sample[None]) for sample in problem.logits[:10]])
    assert np.abs(together - alone).max() <= problem.tolerance, "probabilities depend on the other samples of a batch."


def _refuses_nan(problem: _Problem) -> None:
    """NaN must be refused."""
    broken = problem.logits.copy()
    broken[3, 1] = np.nan
    for name, use in (("fit", lambda: problem.fit(broken, problem.labels)), ("predict_proba", lambda: problem.fitted.predict_proba(broken))):  # fmt: skip
        try:
            use()
        except LogitsError:
            continue
        raise AssertionError(f"{name}() accepts NaN.")


def _file(problem: _Problem) -> None:
    """A file must give the same probabilities to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        again = load(problem.fitted.save(Path(folder) / "calibrator.safetensors"))
    assert type(again) is problem.kind, f"the file gives a {type(again).__name__}."
    same = np.array_equal(again.predict_proba(problem.logits), problem.fitted.predict_proba(problem.logits))
    assert same, "the loaded calibrator gives other probabilities: name every fitted attribute in `fitted`."


def _export(problem: _Problem) -> bool:
    """ONNX and torch must agree with Python."""
    if problem.fitted.export_map() is None:
        return False
    checked = False
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        from driftcal.export.onnx.to_onnx import to_onnx

        to_onnx(problem.fitted)  # refuses a graph that differs by more than 1e-6
        checked = True
    if importlib.util.find_spec("torch"):
        import torch

        from driftcal.export.torch.to_torch import to_torch

        p = to_torch(problem.fitted)(torch.from_numpy(problem.logits)).numpy()
        difference = np.abs(p - problem.fitted.predict_proba(problem.logits)).max()
        assert difference < 1e-6, f"the torch module differs by {difference:.3g}."
        checked = True
    return checked


_LAWS: tuple[Callable[[_Problem], Any], ...] = (
    _parameters,
    _fitted_attributes,
    _valid_probabilities,
    _accuracy,
    _constant,
    _order,
    _chunks,
    _whole_weights,
    _one_by_one,
    _refuses_nan,
    _file,
    _export,
)


@contextmanager
def _registered(kind: type[Calibrator]) -> Iterator[None]:
    """Register a calibrator for the time of the checks, if it is not registered."""
    if kind in CALIBRATORS.values():
        yield
        return
    name = "checked-calibrator"
    register_calibrator(name, kind)
    try:
        yield
    finally:
        del CALIBRATORS[name]
