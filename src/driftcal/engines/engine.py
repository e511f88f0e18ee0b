"""What an engine is: a place where independent tasks run, near or far, with the same answers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: What a task says on its way: passed on at once where that is possible, else with its answer.
Tell = Callable[..., None]
#: ``function(*given, task, tell)``: a function of a module, so that it can be named to another process.
Work = Callable[..., Any]

_tokens = itertools.count()


@dataclass(frozen=True, eq=False)
class Kept:
    """A value that workers get once and keep: a model is then opened once per worker, not once per task.

    `place` is where an engine put it for its workers; here the value itself is enough.
    """

    value: Any
    place: Any = None
    token: str = field(default_factory=lambda: f"{os.getpid()}-{next(_tokens)}")


@dataclass(frozen=True)
class Rules:
    """When to try again, and when to stop waiting.

    A task that raises is tried `tries` times in all; one whose worker dies, `deaths` times: a task that kills every worker
    it gets must come to an end too. With nothing left to start, a task that takes `slow` times the usual (and at least
    `patience` seconds) is started once more elsewhere, and the first answer counts. `timeout` seconds end a task.
    """

    tries: int = 3
    deaths: int = 5
    slow: float = 3.0
    patience: float = 10.0
    timeout: float | None = None


class Engine(Protocol):
    """Runs a function over tasks. The order of answers is nobody's promise; each comes exactly once.

    A failing task does not stop the others: `map` raises :class:`driftcal.errors.WorkFailed`, which names every task that
    failed, after all others are done. Closing the iterator, or an interrupt, stops what is running.
    """

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    @property
    def remote(self) -> bool:
        """Whether tasks run in other processes: then data should be read there, and only small answers come back."""

    def keep(self, value: Any) -> Kept:
        """Put a value where workers find it, once for all of them."""

    def map(
        self, function: Work, tasks: Sequence[Any], *given: Kept, tell: Tell | None = None, holds_lock: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """(number of the task, its answer) as they finish, from ``function(*values of given, task, tell)``.

        ``str(task)`` is the task's name in errors. `holds_lock` says that the function keeps Python's lock, so that
        threads would not help.
        """

    def close(self) -> None:
        """End the workers."""
