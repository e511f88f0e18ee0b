"""The lowest versions that pyproject.toml declares, as requirements for pip.

python tools/minimum.py > minimum.txt
python tools/minimum.py base onnx      # dependencies, and those of the extra "onnx"; without arguments all but those with torch or ray
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

#: Large packages whose adapters have tests of their own.
LEFT_OUT = ("keras", "ray", "torch", "torchmetrics")


#: The first versions with a build for Python 3.13, where lower ones are declared.
BUILT_FOR_313 = {
    "matplotlib": "3.9.2", "numpy": "2.1", "onnx": "1.18", "pandas": "2.2.3", "pillow": "11.0", "pyarrow": "18", "scipy": "1.14.1",
}  # fmt: skip


def lowest(requirement: str, python: tuple[int, int] = (3, 11)) -> str:
    """The lowest version of one requirement that this Python can install.

    >>> lowest("numpy>=2.0"), lowest("numpy>=2.0", (3, 13))
    ('numpy==2.0', 'numpy==2.1')
    """
    name, version = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement.strip()).groups()  # type: ignore[union-attr]
    return f"{name}=={BUILT_FOR_313.get(name, version) if python >= (3, 13) else version}"


def requirements(groups: Sequence[str]) -> list[str]:
    """The lowest versions of these groups: "base" is the dependencies, others are extras."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {"base": project["dependencies"], **project["optional-dependencies"]}
    return sorted(
        {
            lowest(entry, sys.version_info[:2])
            for group in groups or set(extras) - set(LEFT_OUT)
            for entry in extras[group]
        }
    )


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
