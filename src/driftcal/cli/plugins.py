"""Calibrators of other installed packages, which every command can use."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import entry_points


def register_plugins() -> None:
    """Register the calibrators of installed packages. Without any, slow imports are avoided."""
    if entry_points(group="driftcal.calibrators"):
        from driftcal.calibrators import register_entry_points

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            register_entry_points()
        for warning in caught:
            print(f"driftcal: warning: {warning.message}", file=sys.stderr)
