"""The versions that numbers were computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from driftcal._version import __version__


def versions() -> dict[str, str]:
    """driftcal, Python and the packages that compute."""
    return {
        "driftcal": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a frozen application has no package metadata
        return "unknown"
