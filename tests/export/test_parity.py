"""Every calibrator with few and many classes gives the same numbers as a torch module, an ONNX model and the end of one."""

import numpy as np
import pytest
from export_cases import SIZED, STATIC, echo, fitted, rows

from driftcal.calibrators import make_calibrator
from driftcal.export import append_to_onnx, to_onnx, to_torch
from driftcal.export.onnx.file import open_session

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


#: Forms that so few rows of 1,000 classes give only if asked for: a matrix instead of its diagonal, curves with three numbers.
DEARER = [("dirichlet", 1000, {"penalty": 0.1}), ("beta", 1000, {"tied_below": 1})]


@pytest.mark.parametrize(("name", "n_classes", "asked"), [*((*case, {}) for case in SIZED), *DEARER])
def test_parity(name, n_classes, asked, tmp_path):
    calibrator = fitted(name, n_classes, **asked)
    logits = rows(n_classes, 10_000, 1_000)
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
        wanted = calibrator.predict_proba(part)
        with torch.no_grad():
            assert np.abs(module(torch.from_numpy(part)).numpy() - wanted).max() < 1e-12
        for given, session in graphs.items():
            check(calibrator, part, wanted, *session.run(["probabilities", "label", "confidence"], {given: part}))


BAD = {"NaN": np.nan, "+inf": np.inf, "only -inf": -np.inf}


@pytest.mark.parametrize("n_classes", [2, 10, 1000])
@pytest.mark.parametrize("name", STATIC)
def test_a_row_without_a_softmax_harms_no_other_and_gets_no_numbers(name, n_classes):
    calibrator, good = fitted(name, n_classes), rows(n_classes, 20, 12)
    module, session = to_torch(calibrator), open_session(to_onnx(calibrator).model.SerializeToString())

    def answers(logits):
        with torch.no_grad():
            given = torch.from_numpy(logits)
            return (
                *session.run(["probabilities", "confidence"], {"logits": logits}),
                module(given),
                module.log_proba(given),
            )

    wanted = answers(good)
    for kind, value in BAD.items():
        mixed = good.copy()
        mixed[3, slice(None) if kind == "only -inf" else 1] = value
        for k, (found, before) in enumerate(zip(answers(mixed), wanted, strict=True)):
            found, before = np.asarray(found), np.asarray(before)
            np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(before, 3, axis=0))
            # in graphs that normalise, a row of -inf alone has no mass anywhere: zeros
            assert np.isnan(found[3]).all() or (k < 2 and kind == "only -inf" and (found[3] == 0).all()), (kind, k)


def check(calibrator, logits, wanted, probabilities, label, confidence):
    assert np.abs(probabilities - wanted).max() < 1e-9
    assert label.dtype == np.int64
    np.testing.assert_array_equal(confidence, probabilities[np.arange(len(label)), label])
    if calibrator.keeps_accuracy:
        np.testing.assert_array_equal(label, logits.argmax(axis=1))
    else:
        np.testing.assert_allclose(confidence, wanted.max(axis=1), atol=1e-9)


@pytest.mark.parametrize(
    ("slopes", "intercepts", "short"),
    [
        ((0.2, 1.0, 3.0), (-2.0, 0.0, 1.0), True),
        ((0.05, 1.0, 3.0), (-2.0, 0.0, 1.0), True),
        ((1.0, 0.0, 2.0), (0.0, -1.0, 0.0), True),
        ((-1e-34, 0.0, 1e-34), (-10.0, -1.0, 0.0), True),
        ((1e-3, 0.0, 1.0), (-1.0, -1.0, 0.0), True),
        ((-0.5, 1.0, 1.0), (0.0, 0.0, 0.0), False),
        ((1.0, 1.0, 1.0), (-1500.0, -1600.0, -1500.0), False),
        ((1.0, 1.0, 1e-3), (0.0, -30.0, 0.0), False),
    ],
)
def test_sigmoids_take_the_short_way_only_where_no_row_can_lose_its_mass(slopes, intercepts, short):
    calibrator = make_calibrator("ps").fit(rows(3, 100, 20), np.arange(120) % 3)
    calibrator.slopes_, calibrator.intercepts_ = np.array(slopes), np.array(intercepts)
    graph, logits = to_onnx(calibrator).model, rows(3, 1_000, 1_000)
    # leads at which sums of falling and rising curves go from 1e-200 to what underflows
    logits = np.concatenate(
        [logits, np.linspace(0, 3_000, 4_000)[:, None] * [[0, 1, 0]], np.eye(3)[np.arange(300) % 3] * 1_400]
    )
    logits = logits.astype(np.float32)
    assert ("Tanh" in {node.op_type for node in graph.graph.node}) == short
    found = open_session(graph.SerializeToString()).run(["probabilities", "label", "confidence"], {"logits": logits})
    check(calibrator, logits, calibrator.predict_proba(logits), *found)
