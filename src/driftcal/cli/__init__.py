"""The command line. A command parses its options, calls the library, and prints data to stdout, messages to stderr."""

from driftcal.cli.app import app, main

__all__ = ["app", "main"]
