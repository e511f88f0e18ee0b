"""The versions that numbers were computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from driftcal._version import __version__

#: Framework of a model -> its packages, where driftcal does not need them itself.
_PACKAGES = {
    "lightgbm": ("lightgbm",), "xgboost": ("xgboost",), "catboost": ("catboost",), "torch": ("torch",), "onnx": ("onnxruntime",),
    "keras": ("keras",),
}  # fmt: skip


def versions(framework: str = "", *, tables: bool = False) -> dict[str, str]:
    """driftcal, Python and the packages that compute: also that of the model's framework, and pandas for `tables`."""
    names = ("numpy", "scipy", "numba", "scikit-learn", *_PACKAGES.get(framework, ()), *(("pandas",) if tables else ()))
    return {"driftcal": __version__, "python": platform.python_version(), **{name: _version(name) for name in names}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a frozen application has no package metadata
        return "unknown"
