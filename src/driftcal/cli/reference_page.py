"""The help of all commands as a page: ``python -m driftcal.cli.reference_page > docs/cli.md``. A test compares both."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

from driftcal.cli.app import app, main

_INTRODUCTION = """\
# Command line

Commands in the order of the pipeline: `demo`, `tune`, `fit`, `threshold`, `evaluate`, `report`, `export`, `monitor`, `recalibrate`. `plan`, `shifts` and
`inspect` print information. This page is what `--help` prints.

- **stdout is data, stderr is messages.** `--json` makes the data JSON; `--quiet` leaves out the messages.
- **`--dry-run`** prints what would be done, how many passes of the model it takes, and about how long. For `evaluate`
  the number is exact, also after an interrupted run.
- **Exit codes:** 0 done, 1 failed (the last line on stderr is the reason and what to do), 2 misused (unknown option, command or name), 130 interrupted (Ctrl-C).
- **Interrupted runs:** run the same command again. `evaluate` and `demo` keep the model's logits in the folder of their
  results, `tune` in that of `--cache`.
- **Progress** appears on a terminal after two seconds, with rate and remaining time; elsewhere a line every 15 seconds.
"""


def reference() -> str:
    """The whole page."""
    names = [str(command.callback.__name__) for command in app.registered_commands if command.callback]
    parts = [_INTRODUCTION, _section("driftcal", [])]
    parts += [_section(f"driftcal {name}", [name]) for name in names]
    # all experiments have the same options, so one of them is enough
    parts += [
        _section(" ".join(["driftcal", *command]), command)
        for command in (["paper"], ["paper", "table1"], ["paper", "train"])
    ]
    return "\n".join(parts)


def _section(title: str, command: list[str]) -> str:
    return f"## {title}\n\n```text\n{_help(command)}```\n"


def _help(command: list[str]) -> str:
    out = io.StringIO()
    with _eighty_columns(), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    # a backspace in a docstring keeps its line breaks; typer prints some of them
    return "".join(line.rstrip(" \b") + "\n" for line in out.getvalue().splitlines())


@contextlib.contextmanager
def _eighty_columns() -> Iterator[None]:
    """Inside, help has 80 columns; otherwise it is as wide as the terminal."""
    saved = {name: os.environ.get(name) for name in ("COLUMNS", "TERMINAL_WIDTH")}
    os.environ.update(dict.fromkeys(saved, "80"))
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


if __name__ == "__main__":
    print(reference(), end="")
