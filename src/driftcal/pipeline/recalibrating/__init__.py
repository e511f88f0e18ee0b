"""Refitting a calibrator with new labelled samples: per sample, windowed, and in its file."""
