"""Calibrators without a fixed form: isotonic regression, histogram binning, splines; their compiled passes are in kernels/."""
