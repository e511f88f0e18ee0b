"""Calibrators as ONNX graphs of standard operators, in float64. `calibration.py` puts the parts of a map together."""
