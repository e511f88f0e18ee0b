"""torch.export files (.pt2), opened only if nothing in them can run code.

``torch.export.load`` unpickles parts of the archive, evaluates symbolic shapes as Python text, and calls any name below
``torch``, ``operator`` and ``math``. A hostile file could use each of these. The archive is therefore checked first.
Only a graph of plain tensor operations with plain weights is passed on to torch.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driftcal.core.messages import first_line
from driftcal.core.parallel import environment_variable
from driftcal.errors import ModelError
from driftcal.models.torch.operators import is_allowed

_MEMBERS = re.compile(
    r"(data/weights/weight_\d+|data/constants/tensor_\d+|data/(weights|constants)/model_\w+_config\.json"
    r"|data/sample_inputs/model\.pt|models/model\.json|archive_format|archive_version|byteorder|version|\.data/\w+)"
)
_NAME = re.compile(r"[A-Za-z_][\w.]*|")
# Shapes are expressions such as Symbol('s0', positive=True, integer=True), 2*s0 + 1 or FloorDiv(s0, 2). They may hold
# symbols, the functions and keywords of this list, numbers and operators.
_SYMBOL = re.compile(r"'[a-z]+\d+'|[a-z]{1,3}\d+")
_FUNCTION_OR_KEYWORD = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Eq|Ne|Lt|Le|Gt|Ge|Mod|And|Or|Not|positive|integer|"
    r"real|nonnegative|nonzero|True|False|FloorDiv|ModularIndexing|PythonMod|CleanDiv|CeilToInt|FloorToInt|"
    r"CeilDiv|TruncToInt|TruncToFloat|RoundToInt|IntTrueDiv|FloatTrueDiv|FloatPow|PowByNatural|ToFloat|"
    r"Where|Identity"
)
_LOADING = threading.Lock()  # an environment variable belongs to all threads


def load_exported(path: Path) -> Any:
    """The ExportedProgram in `path`, or a ModelError that names the part that is not plain."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            members = [name.split("/", 1)[-1] for name in archive.namelist()]
            texts = {
                name.split("/", 1)[-1]: archive.read(name) for name in archive.namelist() if name.endswith(".json")
            }
        _check(path, texts, members)
    except ModelError:
        raise
    except Exception as error:  # damaged archives fail in many ways
        raise ModelError(f"{str(path)!r} is not an intact torch.export file: {error}.") from error
    # with this variable torch.load reads tensors only, and ignores the arguments of its caller
    no_pickled_code = environment_variable("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    try:
        with _LOADING, no_pickled_code, _quiet("torch.export"), _quiet("torch._export"):
            return torch.export.load(path)
    except Exception as error:  # a damaged file may raise any error
        raise ModelError(
            f"{str(path)!r} cannot be loaded by torch {torch.__version__}: {first_line(error)}. "
            "Export it again with this version, or use ONNX."
        ) from error


def _check(path: Path, texts: dict[str, bytes], members: list[str]) -> None:
    """Refuse an archive with other members, or with JSON texts that are not plain."""
    for member in members:
        if not _MEMBERS.fullmatch(member):
            raise _refused(path, f"it contains {member!r}")
        if members.count(member) > 1:  # torch might read the one that was not checked
            raise _refused(path, f"it contains {member!r} twice")
    for name, text in texts.items():
        for key, value in _walk(json.loads(text)):
            _check_value(path, name, key, value)


def _check_value(path: Path, file: str, key: str, value: Any) -> None:
    """Refuse one value of a JSON text that could run code."""
    if key == "use_pickle" and value:
        raise _refused(path, f"{file} holds pickled tensors")
    if not isinstance(value, str):
        return
    if key == "target" and not is_allowed(value):
        raise _refused(path, f"it calls {value!r}, which is not among the listed operators")
    if key == "expr_str" and not _is_plain_expression(value):
        raise _refused(path, f"a shape is written as {value!r}")
    if key in ("name", "forward_arg_names") and not _NAME.fullmatch(value):
        raise _refused(path, f"a name is {value!r}")
    if key in ("in_spec", "out_spec") and value:
        types = {item for name, item in _walk(json.loads(value)) if name == "type" and item is not None}
        foreign = types - {"builtins.tuple", "builtins.list", "builtins.dict"}
        if foreign:
            raise _refused(path, f"its inputs or outputs are of type {sorted(map(str, foreign))[0]!r}")


def _is_plain_expression(text: str) -> bool:
    """Whether a symbolic shape holds nothing but symbols, known functions, numbers and operators."""
    without_symbols = _SYMBOL.sub(" ", text)
    identifiers = re.findall(r"[A-Za-z_]\w*", without_symbols)
    has_other_characters = re.search(r"[^\w\s+\-*/(),=<>]", without_symbols)
    return all(map(_FUNCTION_OR_KEYWORD.fullmatch, identifiers)) and not has_other_characters


def _walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every (key, plain value) in nested JSON; items of a list have the list's key."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _walk(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, key)
    else:
        yield key, value


def _refused(path: Path, problem: str) -> ModelError:
    return ModelError(
        f"{str(path)!r} must be a graph of plain tensor operations; {problem}. Such a file could run code or write files, so it is "
        "not opened. Export the network again with torch.export.save, one tensor in and one out, or use ONNX."
    )


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a logger: torch logs a long message before it raises the same as an error."""
    logger = logging.getLogger(name)
    previous = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(previous)
