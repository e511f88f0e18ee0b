"""A module imports lower layers or its own stage; the stages of layer 1 are strangers to each other (see DESIGN)."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

#: first name below driftcal -> its layer
LAYERS = {
    **dict.fromkeys(
        [
            "types",
            "errors",
            "checks",
            "image_checks",
            "numerics",
            "cores",
            "chunks",
            "blocks",
            "rows",
            "places",
            "files",
            "_version",
        ],
        0,
    ),
    **dict.fromkeys(["sources", "perturb", "models", "store", "calibrators", "metrics", "engines"], 1),
    **dict.fromkeys(["reliability", "diagram"], 1),
    # a crossing may use the ones before it
    "sharded": 2.0,
    "collect": 2.05,
    "results": 2.0,
    "profile": 2.06,
    "inside": 2.06,
    "choose": 2.1,
    "evaluation": 2.2,
    "calibrated": 2.3,
    "tuning": 2.4,
    "rivalry": 2.5,
    "runs": 2.6,
    "planning": 2.6,
    "bench": 3,
    **dict.fromkeys(["report", "deploy"], 4),
    **dict.fromkeys(["demo", "inspection", "paper"], 4.5),
    "cli": 5,
    "__main__": 6,
}
#: files that belong to another name's stage
STAGE = {"reliability": "metrics", "diagram": "metrics"}
MODULES = sorted(path.relative_to(SRC) for path in (SRC / "driftcal").rglob("*.py"))


def part_of(dotted: str) -> str:
    """The first name below driftcal; the package itself is ''."""
    return [*dotted.split("."), ""][1]


def imported(tree: ast.AST, package: list[str]) -> set[str]:
    """Every driftcal module that a file imports, anywhere in it, also by importlib."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            found |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {name for name in found if name.split(".")[0] == "driftcal"}


def broken_rules(module: Path, source: str) -> list[str]:
    """What `module` imports and must not."""
    own = part_of(".".join(module.with_suffix("").parts))
    stage = STAGE.get(own, own)
    wrong = []
    for name in sorted(imported(ast.parse(source), list(module.parent.parts))):
        other = part_of(name)
        if other == "__version__" or (other == "" and name == "driftcal" and LAYERS[own] == 5):
            continue
        if str(module) == "driftcal/calibrated.py" and name == "driftcal":
            continue  # CalibratedModel.report() is drawn layers above, by the public name and when it is called
        if other not in LAYERS:
            wrong.append(f"{module} imports {name}, which has no layer")
        elif STAGE.get(other, other) != stage and not LAYERS[other] < LAYERS[own] and LAYERS[own] > 0:
            wrong.append(f"{module} (layer {LAYERS[own]}) imports {name} (layer {LAYERS[other]})")
        elif LAYERS[own] == 0 and LAYERS[other] > 0:
            wrong.append(f"{module} (layer 0) imports {name}")
    return wrong


def test_every_module_has_a_layer():
    parts = {part_of(".".join(m.with_suffix("").parts)) for m in MODULES} - {"__init__"}
    assert parts <= set(LAYERS), f"give these a layer: {sorted(parts - set(LAYERS))}"
    assert len(MODULES) > 20


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_only_what_lies_below(module):
    if module == Path("driftcal/__init__.py"):  # names every public thing, and imports none of them
        assert {part_of(n) for n in imported(ast.parse((SRC / module).read_text()), ["driftcal"])} <= {"_version"}
        return
    assert broken_rules(module, (SRC / module).read_text()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("driftcal/metrics/ece.py", "from driftcal.calibrators import CALIBRATORS"),
        ("driftcal/metrics/ece.py", "def f():\n    import driftcal.store"),
        ("driftcal/metrics/ece.py", "from ..tuning import tune"),
        ("driftcal/metrics/ece.py", "import importlib\nimportlib.import_module('driftcal.bench')"),
        ("driftcal/rows.py", "from driftcal.metrics import ece"),
        ("driftcal/bench/run.py", "from driftcal import report"),
        ("driftcal/collect.py", "from driftcal.tuning import tune"),
        ("driftcal/evaluation.py", "from driftcal.tuning import tune"),
        ("driftcal/store.py", "import driftcal"),
    ],
)
def test_the_rule_bites(module, source):
    assert broken_rules(Path(module), source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "driftcal/metrics/ece.py",
            "from driftcal.metrics.bins import Bins\nfrom . import bins\nfrom .bins import Bins",
        ),
        ("driftcal/reliability.py", "from driftcal.metrics import Statistics"),
        ("driftcal/tuning.py", "from driftcal import store\nfrom driftcal.calibrators import make_calibrator"),
        ("driftcal/evaluation.py", "from driftcal.collect import collect"),
        ("driftcal/cli.py", "import driftcal"),
    ],
)
def test_the_rule_lets_through(module, source):
    assert broken_rules(Path(module), source) == []
