"""Every calibrator has an export map; windowed ones are exported in their per-sample form or adapted to a window."""

import numpy as np
import pytest
from export_cases import NAMES, NEED_FEATURES, WIDTHS, WINDOWED, fitted, fitted_on_features, probes

from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.errors import InputError
from driftcal.export import to_onnx
from driftcal.export.checked_map import export_map_of
from driftcal.export.onnx.verification import open_session, probe_logits

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def run(export, logits):
    return open_session(export.model.SerializeToString()).run(None, {"logits": logits})[0]


def test_every_calibrator_has_an_export_map():
    assert {name for name, kind in CALIBRATORS.items() if kind.needs_features} == set(NEED_FEATURES)
    for name in (*NAMES, *NEED_FEATURES):
        export_map = export_map_of(fitted(name, 5) if name in NAMES else fitted_on_features(name, 5))
        assert export_map.layer_widths == (() if name in NAMES else WIDTHS)
        assert export_map.n_classes == 5
        assert export_map.keeps_accuracy == CALIBRATORS[name].keeps_accuracy


@pytest.mark.parametrize("name", WINDOWED)
def test_windowed_calibrators_are_refused_and_their_per_sample_forms_exported(name):
    windowed, logits, window = fitted(name, 10), probes(10, 500, 500), 0.3 * probes(10, 100, 100)[:100]
    with pytest.raises(InputError, match=r"follows a window\. Export calibrator\.per_sample\(\), or calibrator\.adapt"):
        to_onnx(windowed)
    per_sample, adapted = to_onnx(windowed.per_sample()), to_onnx(windowed.adapt(window))
    assert np.abs(run(per_sample, logits) - windowed.predict_proba(logits)).max() < 1e-9
    assert np.abs(run(adapted, logits) - windowed.adapt(window).predict_proba(logits)).max() < 1e-9
    assert np.abs(run(adapted, logits) - run(per_sample, logits)).max() > 1e-3
    for export in (per_sample, adapted):
        metadata = {entry.key: entry.value for entry in export.model.metadata_props}
        assert metadata["driftcal.form"] == "per-sample"


@pytest.mark.parametrize("name", WINDOWED)
def test_windowed_calibrators_are_refused_by_torch_too(name):
    pytest.importorskip("torch")
    from driftcal.export import to_torch

    with pytest.raises(InputError, match="follows a window"):
        to_torch(fitted(name, 10))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_probes_have_masked_first_classes_and_leads_that_underflow(n_classes):
    logits = probe_logits(n_classes).astype(float)
    two_largest = np.sort(logits, axis=1)[:, -2:]
    leads = two_largest[:, 1] - two_largest[:, 0]
    assert (np.isfinite(leads) & (leads > 1e4)).any()
    assert np.isfinite(logits.max(axis=1)).all()
    if n_classes > 2:
        assert (np.isneginf(logits[:, 0]) & np.isfinite(leads) & (leads > 745)).any()


@pytest.mark.parametrize(("slope", "intercept"), [(0.0, -80.0), (30.0, 1.0), (-30.0, 1.0), (0.5, 40.0)])
def test_steep_lines_of_entropy(slope, intercept):
    """Temperatures from 1e-26 to 1e4: where softplus and log1p need all their digits."""
    torch = pytest.importorskip("torch")
    from driftcal.export import to_torch

    calibrator = CALIBRATORS["hts"]()
    calibrator.__dict__.update(fitted("hts", 10).__dict__, slope_=slope, intercept_=intercept)
    logits = probes(10, 500, 500)
    expected = calibrator.predict_proba(logits)
    assert np.abs(run(to_onnx(calibrator), logits) - expected).max() < 1e-9
    assert np.abs(to_torch(calibrator)(torch.from_numpy(logits)).numpy() - expected).max() < 1e-9


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.0, 0.0),
        (0.0, 1.0),
        (1.0, 0.0),
        (1.0, 1e-3),
        (0.1, 30.0),
        (30.0, 30.0),
        (1e-3, 2.0),
        (1e-3, 0.0),
        (1e-3, 1e-3),
    ],
)
@pytest.mark.parametrize("c", [0.0, -40.0])
def test_flat_and_steep_beta_curves(a, b, c):
    """Infinite logarithms of masked classes times 0, and samples with next to no mass."""
    calibrator = CALIBRATORS["beta"]()
    calibrator.__dict__.update(fitted("beta", 10).__dict__)
    calibrator.curves_ = np.where(np.arange(10)[:, None] < 5, [a, b, c], [1.0, 1.0, c])
    logits = probes(10, 500, 500)
    assert np.abs(run(to_onnx(calibrator), logits) - calibrator.predict_proba(logits)).max() < 1e-9


@pytest.mark.parametrize("n_classes", [2, 10, 300])
@pytest.mark.parametrize(("slope", "intercept"), [(-0.3, 2.0), (-0.05, 0.5), (0.05, 4.0), (0.2, 4.0), (2.0, 5.0)])
def test_the_entropy_of_a_confident_sample_keeps_its_digits(n_classes, slope, intercept):
    hts = make_calibrator("hts")
    hts.slope_, hts.intercept_ = slope, intercept
    hts.classes_, hts.n_features_in_, hts.score_type_ = np.arange(n_classes), n_classes, "logits"
    margins = np.linspace(5, 200, 1_000)[:, None]
    equal, alone = np.repeat(-margins, n_classes, axis=1), np.full((1_000, n_classes), -1e3)
    equal[:, 0], alone[:, :1], alone[:, 1:2] = 0, 0, -margins
    logits = np.concatenate([equal, alone])
    model = to_onnx(hts, logits="float64").model
    p = open_session(model.SerializeToString()).run(["probabilities"], {"logits": logits})[0]
    assert np.abs(p - hts.predict_proba(logits)).max() < 1e-12
