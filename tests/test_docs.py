"""Every example in the documentation runs: the Python blocks of README and docs, and the doctests of every module.

Commands are parsed: every command and option that a page names exists.
"""

import doctest
import importlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer

from driftcal.calibrators import CALIBRATORS
from driftcal.cli import app
from driftcal.data.bundled import FASHION_NETWORK

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src" / "driftcal").rglob("*.py")
)
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: The only reasons not to run a block.
REASONS = {"needs-gpu", "needs-network"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Examples run in an empty folder; a calibrator that one registers is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    shutil.copy(FASHION_NETWORK, tmp_path / "runs" / "demo" / "model.onnx")  # what `make demo` leaves
    registered = dict(CALIBRATORS)
    with np.printoptions(precision=8, suppress=False, linewidth=75, threshold=1000, edgeitems=3, legacy=False):
        yield
    for name in CALIBRATORS.keys() - registered.keys():
        del CALIBRATORS[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page):
    names: dict[str, object] = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        mark, code = block[1].strip(), block[2]
        if mark:
            reasons = set(mark.removeprefix("no-run").split())
            assert mark.startswith("no-run"), f"```python{block[1]}: only 'no-run' is known"
            assert reasons, f"{page.name}: no-run needs a reason, one of {REASONS}"
            assert reasons <= REASONS, f"{page.name}: no-run needs a reason, one of {REASONS}"
            continue
        line = text[: block.start(2)].count("\n")
        exec(compile("\n" * line + code, str(page), "exec"), names)


SHELL_BLOCK = re.compile(r"^```(?:sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[|&;] ?|\$ )driftcal (\w[^|#\n]*)", re.MULTILINE)


def unknown_options(line: str) -> list[str]:
    """Words of a command line that name no command or option; `line` follows "driftcal"."""
    command, words = typer.main.get_command(app), line.split()
    while words and (commands := getattr(command, "commands", None)):
        if words[0] not in commands:
            return words[:1]
        command = commands[words.pop(0)]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    named = (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word))
    return [word for word in named if word not in {*options, "--help"}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for block in SHELL_BLOCK.findall(text) for line in COMMAND.findall(block)]
    assert {line: unknown for line in lines if (unknown := unknown_options(line))} == {}


def test_unknown_commands_and_options_are_found():
    assert unknown_options("tune model.onnx val.npz -o cal.safetensors") == []
    assert unknown_options("paper table1 --networks resnet20 --nothing=1") == ["--nothing"]
    assert unknown_options("retune model.onnx") == ["retune"]


@pytest.mark.parametrize("name", MODULES)
def test_doctests_pass(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0, f"{failed} examples of {name} differ; run with `python -m doctest -v` to see them"


def test_examples_run_in_the_temporary_folder(tmp_path):
    assert Path.cwd().resolve() == tmp_path.resolve()
