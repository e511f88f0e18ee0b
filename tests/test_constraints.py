"""The versions in constraints.txt cover every declared dependency and are ones that it allows."""

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.constraints import declared

LINES = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
VERSIONS = dict(line.split("==") for line in LINES if not line.startswith("#"))


def test_every_dependency_has_a_tested_version():
    for requirement in declared():
        version = VERSIONS.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} has no line: run tools/constraints.py where all tests passed"
        assert requirement.specifier.contains(version), f"{requirement} does not allow {version}"


def test_lines_are_versions_of_an_index():
    for line in LINES[1:]:
        (specifier,) = Requirement(line).specifier
        assert specifier.operator == "=="
        assert "+" not in line, "a build of one index is not on others"
