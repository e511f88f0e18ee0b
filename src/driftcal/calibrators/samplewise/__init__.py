"""Calibrators with a temperature per sample."""
