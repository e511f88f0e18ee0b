"""The loop that gives tasks to workers: retries, second copies of slow tasks, timeouts, and errors that name tasks.

Threads, processes and Ray actors share it. Processes belong to joblib's loky, actors to Ray; both detect a dead worker.
loky does not run lost tasks again. Ray can (``max_restarts=-1``, ``max_task_retries``), but with Ray 2.60 some tasks of
killed actors never ended in our tests. This loop therefore starts lost tasks again.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from driftcal.core.messages import first_line
from driftcal.engines.engine import RetryPolicy
from driftcal.errors import EngineError, InputError, WorkFailed

#: Longest wait for a result before timeouts and slow tasks are checked.
_POLL_SECONDS = 0.25
#: After this many failed tasks without any success, all tasks are expected to fail.
_MAX_FAILED_WITHOUT_SUCCESS = 12
#: Failed tasks that the error message lists.
_MAX_LISTED = 5


class WorkerDied(EngineError):
    """The worker of a task has died; the task itself may be fine."""


@dataclass(frozen=True)
class Finished:
    """The end of one try: a result, or an error."""

    handle: Any
    result: Any = None
    error: BaseException | None = None


class WorkerPool(Protocol):
    """Workers that run one task each at a time."""

    #: Whether `stop` ends a task that is running.
    can_stop: bool

    def has_idle_worker(self) -> bool:
        """Whether another task can start."""

    def start(self, number: int) -> Any:
        """Start the task of that number on an idle worker; a handle of this try."""

    def wait(self, seconds: float) -> list[Finished]:
        """The tries that have ended; [] if none ends within about `seconds`."""

    def stop(self, handle: Any) -> None:
        """End a try that is no longer needed, if it has not ended yet."""


@dataclass(frozen=True)
class _Try:
    number: int
    started: float

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def run(pool: WorkerPool, tasks: Sequence[Any], policy: RetryPolicy) -> Iterator[tuple[int, Any]]:
    """(number, result) of every task, once each; raises `WorkFailed` at the end if some tasks failed."""
    pending = deque(range(len(tasks)))
    running: dict[Any, _Try] = {}
    done: set[int] = set()
    errors: dict[int, BaseException] = {}
    failures, seconds = Counter[tuple[int, bool]](), list[float]()

    def add_error(number: int, error: BaseException) -> None:
        died = isinstance(error, WorkerDied)
        failures[number, died] += 1
        limit = policy.max_worker_failures if died else policy.max_tries
        if failures[number, died] < limit and not isinstance(error, InputError):
            pending.append(number)
        elif all(other.number != number for other in running.values()):  # a second copy may still succeed
            errors[number] = error

    try:
        while len(done) + len(errors) < len(tasks) and (done or len(errors) < _MAX_FAILED_WITHOUT_SUCCESS):
            while pool.has_idle_worker():
                number = pending.popleft() if pending else _straggler(pool, running, done, seconds, policy)
                if number is None:
                    break
                if number not in done:
                    running[pool.start(number)] = _Try(number, time.monotonic())
            for finished in pool.wait(_POLL_SECONDS):
                attempt = running.pop(finished.handle)
                if attempt.number in done or attempt.number in errors:  # the other copy was faster
                    continue
                if finished.error is not None:
                    add_error(attempt.number, finished.error)
                else:
                    done.add(attempt.number)
                    seconds.append(attempt.seconds)
                    yield attempt.number, finished.result
            if policy.timeout is not None and pool.can_stop:
                for handle in [handle for handle, attempt in running.items() if attempt.seconds > policy.timeout]:
                    pool.stop(handle)
                    add_error(running.pop(handle).number, TimeoutError(f"it took longer than {policy.timeout:g} s"))
    finally:
        for handle in running:  # slower copies, or tasks that an interrupt left running
            pool.stop(handle)
    if errors:
        raise _work_failed(tasks, errors, len(done))


def _straggler(
    pool: WorkerPool, running: dict[Any, _Try], done: set[int], seconds: list[float], policy: RetryPolicy
) -> int | None:
    """The number of the slowest running task, if it is slow by the policy and has no second copy yet."""
    if not pool.can_stop or not seconds:
        return None
    limit = max(policy.straggler_seconds, policy.straggler_factor * statistics.median(seconds))
    n_copies = Counter(attempt.number for attempt in running.values())
    slow = [
        (attempt.started, attempt.number)
        for attempt in running.values()
        if attempt.seconds > limit and n_copies[attempt.number] == 1 and attempt.number not in done
    ]
    return min(slow)[1] if slow else None


def _work_failed(tasks: Sequence[Any], errors: dict[int, BaseException], n_done: int) -> WorkFailed:
    """The error that names the failed tasks."""
    listed = "; ".join(f"{tasks[number]}: {first_line(errors[number])}" for number in sorted(errors)[:_MAX_LISTED])
    more = f"; and {len(errors) - _MAX_LISTED} more" if len(errors) > _MAX_LISTED else ""
    error = WorkFailed(
        f"{len(errors)} of {len(tasks)} tasks failed, each after several tries: {listed}{more}. The {n_done} others are done; "
        "with a logit cache their results are stored. Remove the cause and run again."
    )
    error.__cause__ = errors[min(errors)]
    return error
