"""A calibrated model: its predictions, its baselines, and its file."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import driftcal
from driftcal.calibrators.serialization import load_file
from driftcal.errors import InputError, ModelError
from driftcal.pipeline import calibrated_model
from driftcal.pipeline.calibrated_model import check_same_model
from driftcal.pipeline.recalibrating.recalibrate_file import recalibrate_file

N, C = 600, 4


@pytest.fixture(scope="module")
def task():
    """A model that triples its inputs, which makes it over-confident, with inputs and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % C
    x = rng.normal(size=(N, C)) * 1.5
    x[np.arange(N), y] += 3.0
    return (lambda inputs: 3 * inputs.reshape(len(inputs), -1)), x.astype(np.float32), y


@pytest.fixture(scope="module")
def tuned(task):
    model, x, y = task
    return driftcal.tune(driftcal.open_model(model, name="tripled"), x[:400], y[:400], n_levels=4)


def test_predict_proba_treats_each_input_alone(task, tuned):
    x = task[1][400:]
    together = tuned.predict_proba(x)
    np.testing.assert_array_equal(together[:3], tuned.predict_proba(x[:3]))
    np.testing.assert_array_equal(together[7:8], tuned.predict_proba(x[7:8]))
    np.testing.assert_allclose(np.exp(tuned.predict_log_proba(x)), together)


def test_the_windowed_form_is_a_separate_object(task, tuned):
    x = task[1][400:]
    before = tuned.predict_proba(x[:50])
    live = tuned.windowed(100)
    live.predict_proba(0.2 * x[:100])
    p = live.predict_proba(0.2 * x[100:101])
    window = tuned.logits(0.2 * x[1:101])
    expected = tuned.windowed_calibrator.adapt(window).predict_proba(tuned.logits(0.2 * x[100:101]))
    np.testing.assert_array_equal(p, expected)
    assert live.window_size == 100
    np.testing.assert_array_equal(tuned.predict_proba(x[:50]), before)
    np.testing.assert_array_equal(live.predict(x[:5]), tuned.predict(x[:5]))


def test_adapt_fixes_the_calibrator_for_data_like_a_window(task, tuned, tmp_path):
    x = task[1][400:]
    adapted_model = tuned.adapt(0.2 * x)
    expected = tuned.windowed_calibrator.adapt(tuned.logits(0.2 * x)).predict_proba(tuned.logits(x))
    np.testing.assert_array_equal(adapted_model.predict_proba(x), expected)
    with pytest.raises(InputError, match="a windowed calibrator is needed"):
        adapted_model.windowed(100)
    again = driftcal.load(adapted_model.save(tmp_path / "adapted_model.safetensors"))
    np.testing.assert_array_equal(again.predict_proba(tuned.logits(x)), expected)


