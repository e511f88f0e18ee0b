"""Checks for extensions: your calibrator must obey the same laws as driftcal's calibrators."""

from driftcal.testing.check_calibrator import check_calibrator as check_calibrator

__all__ = ["check_calibrator"]
