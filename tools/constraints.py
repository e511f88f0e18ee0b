"""The versions that the tests ran with, as constraints for pip: `make test` and `make demo` with everything they bring along.

python tools/constraints.py > constraints.txt        # in the environment that passed the tests
PIP_CONSTRAINT=$PWD/constraints.txt make test        # the same environment again
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def declared() -> list[Requirement]:
    """What pyproject.toml asks for: dependencies, extras and the group of the tests."""
    text = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    project = text["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values(), text["dependency-groups"]["dev"]]
    return [Requirement(entry) for group in groups for entry in group]


def installed(requirements: Iterable[Requirement]) -> dict[str, str]:
    """The versions of these packages and of all that they need here, without the part that names a build (+cpu)."""
    versions: dict[str, str] = {}
    left, seen = list(requirements), set()
    while left:
        requirement = left.pop()
        if str(requirement) in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(str(requirement))
        versions[canonicalize_name(requirement.name)] = version(requirement.name).partition("+")[0]
        for extra in ("", *requirement.extras):
            for text in requires(requirement.name) or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    needed.marker = None  # it applies here
                    left.append(needed)
    return dict(sorted(versions.items()))


if __name__ == "__main__":
    print("# Made by tools/constraints.py: the versions of the last run of all tests, on Python 3.11 and Linux.")
    for name, number in installed(declared()).items():
        print(f"{name}=={number}")