def test_the_file_keeps_both_forms_and_the_baselines(task, tuned, tmp_path):
    path = tuned.save(tmp_path / "cal.safetensors")
    again = driftcal.CalibratedModel.load(path, driftcal.open_model(task[0], name="tripled"))
    x = task[1][400:]
    np.testing.assert_array_equal(again.predict_proba(x), tuned.predict_proba(x))
    np.testing.assert_array_equal(again.windowed(50).predict_proba(x), tuned.windowed(50).predict_proba(x))
    assert set(again.baselines) == set(tuned.baselines)
    assert (again.explanation, again.perturbation, again.method) == (
        tuned.explanation,
        tuned.perturbation,
        tuned.method,
    )
    assert not load_file(path).calibrator.needs_window
    assert again.save(tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("method", ["auto", "irm", "base", "level-ts", driftcal.TemperatureScaling(t_max=5)])
@pytest.mark.parametrize("shift", ["gaussian", None])
def test_plain_temperature_scaling_is_always_compared(task, method, shift):
    model, x, y = task
    if method == "level-ts" and shift is None:
        return  # fitted without levels it is temperature scaling itself
    opened = driftcal.open_model(model, name="tripled")
    tuned = driftcal.tune(opened, x[:400], y[:400], method=method, shift=shift, n_levels=3)
    results = driftcal.evaluate(tuned, x[400:], y[400:], n_resamples=0)
    infos = {info.name: info for info in results.calibrators}
    assert {"base", "ts", tuned.name} <= set(infos)
    assert infos["ts"].tuned_on == "clean samples"
    ts = driftcal.TemperatureScaling().fit(3 * x[:400], y[:400])
    assert infos["ts"].temperature == pytest.approx(ts.temperature_)
    windowed = [info for info in infos.values() if info.form == "windowed"]
    assert [info.window_size for info in windowed] == [100] * (tuned.windowed_calibrator is not None)


def test_the_evaluated_calibrators_are_those_that_predict(task, tuned):
    """The in-domain figures of both forms are those of predict_proba and of windowed(100).predict_proba."""
    x, y = task[1][400:], task[2][400:]
    results = driftcal.evaluate(tuned, x, y, n_resamples=0)
    ece = driftcal.expected_calibration_error
    shift = results.shifts[0].name
    assert results.row(tuned.name, shift, 0).ece == pytest.approx(ece(y, tuned.predict_proba(x)), abs=1e-9)
    windowed = tuned.windowed_candidate().name
    live = tuned.windowed(100).predict_proba(x)
    assert results.row(windowed, shift, 0).ece == pytest.approx(ece(y, live), abs=1e-9)


def test_file_exports_monitor_and_recalibration_hold_the_calibrator_of_predict_proba(task, tuned, tmp_path):
    """The windowed form is a second calibrator; nothing takes it for the per-sample one."""
    import torch

    x, y = task[1][400:], task[2][400:]
    assert tuned.windowed_calibrator is not None
    logits, expected = tuned.logits(x), tuned.predict_proba(x)
    path = tuned.save(tmp_path / "cal.safetensors")
    np.testing.assert_array_equal(driftcal.load(path).predict_proba(logits), expected)
    for source in (tuned, path):
        np.testing.assert_array_equal(driftcal.Monitor(source).calibrator.predict_proba(logits), expected)
        unchanged = driftcal.recalibrate(source, logits, y, weight=0).calibrator
        np.testing.assert_allclose(unchanged.predict_proba(logits), expected, atol=1e-6)
    module = driftcal.export.to_torch(tuned.calibrator)
    np.testing.assert_allclose(module(torch.from_numpy(logits)).numpy(), expected, atol=1e-6)
    assert driftcal.export.to_onnx(tuned.calibrator).difference < 1e-6


@pytest.mark.parametrize("method", ["auto", "irm"])
def test_a_recalibrated_model_is_evaluated_as_it_is_saved(task, method, tmp_path):
    model, x, y = task
    opened = driftcal.open_model(model, name="tripled")
    tuned = driftcal.tune(opened, x[:400], y[:400], method=method, n_levels=3)
    written = recalibrate_file(tuned.save(tmp_path / "cal.safetensors"), tuned.logits(2 * x[400:]), y[400:])
    again = driftcal.CalibratedModel.load(written.path, opened)
    assert again.name == f"{tuned.name}-recalibrated"
    results = driftcal.evaluate(again, x[400:], y[400:], n_resamples=0)
    row = results.row(again.name, results.shifts[0].name, 0)
    assert row.nll == pytest.approx(
        driftcal.metrics.negative_log_likelihood(y[400:], again.predict_proba(x[400:])), abs=1e-9
    )
    assert row.nll != pytest.approx(results.row("ts", results.shifts[0].name, 0).nll, abs=1e-6)
    assert again.explanation.startswith("Recalibrated with 200 labelled samples")
    assert (again.windowed_calibrator is None) == (tuned.windowed_calibrator is None)
    assert ("The windowed WINDOW-TS" in again.explanation) == (tuned.windowed_calibrator is not None)


def test_an_adapted_model_is_evaluated_beside_temperature_scaling(task, tuned):
    x, y = task[1][400:], task[2][400:]
    adapted = tuned.adapt(x)
    results = driftcal.evaluate(adapted, x, y, n_resamples=0)
    assert [info.name for info in results.calibrators] == ["base", "ts", f"{adapted.method}-adapted"]
    row = results.row(adapted.name, results.shifts[0].name, 0)
    assert row.ece == pytest.approx(driftcal.expected_calibration_error(y, adapted.predict_proba(x)), abs=1e-9)


def test_another_model_is_refused_with_the_name_of_the_file(task, tuned, tmp_path):
    file = load_file(tuned.save(tmp_path / "cal.safetensors"))
    with pytest.raises(ModelError, match=r"cal\.safetensors was tuned for another model: 'tripled'") as raised:
        driftcal.CalibratedModel.load(file, driftcal.open_model(lambda z: -z, name="negated"))
    assert len(str(raised.value)) < 400


def test_a_model_in_another_format_is_refused_with_the_way_out(tuned, tmp_path):
    file = load_file(tuned.save(tmp_path / "cal.safetensors"))
    recorded = {**file.metadata["model"], "framework": "torch"}
    message = r"opened with torch; this one is opened with callable\. The same network in another format.*force=True \(--force\)"
    with pytest.raises(ModelError, match=message):
        check_same_model(tuned.model, {**recorded, "fingerprint": "0" * 64}, file.path)


def test_the_clean_tuned_baseline_is_saved(task, tmp_path):
    model, x, y = task
    opened = driftcal.open_model(model, name="tripled")
    tuned = driftcal.tune(opened, x[:400], y[:400], method="irm", n_levels=3)
    assert [candidate.name for candidate in tuned.candidates] == ["base", "ts", "irm", "irm-p"]
    again = driftcal.CalibratedModel.load(tuned.save(tmp_path / "cal.safetensors"), opened)
    results = driftcal.evaluate(again, x[400:], y[400:], n_resamples=0)
    assert [info.name for info in results.calibrators] == ["base", "ts", "irm", "irm-p"]


def test_loading_and_evaluating_hash_the_weights_once(task, tuned, tmp_path, monkeypatch):
    path = tuned.save(tmp_path / "cal.safetensors")
    hashed, read = [], []
    fingerprint = driftcal.Model.fingerprint.fget
    monkeypatch.setattr(driftcal.Model, "fingerprint", property(lambda self: hashed.append(1) or fingerprint(self)))
    original = calibrated_model.load_file
    monkeypatch.setattr(calibrated_model, "load_file", lambda path: read.append(1) or original(path))
    again = driftcal.CalibratedModel.load(path, driftcal.open_model(task[0], name="tripled"))
    driftcal.evaluate(again, task[1][400:], task[2][400:], n_resamples=0, run=driftcal.Run(tmp_path / "cache"))
    assert (len(hashed), len(read)) == (1, 1)


def test_a_forced_model_is_cached_under_its_own_fingerprint(task, tuned, tmp_path):
    path = tuned.save(tmp_path / "cal.safetensors")
    run = driftcal.Run(tmp_path / "cache")
    x, y = task[1][400:], task[2][400:]
    driftcal.evaluate(tuned, x, y, n_resamples=0, run=run)
    other = driftcal.CalibratedModel.load(path, driftcal.open_model(lambda z: -z, name="negated"), force=True)
    results = driftcal.evaluate(other, x, y, n_resamples=0, run=run)
    assert results.summary()[0].in_domain_accuracy == pytest.approx(np.mean((-x).argmax(axis=1) == y))


def test_predict_gives_class_names_where_there_are_some(task):
    model, x, y = task
    names = ["owl", "cat", "dog", "ant"]
    opened = driftcal.open_model(model, name="tripled", class_names=names)
    tuned = driftcal.tune(opened, x[:400], np.array(names)[y[:400]], method="ts", n_levels=3)
    assert set(tuned.predict(x[400:])) <= set(names)
    assert np.mean(tuned.predict(x[400:]) == np.array(names)[y[400:]]) > 0.7
    numbered = driftcal.tune(driftcal.open_model(model, name="tripled"), x[:400], y[:400], method="ts", n_levels=3)
    assert numbered.predict(x[:3]).dtype.kind == "i"
    classes = np.array([10, 20, 30, 40])
    fitted = LogisticRegression().fit(x, classes[y])
    of_sklearn = driftcal.tune(fitted, x[:400], classes[y[:400]], method="ts", n_levels=3)
    assert set(of_sklearn.predict(x[400:])) <= set(classes)


def test_text_labels_of_a_model_without_class_names_are_refused(task):
    model, x, y = task
    names = np.array(["owl", "cat", "dog", "ant"])[y]
    with pytest.raises(InputError, match=r"open_model\(model, class_names=\[\.\.\.\]\).*--classes"):
        driftcal.tune(driftcal.open_model(model, name="tripled"), x[:400], names[:400])
    as_text = driftcal.tune(
        driftcal.open_model(model, name="tripled"), x[:400], y[:400].astype(str), method="ts", n_levels=3
    )
    as_numbers = driftcal.tune(driftcal.open_model(model, name="tripled"), x[:400], y[:400], method="ts", n_levels=3)
    assert as_text.calibrator.temperature_ == as_numbers.calibrator.temperature_


def test_an_unknown_keyword_is_named_by_tune_itself(task):
    with pytest.raises(TypeError, match=r"tune\(\).*metod"):
        driftcal.tune(*task, metod="ts")
    with pytest.raises(InputError, match="unfitted calibrator"):
        driftcal.tune(*task, method=driftcal.TemperatureScaling().fit(3 * task[1], task[2]))


def test_the_first_mistakes_of_a_new_user_are_named(task, tuned, tmp_path):
    model, x, y = task
    with pytest.raises(InputError, match="y must hold one label per input; it is missing"):
        driftcal.tune(model, x)
    with pytest.raises(InputError, match="Are inputs and labels swapped"):
        driftcal.tune(model, y, x)
    with pytest.raises(InputError, match="y must hold one label per input; it is missing"):
        driftcal.evaluate(tuned, x)
    with pytest.raises(InputError, match=r"it is a CalibratedModel\. driftcal\.evaluate"):
        driftcal.write_report(tuned, tmp_path / "report.html")
    with pytest.raises(InputError, match=r"For inputs pass calibrated\.logits\(X\)"):
        driftcal.recalibrate(tuned, np.zeros((60, 8, 8, 1)), np.zeros(60, int))


def test_repr_is_short(tuned):
    assert len(repr(tuned).splitlines()) < 10
    assert "Validation accuracy" in repr(tuned)
