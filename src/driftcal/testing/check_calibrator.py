"""The laws of calibrators, as one function that checks a new calibrator."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import CALIBRATORS, Calibrator, register_calibrator
from driftcal.calibrators.fitted_array import check_arrays
from driftcal.calibrators.serialization import load
from driftcal.errors import LogitsError, MissingExtra, SuspiciousInputWarning, need
from driftcal.types import Array, Float64, Labels

#: Fits are exact to about 1e-11, and sums in another order are rounded differently.
_TOLERANCE = 1e-9


def check_calibrator(kind: type[Calibrator], *, random_state: int = 0, tolerance: float = _TOLERANCE) -> list[str]:
    """Check the laws of calibrators on `kind`; raise `AssertionError` with the first law that it breaks.

    - A clone has the same parameters, and fitted attributes are as declared.
    - Probabilities are valid, and masked classes get 0.
    - The predicted class is kept if `keeps_accuracy` is True.
    - These do not matter: a constant added to a sample's logits, the order of the samples, and their chunks.
    - Whole weights are the same as repeated samples.
    - The probabilities of a sample do not depend on other samples.
    - NaN is refused.
    - A saved and loaded calibrator gives the same probabilities to the bit.
    - ONNX and torch agree with Python, for a calibrator with an `export_map`. Without the extra "onnx" or "torch" a warning says
      that this was not checked.

    Parameters
    ----------
    kind
        A subclass of :class:`driftcal.LogitCalibrator` whose parameters all have defaults. It need not be registered.
    random_state
        The seed of the logits for the checks.
    tolerance
        How much probabilities may differ by rounding.

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
            except Exception as error:  # a calibrator may raise anything
                reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                raise AssertionError(f"{kind.__name__}: {law.__doc__} {reason}") from error
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
        # multiples of 2^-20, so that adding the constants of `_constant` is exact
        self.logits: Float64 = np.round(rng.normal(size=(120, 4)) * 3 * 2**20) / 2**20
        correct = rng.random(120) < 0.7
        self.labels: Labels = np.where(correct, self.logits.argmax(axis=1), rng.integers(0, 4, 120))
        self.weights = rng.integers(1, 4, 120)
        self.fitted = self.fit(self.logits, self.labels)

    def fit(self, logits: Any, labels: Labels | None, **options: Any) -> Calibrator:
        return self.kind().fit(logits, labels, **options)

    def assert_same(self, other: Calibrator, case: str) -> None:
        difference = float(np.abs(self.fitted.predict_proba(self.logits) - other.predict_proba(self.logits)).max())
        assert difference <= self.tolerance, f"{case}: probabilities differ by {difference:.3g}."


def _parameters(problem: _Problem) -> None:
    """Parameters must survive a clone."""
    unfitted = problem.kind()
    assert clone(unfitted).get_params() == unfitted.get_params(), (
        "clone() gives other parameters: store each one unchanged."
    )


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
    """Whole weights must be the same as repeated samples."""
    repeated = np.repeat(np.arange(len(problem.labels)), problem.weights)
    weighted = problem.fit(problem.logits, problem.labels, sample_weight=problem.weights)
    on_repeated = problem.fit(problem.logits[repeated], problem.labels[repeated])
    difference = np.abs(weighted.predict_proba(problem.logits) - on_repeated.predict_proba(problem.logits)).max()
    assert difference <= problem.tolerance, f"probabilities differ by {difference:.3g}."


def _one_by_one(problem: _Problem) -> None:
    """The probabilities of a sample must not depend on other samples."""
    together = problem.fitted.predict_proba(problem.logits[:10])
    alone: Array = np.concatenate([problem.fitted.predict_proba(sample[None]) for sample in problem.logits[:10]])
    assert np.abs(together - alone).max() <= problem.tolerance, "probabilities depend on the other samples of a batch."


def _refuses_nan(problem: _Problem) -> None:
    """NaN must be refused."""
    with_nan = problem.logits.copy()
    with_nan[3, 1] = np.nan
    calls: dict[str, Callable[[], Any]] = {
        "fit": lambda: problem.fit(with_nan, problem.labels),
        "predict_proba": lambda: problem.fitted.predict_proba(with_nan),
    }
    for name, call in calls.items():
        try:
            call()
        except LogitsError:
            continue
        raise AssertionError(f"{name}() accepts NaN.")


def _file(problem: _Problem) -> None:
    """A file must give the same probabilities to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(problem.fitted.save(Path(folder) / "calibrator.safetensors"))
    assert type(loaded) is problem.kind, f"the file gives a {type(loaded).__name__}."
    is_same = np.array_equal(loaded.predict_proba(problem.logits), problem.fitted.predict_proba(problem.logits))
    assert is_same, "the loaded calibrator gives other probabilities: name every fitted attribute in `fitted`."


def _export(problem: _Problem) -> bool:
    """ONNX and torch must agree with Python."""
    if problem.fitted.export_map() is None:
        return False
    checks = {
        "onnx": (_export_to_onnx, ("onnx", "onnxruntime")),
        "torch": (_export_to_torch, ("torch",)),
    }
    missing = []
    for extra, (check, modules) in checks.items():
        try:
            for module in modules:
                need(module, extra)
        except MissingExtra as error:
            missing.append(str(error))
        else:
            check(problem)
    for message in missing:
        warnings.warn(
            f'The law "ONNX and torch must agree with Python" is not checked in full: {message}',
            SuspiciousInputWarning,
            stacklevel=4,
        )
    return len(missing) < len(checks)


def _export_to_onnx(problem: _Problem) -> None:
    from driftcal.export.onnx.to_onnx import to_onnx

    to_onnx(problem.fitted)  # refuses a graph that differs by more than 1e-6


def _export_to_torch(problem: _Problem) -> None:
    import torch

    from driftcal.export.torch.to_torch import to_torch

    p = to_torch(problem.fitted)(torch.from_numpy(problem.logits)).numpy()
    difference = np.abs(p - problem.fitted.predict_proba(problem.logits)).max()
    assert difference < 1e-6, f"the torch module differs by {difference:.3g}."


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
    """Register a calibrator during the checks, unless it is registered."""
    if kind in CALIBRATORS.values():
        yield
        return
    name = "checked-calibrator"
    register_calibrator(name, kind)
    try:
        yield
    finally:
        del CALIBRATORS[name]
