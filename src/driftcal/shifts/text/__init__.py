"""Shifts of text: what happens to sentences on their way to a classifier."""
