"""`import driftcal` is quick and brings nothing along; every public name is there when asked for."""

import ast
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

import driftcal
from driftcal.calibrators import CALIBRATORS

HEAVY = {"torch", "ray", "onnx", "onnxruntime", "keras", "matplotlib", "sklearn", "numba", "pandas", "scipy", "numpy"}


def run(code, cwd):
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_takes_less_than_a_second_and_imports_no_framework(tmp_path):
    loaded = set(run("import sys, driftcal; print(*{m.split('.')[0] for m in sys.modules})", tmp_path).split())
    assert "driftcal" in loaded
    assert loaded & HEAVY == set()
    seconds = []
    for _ in range(3):  # the machine may be busy with something else
        started = time.perf_counter()
        run("import driftcal", tmp_path)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 1.0


def test_calibrating_logits_imports_no_framework(tmp_path):
    code = """
import sys, driftcal
ts = driftcal.TemperatureScaling().fit([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [2.0, 1.0, 0.0]], [0, 1, 0])
driftcal.expected_calibration_error([0, 1, 0], ts.predict_proba([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [2.0, 1.0, 0.0]]))
print(*{m.split('.')[0] for m in sys.modules})
"""
    assert set(run(code, tmp_path).split()) & {"torch", "ray", "onnx", "onnxruntime", "keras", "matplotlib"} == set()


@pytest.mark.parametrize("name", driftcal.__all__)
def test_public_name_resolves(name):
    assert getattr(driftcal, name) is not None
    assert name in dir(driftcal)


@pytest.mark.parametrize("kind", CALIBRATORS.values(), ids=CALIBRATORS)
def test_every_calibrator_is_public(kind):
    assert getattr(driftcal, kind.__name__) is kind


def test_every_class_that_the_readme_names_is_public():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]*)+)`", text))
    assert names <= set(driftcal.__all__)


def test_editors_and_the_interpreter_know_the_same_names():
    """The imports under TYPE_CHECKING are what `_PUBLIC` and `_MODULES` say."""
    tree = ast.parse(Path(driftcal.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname: f"{'driftcal' if node.level else node.module}" for node in block.body for alias in node.names
    }
    modules = {name for name, module in imported.items() if module == "driftcal"}
    assert modules == driftcal._MODULES
    assert {name: module for name, module in imported.items() if name not in modules} == driftcal._PUBLIC


def test_editors_and_the_interpreter_know_the_same_names_of_export():
    tree = ast.parse(Path(driftcal.export.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {a.asname: node.module for node in block.body for a in node.names} == driftcal.export._PUBLIC


def test_every_method_name_is_offered_by_editors():
    from driftcal.pipeline.tuning.tune import MethodName

    assert set(get_args(MethodName)) == {"auto", *CALIBRATORS}


def test_type_checkers_see_the_functions(tmp_path):
    script = tmp_path / "use.py"
    script.write_text("import driftcal\nreveal_type(driftcal.tune)\nreveal_type(driftcal.metrics.evaluate)\n")
    shown = subprocess.run([sys.executable, "-m", "mypy", str(script)], capture_output=True, text=True).stdout
    assert shown.count('Revealed type is "def (') == 2, shown


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = driftcal.no_such_name
