"""The lowest versions that pyproject.toml declares, as requirements for pip.

python tools/minimum.py > minimum.txt
python tools/minimum.py base onnx      # dependencies, and those of the extra "onnx"; without arguments all but keras, ray and torch
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

#: Large packages whose adapters have tests of their own.
LEFT_OUT = ("keras", "ray", "torch")


def lowest(requirement: str) -> str:
    """The lowest version of one requirement.

    >>> lowest("numpy>=2.0")
    'numpy==2.0'
    """
    name, version = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement.strip()).groups()  # type: ignore[union-attr]
    return f"{name}=={version}"


def requirements(groups: Sequence[str]) -> list[str]:
    """The lowest versions of these groups: "base" is the dependencies, others are extras."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {"base": project["dependencies"], **project["optional-dependencies"]}
    return sorted({lowest(entry) for group in groups or set(extras) - set(LEFT_OUT) for entry in extras[group]})


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
