"""Calibrators that give each sample a temperature of its own."""
