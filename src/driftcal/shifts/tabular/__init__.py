"""Shifts of feature tables: noise to tune on, and seven drifts to test under."""
