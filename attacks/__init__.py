"""Hostile files, made by a script, and a script that opens each of them."""
