"""Compiled passes of isotonic regression and histogram binning."""
