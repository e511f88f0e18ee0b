"""Calibrators as torch modules, in float64. `to_torch.py` puts the parts of a map together."""
