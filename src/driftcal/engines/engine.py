"""The protocol of an engine: it runs a function over independent tasks, on this machine or on a cluster."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: ``report(*values)``: progress of a task. Threads report at once; processes and Ray workers report with the result.
Report = Callable[..., None]
#: ``function(*shared values, task, report) -> result``, defined in a module, so that other processes can import it.
TaskFunction = Callable[..., Any]

_counter = itertools.count()


@dataclass(frozen=True, eq=False)
class SharedValue:
    """A value that each worker receives once and stores, so that a model is opened once per worker, not once per task.

    `reference` points to the copy for workers in other processes; threads use the value itself.
    """

    value: Any
    reference: Any = None
    key: str = field(default_factory=lambda: f"{os.getpid()}-{next(_counter)}")


@dataclass(frozen=True)
class RetryPolicy:
    """When a task is tried again, and when it ends.

    Parameters
    ----------
    max_tries : int
        Number of tries for a task that raises an error. After an InputError there is no second try.
    max_worker_failures : int
        Number of workers (processes or Ray actors) that a task may lose before it counts as failed.
    straggler_factor, straggler_seconds : float
        When no task is left to start, a slow Ray task is started a second time. A task is slow if it takes
        `straggler_factor` times the median, and at least `straggler_seconds`. The first result is used.
    timeout : float, optional
        Seconds after which a try of a Ray task is stopped. It counts as an error.
    """

    max_tries: int = 3
    max_worker_failures: int = 5
    straggler_factor: float = 3.0
    straggler_seconds: float = 10.0
    timeout: float | None = None


class Engine(Protocol):
    """Runs a function over tasks. Results come in any order, each exactly once.

    A failing task does not stop the others. After all others are done, `map` raises
    :class:`driftcal.errors.WorkFailed`, which names every failed task. Closing the iterator, or an interrupt, stops the
    running tasks.
    """

    @property
    def name(self) -> str:
        """The name that the command line takes."""

    @property
    def workers(self) -> int:
        """Number of tasks that run at once."""

    @property
    def remote(self) -> bool:
        """Whether tasks run on other machines. Data should then be read there, and results should be small."""

    def share(self, value: Any) -> SharedValue:
        """Store a value where all workers can read it."""

    def map(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        *shared: SharedValue,
        report: Report | None = None,
        holds_gil: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        """(number of the task, result) as tasks finish, of ``function(*shared values, task, report)``.

        Parameters
        ----------
        function : callable
            What to run, defined in a module.
        tasks : sequence
            ``str(task)`` is the name of a task in errors.
        *shared : SharedValue
            The first arguments of `function`, the same for all tasks.
        report : callable, optional
            Receives the progress that tasks report.
        holds_gil : bool
            The function holds Python's global lock, so threads would not run in parallel.
        """

    def close(self) -> None:
        """End the workers."""
