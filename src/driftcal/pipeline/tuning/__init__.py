"""Fitting calibrators on logits, and choosing one."""
