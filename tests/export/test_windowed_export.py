"""Windowed calibrators as ONNX graphs: the sums of a window in, those of the batch out; and the same figures everywhere."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tiny_model import make_data, make_onnx

import driftcal
from driftcal.calibrators import make_calibrator
from driftcal.errors import InputError
from driftcal.export import append_to_onnx, to_onnx
from driftcal.export.onnx.verification import open_session
from driftcal.shifts import get_shift
from driftcal.shifts.suites import Suite

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
HELPER = Path(__file__).parents[2] / "examples" / "deploy" / "onnx_window.py"
WINDOW, C = 40, 4


def level_data(level, seed, n=300, n_classes=C):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    z = rng.normal(size=(n, n_classes)) * 1.6
    z[np.arange(n), y] += 4.0 - level
    return 3 * z, y


def fit(name, n_levels=4, **params):
    data = [level_data(level, level) for level in range(n_levels)]
    logits, labels = (np.concatenate(part) for part in zip(*data, strict=True))
    return make_calibrator(name, **params).fit(logits, labels, levels=np.repeat(range(n_levels), 300))


@pytest.fixture(scope="module")
def level_ts():
    return fit("level-ts")


@pytest.fixture(scope="module", params=["level-ts", "window-ts"])
def exportable(request):
    return fit(request.param)


@pytest.mark.parametrize("statistic", ["confidence", "negative_entropy", "margin", "energy"])
@pytest.mark.parametrize("n_levels", [1, 4])
def test_a_graph_gives_the_probabilities_and_the_sums_of_python(statistic, n_levels):
    exported = to_onnx(fit("level-ts", n_levels, statistic=statistic), windowed=True)
    assert exported.difference < 1e-9
    assert {node.domain for node in exported.model.graph.node} == {""}


def test_levels_that_the_statistic_does_not_tell_apart_are_exported():
    data = [level_data(level, level) for level in (0, 0, 2, 2, 3)]
    logits, labels = (np.concatenate(part) for part in zip(*data, strict=True))
    calibrator = make_calibrator("level-ts").fit(logits, labels, levels=np.repeat(range(5), 300))
    calibrator.statistics_[1] = calibrator.statistics_[0]
    calibrator.temperatures_[1] *= 2
    assert to_onnx(calibrator, windowed=True).difference < 1e-9


@pytest.mark.parametrize(("n_levels", "n_classes"), [(1, 3), (5, 2), (4, 20)])
def test_window_ts_is_exported_for_any_number_of_classes(n_levels, n_classes):
    data = [level_data(level, level, n_classes=n_classes) for level in range(n_levels)]
    logits, labels = (np.concatenate(part) for part in zip(*data, strict=True))
    calibrator = make_calibrator("window-ts").fit(logits, labels, levels=np.repeat(range(n_levels), 300))
    exported = to_onnx(calibrator, windowed=True)
    assert exported.difference < 1e-9
    assert {node.domain for node in exported.model.graph.node} == {""}


def test_padding_and_the_division_into_batches_do_not_matter(exportable):
    session = open_session(to_onnx(exportable, windowed=True, logits="float64").model.SerializeToString())
    z, _ = level_data(2, 30, 60)
    expected = exportable.adapt(z).predict_proba(z[45:])
    assert np.abs(expected - exportable.predict_proba(z[45:])).max() > 0.01, "the window matters"
    previous = np.zeros(len(exportable.statistic_names))
    for low in (0, 15, 30, 45):
        padded = np.concatenate([z[low : low + 15], np.full((5, C), np.nan)])
        feed = {"logits": padded, "window_sums": previous, "sample_mask": np.arange(20) < 15}
        probabilities, sums = session.run(["probabilities", "batch_sums"], feed)
        previous = previous + sums
    np.testing.assert_allclose(probabilities[:15], expected, atol=1e-12)
    np.testing.assert_allclose(previous, exportable.window_sums(z), rtol=1e-9, atol=1e-9)


def test_an_older_opset_and_taken_names(level_ts, tmp_path):
    make_onnx(str(tmp_path / "old.onnx"), np.eye(64, C, dtype=np.float32))
    model = onnx.load(tmp_path / "old.onnx")
    model.opset_import[0].version = 13
    model.graph.node.append(onnx.helper.make_node("Identity", ["logits"], ["batch_sums"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("batch_sums", 1, ["n", C]))
    onnx.save(model, tmp_path / "old.onnx")
    written = append_to_onnx(tmp_path / "old.onnx", level_ts, tmp_path / "new.onnx", windowed=True)
    assert written.window_names == ("window_sums", "sample_mask", "calibrated_batch_sums")
    assert written.to_dict()["window"]["batch_sums"] == "calibrated_batch_sums"


def test_a_form_without_a_graph_names_the_way_out(level_ts, monkeypatch):
    monkeypatch.setattr(driftcal.LevelTemperatureScaling, "windowed_map", lambda self: None)
    with pytest.raises(InputError, match=r"no export of its windowed form. Export calibrator.adapt\(window\)"):
        to_onnx(level_ts, windowed=True)


def test_a_per_sample_calibrator_has_no_windowed_form(level_ts, tmp_path):
    with pytest.raises(InputError, match="needs a windowed calibrator; TemperatureScaling maps each sample alone"):
        to_onnx(level_ts.per_sample(), windowed=True)
    path = level_ts.per_sample().save(tmp_path / "ts.safetensors")
    with pytest.raises(InputError, match=r"ts\.safetensors has none"):
        driftcal.export.export_file(path, tmp_path / "ts.onnx", windowed=True)


@pytest.fixture(scope="module", params=["level-ts", "window-ts"])
def folder(request, tmp_path_factory):
    """A tuned ONNX model, exported in both forms, and test images."""
    path = tmp_path_factory.mktemp("windowed")
    make_onnx(str(path / "model.onnx"), 3 * np.random.default_rng(0).normal(size=(64, C)).astype(np.float32))
    make_data(path / "val.npz", 400, seed=1)
    make_data(path / "test.npz", 3 * WINDOW, seed=2)
    with np.load(path / "val.npz") as val:
        model = driftcal.open_model(
            path / "model.onnx", preprocessing=driftcal.Preprocessing(mean=[0.5], std=[0.5], layout="NCHW")
        )
        calibrated = driftcal.tune(model, val["x"], val["y"], method=request.param, n_levels=4)
    file = calibrated.save(path / "cal.safetensors")
    append_to_onnx(path / "model.onnx", file, path / "per-sample.onnx")
    append_to_onnx(path / "model.onnx", file, path / "windowed.onnx", windowed=True)
    return path, calibrated


def test_metadata_name_the_form_and_the_statistics(folder):
    path, calibrated = folder
    windowed = calibrated.windowed_calibrator
    metadata = {entry.key: entry.value for entry in onnx.load(path / "windowed.onnx").metadata_props}
    assert (metadata["driftcal.form"], metadata["driftcal.calibrator"]) == ("windowed", calibrated.method)
    assert json.loads(metadata["driftcal.window_statistics"]) == list(windowed.statistic_names)
    assert metadata["driftcal.window_size"] == "100"
    assert metadata["driftcal.min_window"] == {"level-ts": "20", "window-ts": "1"}[calibrated.method]


def onnx_window():
    spec = importlib.util.spec_from_file_location("onnx_window", HELPER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.OnnxWindow


def test_the_figures_of_evaluate_are_those_of_the_exported_files_in_both_forms(folder):
    path, calibrated = folder
    with np.load(path / "test.npz") as test:
        x, y = test["x"], test["y"]
    shift = get_shift("gaussian_noise")
    suite = Suite("one shift", "one shift", (shift,))
    results = driftcal.evaluate(calibrated, x, y, suite=suite, window_size=WINDOW, n_resamples=0)
    names = {info.form: info.name for info in results.calibrators if info.tuned_on not in ("nothing", "clean samples")}
    assert set(names) == {"per-sample", "windowed"}
    per_sample = open_session((path / "per-sample.onnx").read_bytes())
    figures = []
    for level in (0, 5):
        shifted = shift(x, level, seed=0, indices=np.arange(len(x)))
        images = 2 * shifted.transpose(0, 3, 1, 2) - 1
        live = onnx_window()(str(path / "windowed.onnx"), batch_size=16, window_size=WINDOW)
        served = {
            "per-sample": per_sample.run(["probabilities"], {"x": images})[0],
            # batches that fill windows: each sample gets its last 40 samples, as in evaluate, at the end of a window
            "windowed": np.concatenate(
                [windows_of(path, images[low : low + WINDOW]) for low in range(0, len(x), WINDOW)]
            ),
        }
        for form, p in served.items():
            row = results.row(names[form], shift.name, level)
            assert driftcal.expected_calibration_error(y, p) == pytest.approx(row.ece, abs=1e-6)
            assert driftcal.metrics.negative_log_likelihood(y, p) == pytest.approx(row.nll, abs=1e-6)
            figures.append(row.ece)
        in_python = calibrated.windowed(WINDOW)
        for low in range(0, len(x), 8):  # padded batches, with the window that the server keeps
            p = live.predict_proba(images[low : low + 8])
            np.testing.assert_allclose(p, in_python.predict_proba(shifted[low : low + 8]), atol=1e-6)
    assert len(set(figures)) == 4, "the four figures differ, so a test of equality says something"


def windows_of(path, images):
    """One full batch without previous samples."""
    live = onnx_window()(str(path / "windowed.onnx"), batch_size=WINDOW, window_size=WINDOW)
    return live.predict_proba(images)


def test_the_example_is_about_twenty_lines():
    code = [line for line in HELPER.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(code) <= 26
    page = HELPER.parents[2] / "docs" / "deploy.md"
    assert HELPER.read_text(encoding="utf-8") in page.read_text(encoding="utf-8")
