"""Checks for extensions: a calibrator of your own must pass what driftcal's own calibrators pass."""

from driftcal.testing.check_calibrator import check_calibrator as check_calibrator

__all__ = ["check_calibrator"]
