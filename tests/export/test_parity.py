"""Every calibrator gives equal probabilities as torch module, as ONNX model and appended to one: 2 to 1,000 classes."""

import numpy as np
import pytest
from export_cases import NAMES, SIZED, echo, fitted, probes

from driftcal.calibrators import make_calibrator
from driftcal.export import append_to_onnx, to_onnx, to_torch
from driftcal.export.onnx.calibration import OUTPUTS
from driftcal.export.onnx.verification import open_session

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


#: Forms that few samples of 1,000 classes do not give by default: a matrix instead of its diagonal, curves with three
#: numbers.
LARGER = [("dirichlet", 1000, {"penalty": 0.1}), ("beta", 1000, {"tied_below": 1})]


@pytest.mark.parametrize(("name", "n_classes", "options"), [*((*case, {}) for case in SIZED), *LARGER])
def test_parity(name, n_classes, options, tmp_path):
    calibrator = fitted(name, n_classes, **options)
    logits = probes(n_classes, 10_000, 1_000)
    module = to_torch(calibrator)
    alone = to_onnx(calibrator)
    appended = append_to_onnx(echo(tmp_path / "net.onnx", n_classes), calibrator, tmp_path / "out.onnx")
    assert max(alone.difference, appended.difference) < 1e-9
    graphs = {
        "logits": open_session(alone.model.SerializeToString()),
        "x": open_session(appended.path.read_bytes()),
    }
    for start in range(0, len(logits), 1_000):
        part = logits[start : start + 1_000]
        expected = calibrator.predict_proba(part)
        with torch.no_grad():
            assert np.abs(module(torch.from_numpy(part)).numpy() - expected).max() < 1e-12
        for name_of_input, session in graphs.items():
            check(calibrator, part, expected, *session.run(list(OUTPUTS), {name_of_input: part}))


BAD = {"NaN": np.nan, "+inf": np.inf, "only -inf": -np.inf}


@pytest.mark.parametrize("n_classes", [2, 10, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_without_a_softmax_gets_nan_and_changes_no_other(name, n_classes):
    calibrator, good = fitted(name, n_classes), probes(n_classes, 20, 12)
    module, session = to_torch(calibrator), open_session(to_onnx(calibrator).model.SerializeToString())

    def outputs(logits):
        with torch.no_grad():
            tensor = torch.from_numpy(logits)
            return (
                *session.run(["probabilities", "confidence"], {"logits": logits}),
                module(tensor),
                module.log_proba(tensor),
            )

    expected = outputs(good)
    for kind, value in BAD.items():
        mixed = good.copy()
        mixed[3, slice(None) if kind == "only -inf" else 1] = value
        for k, (values, before) in enumerate(zip(outputs(mixed), expected, strict=True)):
            values, before = np.asarray(values), np.asarray(before)
            np.testing.assert_array_equal(np.delete(values, 3, axis=0), np.delete(before, 3, axis=0))
            # graphs that normalise give a sample of -inf alone zeros
            assert np.isnan(values[3]).all() or (k < 2 and kind == "only -inf" and (values[3] == 0).all()), (kind, k)


def check(calibrator, logits, expected, probabilities, label, confidence):
    assert np.abs(probabilities - expected).max() < 1e-9
    assert label.dtype == np.int64
    np.testing.assert_array_equal(confidence, probabilities[np.arange(len(label)), label])
    if calibrator.keeps_accuracy:
        np.testing.assert_array_equal(label, logits.argmax(axis=1))
    else:
        np.testing.assert_allclose(confidence, expected.max(axis=1), atol=1e-9)


@pytest.mark.parametrize(
    ("slopes", "intercepts"),
    [
        ((0.2, 1.0, 3.0), (-2.0, 0.0, 1.0)),
        ((0.05, 1.0, 3.0), (-2.0, 0.0, 1.0)),
        ((1.0, 0.0, 2.0), (0.0, -1.0, 0.0)),
        ((-1e-34, 0.0, 1e-34), (-10.0, -1.0, 0.0)),
        ((1e-3, 0.0, 1.0), (-1.0, -1.0, 0.0)),
        ((-0.5, 1.0, 1.0), (0.0, 0.0, 0.0)),
        ((1.0, 1.0, 1.0), (-1500.0, -1600.0, -1500.0)),
        ((1.0, 1.0, 1e-3), (0.0, -30.0, 0.0)),
    ],
)
def test_flat_steep_and_falling_sigmoids_and_samples_without_mass(slopes, intercepts):
    calibrator = make_calibrator("ps").fit(probes(3, 100, 20), np.arange(120) % 3)
    calibrator.slopes_, calibrator.intercepts_ = np.array(slopes), np.array(intercepts)
    logits = probes(3, 1_000, 1_000)
    # leads at which sums of falling and rising curves go from 1e-200 to 0
    logits = np.concatenate(
        [logits, np.linspace(0, 3_000, 4_000)[:, None] * [[0, 1, 0]], np.eye(3)[np.arange(300) % 3] * 1_400]
    )
    logits = logits.astype(np.float32)
    session = open_session(to_onnx(calibrator).model.SerializeToString())
    check(calibrator, logits, calibrator.predict_proba(logits), *session.run(list(OUTPUTS), {"logits": logits}))


#: Samples that begin with masked classes, and leads at which exponentials of float64 underflow.
MASKED_LEADS = np.array(
    [
        [-np.inf, -1e4, -2e4],
        [-np.inf, -np.inf, -1e4],
        [-np.inf, 0, 800],
        [-np.inf, 800, 0],
        [0, 800, -np.inf],
        [-np.inf, 700, 0],
        [-np.inf, 5e3, 0],
        [2e4, -np.inf, -2e4],
        [0, 800, 0],
        [-3e4, 0, -800],
        [0, 2e4, 2e4],
    ]
)


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_masked_classes_and_large_leads(name, scale):
    """With logits scaled by 1000 the calibrated probabilities of these samples are neither 0 nor 1."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(800, 3))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    calibrator = make_calibrator(name).fit(scale * logits, labels)
    expected = calibrator.predict_proba(MASKED_LEADS)
    assert (expected[np.isneginf(MASKED_LEADS)] == 0).all()
    session = open_session(to_onnx(calibrator, logits="float64").model.SerializeToString())
    check(calibrator, MASKED_LEADS, expected, *session.run(list(OUTPUTS), {"logits": MASKED_LEADS}))
    with torch.no_grad():
        np.testing.assert_allclose(to_torch(calibrator)(torch.from_numpy(MASKED_LEADS)), expected, rtol=0, atol=1e-9)
