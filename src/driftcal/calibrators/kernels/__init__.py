"""Compiled passes and solvers that several calibrators share."""
