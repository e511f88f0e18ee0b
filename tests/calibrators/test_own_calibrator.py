"""The calibrator of docs/own-calibrator.md passes all steps that the built-in calibrators pass."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import driftcal
from driftcal import errors
from driftcal.calibrators import CALIBRATORS
from driftcal.errors import ArtefactError, InputError, SuspiciousInputWarning
from driftcal.testing import check_calibrator

pytestmark = pytest.mark.law

PAGE = Path(__file__).parents[2] / "docs" / "own-calibrator.md"
CODE = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]

RNG = np.random.default_rng(0)
Z = 4 * RNG.normal(size=(300, 4))
Y = np.where(RNG.random(300) < 0.6, Z.argmax(axis=1), RNG.integers(0, 4, 300))


@pytest.fixture
def uniform_mixture():
    names: dict[str, object] = {}
    exec(CODE, names)
    yield names["UniformMixture"]
    del CALIBRATORS["uniform-mixture"]


def test_the_example_is_about_thirty_lines():
    class_body = CODE[CODE.index("class ") : CODE.index("driftcal.register_calibrator")]
    assert len([line for line in class_body.splitlines() if line.strip()]) <= 30


def test_it_is_tuned_saved_loaded_and_exported(uniform_mixture, tmp_path):
    model = driftcal.open_model(lambda x: x, name="identity")
    tuned = driftcal.tune(model, Z.astype(np.float32), Y, method="uniform-mixture", n_levels=3)
    assert isinstance(tuned.calibrator, uniform_mixture)
    again = driftcal.CalibratedModel.load(tuned.save(tmp_path / "cal.safetensors"), model)
    np.testing.assert_array_equal(again.predict_proba(Z), tuned.predict_proba(Z))
    results = driftcal.evaluate(again, Z.astype(np.float32), Y, n_resamples=0)
    assert "uniform-mixture-p" in {info.name for info in results.calibrators}
    assert "UNIFORM-MIXTURE-P" in driftcal.write_report(results, tmp_path / "report.html").read_text()
    assert driftcal.export.to_onnx(tuned.calibrator).difference < 1e-6
    module = driftcal.export.to_torch(tuned.calibrator)
    np.testing.assert_allclose(module(torch.from_numpy(Z)).numpy(), tuned.calibrator.predict_proba(Z), atol=1e-12)
    chosen = driftcal.tune(
        model, Z.astype(np.float32), Y, method=driftcal.Selection(candidates=["uniform-mixture"]), n_levels=3
    )
    assert chosen.method in ("ts", "uniform-mixture")


def test_a_file_of_a_calibrator_that_is_not_registered_is_refused(uniform_mixture, tmp_path):
    path = uniform_mixture().fit(Z, Y).save(tmp_path / "cal.safetensors")
    kind = CALIBRATORS.pop("uniform-mixture")
    with pytest.raises(ArtefactError, match=r"'uniform-mixture', which is not known here.*register_calibrator"):
        driftcal.load(path)
    CALIBRATORS["uniform-mixture"] = kind
    assert driftcal.load(path).weight_ == uniform_mixture().fit(Z, Y).weight_


def install(folder, entry_point):
    """Write the files that pip would write for a package that declares a calibrator."""
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[driftcal.calibrators]\n{entry_point}\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def test_the_command_line_sees_an_entry_point(tmp_path):
    (tmp_path / "my_package.py").write_text(CODE.split("driftcal.register_calibrator")[0])
    (tmp_path / "nets.py").write_text("def make():\n    return lambda x: 4 * x\n")
    env = install(tmp_path, "uniform-mixture = my_package:UniformMixture")
    np.savez(tmp_path / "val.npz", x=(Z / 4).astype(np.float32), y=Y)

    def run(*arguments):
        command = [sys.executable, "-m", "driftcal", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout

    run("tune", "nets:make", "val.npz", "--method", "uniform-mixture", "--n-levels", "3", "-o", "cal.safetensors")
    assert "UNIFORM-MIXTURE" in run("inspect", "cal.safetensors")
    assert "UNIFORM-MIXTURE-P" in run("evaluate", "nets:make", "cal.safetensors", "val.npz", "-o", "run")
    assert "uniform-mixture" in re.sub(r"\s+", " ", run("tune", "--help"))


def test_loading_a_file_imports_no_package(uniform_mixture, tmp_path):
    uniform_mixture().fit(Z, Y).save(tmp_path / "cal.safetensors")
    (tmp_path / "my_package.py").write_text(CODE.split("driftcal.register_calibrator")[0])
    env = install(tmp_path, "uniform-mixture = my_package:UniformMixture")
    code = """
import sys, driftcal
try:
    driftcal.load("cal.safetensors")
