"""Every calibrator has an export; what adapts is exported standing still, and says so."""

import json

import numpy as np
import pytest
from export_cases import ADAPTIVE, NAMES, NEED_FEATURES, WIDTHS, fitted, fitted_inside, rows
from scipy.special import expit

from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.export import to_onnx
from driftcal.export.maps import export_map_of
from driftcal.export.onnx import file, samplewise
from driftcal.export.onnx.file import open_session
from driftcal.export.onnx.scores import _least_mass

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def run(export, logits):
    return open_session(export.model.SerializeToString()).run(None, {"logits": logits})[0]


def test_every_calibrator_is_exported():
    assert {name for name, kind in CALIBRATORS.items() if kind.needs_features} == set(NEED_FEATURES)
    for name in CALIBRATORS:
        export_map = export_map_of(fitted(name, 5) if name in NAMES else fitted_inside(name, 5))
        assert export_map.widths == (() if name in NAMES else WIDTHS)
        assert export_map.n_classes == 5
        assert export_map.keeps_accuracy == CALIBRATORS[name].keeps_accuracy
        assert ("does not adapt" in export_map.note) == CALIBRATORS[name].adaptive


@pytest.mark.parametrize("name", ADAPTIVE)
def test_what_adapts_is_exported_static_or_frozen(name, tmp_path):
    adaptive, logits = fitted(name, 10), rows(10, 500, 500)
    export = to_onnx(adaptive, tmp_path / "static.onnx")
    assert "adapt(window)" in export.note
    assert json.loads(json.dumps(export.to_dict()))["note"] == export.note
    noted = {entry.key: entry.value for entry in export.model.metadata_props}
    assert (noted["driftcal.calibrator"], noted["driftcal.note"]) == (name, export.note)
    assert np.abs(run(export, logits) - adaptive.predict_proba(logits)).max() < 1e-9

    window = 0.3 * rows(10, 100, 100)[:100]
    frozen = to_onnx(adaptive.adapt(window))
    assert frozen.note == ""
    assert "driftcal.note" not in {entry.key for entry in frozen.model.metadata_props}
    assert np.abs(run(frozen, logits) - adaptive.predict_proba(logits, context=window)).max() < 1e-9
    assert np.abs(run(frozen, logits) - run(export, logits)).max() > 1e-3


def test_a_torch_module_tells_that_it_does_not_adapt():
    pytest.importorskip("torch")
    from driftcal.export import to_torch

    assert "does not adapt" in repr(to_torch(fitted("ladder-ts", 5)))
    assert "adapt" not in repr(to_torch(fitted("ts", 5)))


@pytest.mark.parametrize(("slope", "intercept"), [(0.0, -80.0), (30.0, 1.0), (-30.0, 1.0), (0.5, 40.0)])
def test_steep_lines_of_entropy(slope, intercept):
    """Temperatures from 1e-26 to 1e4: where softplus and log1p need all their digits."""
    torch = pytest.importorskip("torch")
    from driftcal.export import to_torch

    calibrator = CALIBRATORS["hts"]()
    calibrator.__dict__.update(fitted("hts", 10).__dict__, slope_=slope, intercept_=intercept)
    logits = rows(10, 500, 500)
    wanted = calibrator.predict_proba(logits)
    assert np.abs(run(to_onnx(calibrator), logits) - wanted).max() < 1e-9
    assert np.abs(to_torch(calibrator)(torch.from_numpy(logits)).numpy() - wanted).max() < 1e-9


