"""The help of the command line as a page: ``python -m driftcal.cli.reference_page > docs/cli.md``. A test keeps it true."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

from driftcal.cli.app import app, main

_INTRODUCTION = """\
# Command line

Commands in the order of the pipeline: `demo`, `tune`, `evaluate`, `report`, `export`, `monitor`, `recalibrate`. `plan`, `shifts` and
`inspect` print information. This page is what `--help` prints.

- **stdout is data, stderr is messages.** `--json` makes the data JSON; `--quiet` leaves out the messages.
- **`--dry-run`** says what would be done, how many passes of the model it takes, and about how long. For `evaluate` the
  number is exact, also after an interrupted run.
- **Exit codes:** 0 done, 1 failed (the last line on stderr says why and what to do), 2 misused (unknown option, command or name), 130 interrupted (Ctrl-C).
- **Interrupted runs:** run the same command again. `evaluate` and `demo` keep the model's logits beside their results,
  `tune` where `--cache` says.
- **Progress** appears on a terminal after two seconds, with rate and remaining time; elsewhere a line every 15 seconds.
"""


def reference() -> str:
    """The whole page."""
    names = [str(command.callback.__name__) for command in app.registered_commands if command.callback]
    parts = [_INTRODUCTION, _section("driftcal", [])]
    parts += [_section(f"driftcal {name}", [name]) for name in names]
    # all experiments take the same options: the first stands for them
    parts += [
        _section(" ".join(["driftcal", *words]), words)
        for words in (["paper"], ["paper", "table1"], ["paper", "train"])
    ]
    return "\n".join(parts)


def _section(title: str, words: list[str]) -> str:
    return f"## {title}\n\n```text\n{_help(words)}```\n"


def _help(words: list[str]) -> str:
    out = io.StringIO()
    with _eighty_columns(), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    # a backspace keeps the lines of a paragraph apart; typer prints some of them
    return "".join(line.rstrip(" \b") + "\n" for line in out.getvalue().splitlines())


@contextlib.contextmanager
def _eighty_columns() -> Iterator[None]:
    """Help is as wide as the terminal; a page is not."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "TERMINAL_WIDTH")}
    os.environ.update(dict.fromkeys(before, "80"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


if __name__ == "__main__":
    print(reference(), end="")
