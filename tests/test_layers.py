"""Imports go downwards only: a module imports its own folder and the folders before it in `ORDER`."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

#: Folders and root modules of driftcal, the lowest first.
ORDER = [
    "_version",
    "errors",
    "types",
    "core",
    "io",
    "data",
    "shifts",
    "models",
    "cache",
    "engines",
    "metrics",
    "decisions",
    "drift",
    "calibrators",
    "pipeline",
    "export",
    "testing",
    "monitor",
    "report",
    "integrations",
    "paper",
    "cli",
    "__main__",
]
MODULES = sorted(path.relative_to(SRC) for path in (SRC / "driftcal").rglob("*.py"))


def imported_modules(tree: ast.AST, package: list[str]) -> set[str]:
    """Every driftcal module that a file imports, anywhere in it, also by importlib."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            names |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {name for name in names if name.split(".")[0] == "driftcal"}


def upward_imports(module: Path, source: str) -> list[str]:
    """What `module` imports from above itself."""
    folder = [*module.with_suffix("").parts, ""][1]
    allowed = ORDER[: ORDER.index(folder) + 1] if folder in ORDER else []
    wrong = []
    for name in sorted(imported_modules(ast.parse(source), list(module.parent.parts))):
        other = [*name.split("."), ""][1]
        if other == "__version__" or (name == "driftcal" and folder == "cli"):
            continue
        if other not in allowed:
            wrong.append(f"{module} imports {name}")
    return wrong


def test_every_folder_has_its_place():
    folders = {[*module.with_suffix("").parts, ""][1] for module in MODULES} - {"__init__"}
    assert folders == set(ORDER)


def test_the_architecture_page_lists_the_folders_in_this_order():
    first_cells = re.findall(r"^\| (`.*?) \|", ARCHITECTURE, re.MULTILINE)
    listed = [name.rstrip("/") for cell in first_cells for name in re.findall(r"`([a-z]+/?)`", cell)]
    assert listed == [name for name in ORDER if not name.startswith("_")]


def test_every_module_that_the_architecture_page_names_exists():
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_0-9]+\.(?:py|md))?)`", ARCHITECTURE)
    assert len(named) > 50
    folders = (ROOT, SRC / "driftcal", SRC / "driftcal" / "calibrators")
    assert [name for name in named if not any((folder / name).exists() for folder in folders)] == []


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_go_downwards(module):
    source = (SRC / module).read_text()
    if module == Path("driftcal/__init__.py"):  # names every public thing, and imports none of them
        at_run_time = [node for node in ast.parse(source).body if not isinstance(node, ast.If)]  # TYPE_CHECKING
        names = imported_modules(ast.Module(at_run_time, []), ["driftcal"])
        assert {name.split(".")[1] for name in names} <= {"_version"}
        return
    assert upward_imports(module, source) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("driftcal/metrics/ece.py", "from driftcal.calibrators import CALIBRATORS"),
        ("driftcal/metrics/ece.py", "def f():\n    import driftcal.pipeline"),
        ("driftcal/metrics/ece.py", "from ..pipeline import tune"),
        ("driftcal/metrics/ece.py", "import importlib\nimportlib.import_module('driftcal.paper')"),
        ("driftcal/core/dataset.py", "from driftcal.metrics import ece"),
        ("driftcal/pipeline/tune.py", "import driftcal"),
    ],
)
def test_the_rule_bites(module, source):
    assert upward_imports(Path(module), source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "driftcal/metrics/ece.py",
            "from driftcal.metrics.bins import Bins\nfrom . import bins\nfrom .bins import Bins",
        ),
        ("driftcal/pipeline/tune.py", "from driftcal.calibrators import make_calibrator"),
        ("driftcal/cli/commands/tune.py", "import driftcal"),
    ],
)
def test_the_rule_lets_through(module, source):
    assert upward_imports(Path(module), source) == []