@pytest.mark.parametrize(
    ("a", "b", "short"),
    [
        (0.0, 0.0, True),
        (0.0, 1.0, True),
        (1.0, 0.0, True),
        (1.0, 1e-3, True),
        (0.1, 30.0, True),
        (30.0, 30.0, False),
        (1e-3, 2.0, True),
        (1e-3, 0.0, False),
        (1e-3, 1e-3, False),
    ],
)
@pytest.mark.parametrize("c", [0.0, -40.0])
def test_flat_and_steep_beta_curves(a, b, short, c):
    """Infinite logarithms of masked classes times nothing, and rows whose mass is next to nothing."""
    calibrator = CALIBRATORS["beta"]()
    calibrator.__dict__.update(fitted("beta", 10).__dict__)
    calibrator.curves_ = np.where(np.arange(10)[:, None] < 5, [a, b, c], [1.0, 1.0, c])
    logits = rows(10, 500, 500)
    export = to_onnx(calibrator)
    # what other classes leave may underflow only where that decides nothing
    long = "CumSum" not in {node.op_type for node in export.model.graph.node}
    assert long == (not short or c < 0)
    assert np.abs(run(export, logits) - calibrator.predict_proba(logits)).max() < 1e-9


@pytest.mark.parametrize("n_classes", [2, 10, 1000])
def test_no_row_of_sigmoids_has_less_than_foretold(n_classes):
    rng = np.random.default_rng(n_classes)
    for size in (1e-3, 0.3, 1.0, 3.0):
        powers, constants = size * rng.uniform(size=n_classes) * 2, rng.normal(size=n_classes) * 3 - 3
        least = _least_mass(powers, constants)
        for spread in (0.0, 0.1, 1.0, 10.0, 100.0):
            logits = spread * rng.normal(size=(50, n_classes))
            logits[rng.random(logits.shape) < 0.3] = -np.inf
            logits[:, 0] = np.maximum(logits[:, 0], 0)
            with np.errstate(divide="ignore"):
                odds = logits - np.log(np.exp(logits) @ (1 - np.eye(n_classes)))
            q = np.where(np.isneginf(logits), 0, expit(np.where(np.isneginf(logits), 0, powers * odds) + constants))
            assert (q.sum(axis=1) >= least * (1 - 1e-12)).all()
    # alike, their least sum is that of equal shares
    assert _least_mass(np.full(n_classes, 1.5), np.full(n_classes, -2.0)) == pytest.approx(
        expit(-2) * n_classes**-0.5, rel=0.01
    )


@pytest.mark.parametrize("n_classes", [2, 10, 300])
@pytest.mark.parametrize(("slope", "intercept"), [(-0.3, 2.0), (-0.05, 0.5), (0.05, 4.0), (0.2, 4.0), (2.0, 5.0)])
def test_the_entropy_of_a_certain_row_lacks_no_digits_that_matter(n_classes, slope, intercept, monkeypatch):
    """Plain sums of exponentials are off by no more than foretold, and taken only where that is next to nothing."""
    hts = make_calibrator("hts")
    hts.slope_, hts.intercept_ = slope, intercept
    hts.classes_, hts.n_features_in_ = np.arange(n_classes), n_classes
    gaps = np.linspace(5, 200, 1_000)[:, None]
    level, alone = np.repeat(-gaps, n_classes, axis=1), np.full((1_000, n_classes), -1e3)
    level[:, 0], alone[:, :1], alone[:, 1:2] = 0, 0, -gaps
    logits = np.concatenate([level, alone])
    wanted, lost = hts.predict_proba(logits), samplewise.lost_by_plain_sums(export_map_of(hts).scores)

    def difference():
        model = to_onnx(hts, logits="float64").model
        found = open_session(model.SerializeToString()).run(["probabilities"], {"logits": logits})[0]
        return np.abs(found - wanted).max(), any(node.op_type == "ScatterElements" for node in model.graph.node)

    seen, exact = difference()
    assert exact == (samplewise.plain_entropy_from(export_map_of(hts).scores) is None)
    assert exact or lost < 1e-7
    assert seen <= 1e-7
    if slope > 1:  # T falls below what sure rows need while others are not sure yet
        assert exact
        return
    monkeypatch.setattr(samplewise, "_LOST", np.inf)
    monkeypatch.setattr(file, "prove", lambda *_: 0.0)
    seen, exact = difference()
    assert not exact
    assert seen <= lost + 1e-12
    assert seen > 1e-5 or slope > -0.3  # digits are lost indeed, and matter where sure rows have a high temperature
