"""Shifts: what can happen to inputs. A shift is a function ``(inputs, level, *, seed=0, indices=None) -> inputs``."""

from __future__ import annotations

from driftcal.shifts.registry import SHIFTS, get_shift, image_shifts, register_shift
from driftcal.shifts.shift import Shift
from driftcal.shifts.simulated.conditions import SimulatedCondition, simulated_conditions
from driftcal.shifts.suites import SUITES, Suite, get_suite
from driftcal.shifts.tabular.drifts import FeatureDrift
from driftcal.shifts.tabular.tabular_noise import TabularNoise

__all__ = [
    "SHIFTS",
    "SUITES",
    "FeatureDrift",
    "Shift",
    "SimulatedCondition",
    "Suite",
    "TabularNoise",
    "get_shift",
    "get_suite",
    "image_shifts",
    "register_shift",
    "simulated_conditions",
]
