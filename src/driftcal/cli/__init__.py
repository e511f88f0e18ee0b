"""The command line: every command parses, makes one library call, and prints. Data goes to stdout, messages to stderr."""

from driftcal.cli.app import app, main

__all__ = ["app", "main"]
