"""Compiled passes of isotonic and histogram calibrators."""
