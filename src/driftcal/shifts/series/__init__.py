"""Shifts of time series and spectra: what happens to signals between a sensor and a classifier."""
