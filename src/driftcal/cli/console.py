"""Printing data on stdout, and messages and progress on stderr. File names cannot control the terminal."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from driftcal.core.kernels import announce_compilation
from driftcal.core.messages import printable
from driftcal.core.progress import Progress, rich_console


def wrapped(text: object, stream: Any) -> str:
    """Text broken between words if `stream` is a terminal; otherwise one line."""
    line = printable(text)
    return "\n".join(textwrap.wrap(line, max(40, shutil.get_terminal_size().columns))) if stream.isatty() else line


def plain_numbers(value: Any) -> Any:
    """The same value with None for NaN and infinity, which JSON cannot hold."""
    if isinstance(value, dict):
        return {str(key): plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Sentences:
    """Text that may be broken between words. Other text, such as a path, stays on one line."""

    text: str


@dataclass(frozen=True)
class Console:
    """The output of a command: `as_json` prints data as JSON, `quiet` prints only data and errors."""

    as_json: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        announce_compilation(self.message)  # a first command would be silent for up to a minute

    def message(self, text: object) -> None:
        """Print a sentence on stderr."""
        if not self.quiet:
            print(wrapped(text, sys.stderr), file=sys.stderr)

    def show(self, table: Any) -> None:
        """Print a table on stderr."""
        if not self.quiet and not self.as_json:
            rich_console(sys.stderr).print(table)

    def output(self, value: Any, *shown: Any) -> None:
        """Print the command's data on stdout: `value` as JSON, or `shown` as lines and tables."""
        if self.as_json:
            print(json.dumps(plain_numbers(value)))
            return
        for item in shown:
            if isinstance(item, Sentences):
                print(wrapped(item.text, sys.stdout))
            elif isinstance(item, str):
                print(printable(item))
            else:
                rich_console(sys.stdout).print(item)

    @contextmanager
    def plain_warnings(self) -> Iterator[None]:
        """Inside, Python warnings are messages without the file and line that raised them."""
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: self.message(f"warning: {message}")
            yield

    @contextmanager
    def progress(self, title: str, n_inputs: int) -> Iterator[Progress]:
        """A progress bar over `n_inputs` model inputs; it appears after two seconds."""
        bar = Progress(title, n_inputs, shown=not self.quiet)
        try:
            yield bar
        finally:
            bar.close()
