"""Setups: networks with the data they are tuned and tested on."""

from driftcal.paper.setups.open_setups import SetupOptions, open_setups
from driftcal.paper.setups.setup import Setup

__all__ = ["Setup", "SetupOptions", "open_setups"]