except driftcal.errors.ArtefactError:
    print("refused", "my_package" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["refused", "False"]


def test_a_broken_entry_point_is_named_and_stops_no_command(tmp_path):
    env = install(tmp_path, "broken = no_such_package:Calibrator")
    command = [sys.executable, "-m", "driftcal", "--version"]
    shown = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == driftcal.__version__
    assert re.fullmatch(r"driftcal: warning: the calibrator 'broken' .*no_such_package.*\n", shown.stderr)


class Unbroken(driftcal.TemperatureScaling):
    """Not broken: the baseline of the cases below."""


class ChangesClass(driftcal.TemperatureScaling):
    def _proba_into(self, logits, out):
        super()._proba_into(logits, out)
        unmasked = np.isfinite(logits).all(axis=1)
        out[unmasked] = out[unmasked, ::-1]

    _log_proba_into = driftcal.LogitCalibrator._log_proba_into


class DependsOnBatch(driftcal.TemperatureScaling):
    def _proba_into(self, logits, out):
        driftcal.TemperatureScaling._proba_into(self, logits / (1 + len(logits) / 1000), out)

    _log_proba_into = driftcal.LogitCalibrator._log_proba_into


class IgnoresWeights(driftcal.TemperatureScaling):
    def _fit(self, data):
        logits, labels, _ = data.arrays()
        return super()._fit(type(data)(logits, labels))


class ForgetsANumber(driftcal.TemperatureScaling):
    fitted = {}


class WrongExport(driftcal.TemperatureScaling):
    def export_map(self):
        return driftcal.export.ExportMap(driftcal.export.Scaled(0.5))


class DoesNotSumTo1(driftcal.TemperatureScaling):
    def _proba_into(self, logits, out):
        super()._proba_into(logits, out)
        out *= 0.99

    _log_proba_into = driftcal.LogitCalibrator._log_proba_into


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (ChangesClass, "predicted class"),
        (DependsOnBatch, "depend on other samples"),
        (IgnoresWeights, "Whole weights"),
        (ForgetsANumber, "file"),
        (WrongExport, "exported graph must agree"),
        (DoesNotSumTo1, "do not sum to 1"),
    ],
)
def test_a_broken_calibrator_is_found(kind, law):
    assert len(check_calibrator(Unbroken)) == 12
    with pytest.raises(AssertionError, match=law):
        check_calibrator(kind)


@pytest.mark.parametrize("name", [n for n, kind in CALIBRATORS.items() if not kind.needs_features])
def test_the_built_in_calibrators_pass(name):
    tolerance = 1e-6 if name == "pts" else 1e-9  # training a network amplifies the last digit of its sums
    assert len(check_calibrator(CALIBRATORS[name], tolerance=tolerance)) >= 11


def test_a_windowed_calibrator_that_lacks_a_method_is_refused_when_it_is_made():
    class Forgetful(driftcal.WindowedCalibrator):
        keeps_accuracy = True

    with pytest.raises(TypeError, match=r"abstract method.*per_sample"):
        Forgetful()
    with pytest.raises(InputError, match=r"lacks .*per_sample"):
        driftcal.register_calibrator("forgetful", Forgetful)


def test_unusable_calibrators_are_not_registered():
    class Unfinished(driftcal.LogitCalibrator):
        keeps_accuracy = True

    class NeedsArgument(driftcal.TemperatureScaling):
        def __init__(self, power, *, classes=None):
            self.power, self.classes = power, classes

    class UndeclaredAccuracy(driftcal.LogitCalibrator):
        def _fit(self, data):
            raise NotImplementedError

        def _proba_into(self, logits, out):
            raise NotImplementedError

    for name, kind, message in (
        ("Mine", Unbroken, "lower-case"),
        ("auto", Unbroken, "lower-case"),
        ("ts", Unbroken, "is taken by TemperatureScaling"),
        ("mine", Unfinished, "lacks _fit, _proba_into"),
        ("mine", int, "is no such class"),
        ("mine", NeedsArgument, "'power' has none"),
        ("mine", UndeclaredAccuracy, "must declare keeps_accuracy"),
    ):
        with pytest.raises(InputError, match=message):
            driftcal.register_calibrator(name, kind)
    assert "mine" not in CALIBRATORS


def test_the_laws_of_exports_are_left_out_with_a_warning_that_names_the_extra(uniform_mixture, monkeypatch):
    real = importlib.import_module

    def without(name, *args):
        if name.partition(".")[0] in ("torch", "onnx", "onnxruntime"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args)

    monkeypatch.setattr(errors.importlib, "import_module", without)
    with pytest.warns(SuspiciousInputWarning) as warned:
        checked = check_calibrator(uniform_mixture)
    assert not any("ONNX" in law for law in checked)
    assert len(checked) > 8
    messages = [str(warning.message) for warning in warned]
    assert [extra in message for message in messages for extra in ("driftcal[onnx]", "driftcal[torch]")] == [
        True,
        False,
        False,
        True,
    ]
