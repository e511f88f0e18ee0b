"""Calibrators without a fixed form: isotonic regression, histogram binning and splines."""
