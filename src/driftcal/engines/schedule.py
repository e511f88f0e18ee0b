"""Who does which task next: retries, dead workers, stragglers. The same for threads, processes and a cluster."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from driftcal.engines.engine import Rules
from driftcal.errors import InputError, WorkFailed

#: So many failures, and no success yet, mean that something is wrong with all tasks.
_HOPELESS = 12
#: Failures that a message spells out.
_SHOWN = 5


@dataclass(frozen=True)
class Finished:
    """What became of one try: an answer, or an error; `lost` where the worker went with it."""

    worker: Any
    answer: Any = None
    error: BaseException | None = None
    lost: bool = False


class WorkerPool(Protocol):
    """Workers that do one task each at a time."""

    #: Whether `dismiss` can stop a task that is running.
    can_dismiss: bool

    def idle(self) -> list[Any]:
        """Workers that are ready and have nothing to do."""

    def start(self, worker: Any, number: int) -> None:
        """Give a worker the task of that number."""

    def wait(self, seconds: float) -> list[Finished]:
        """Tries that have ended, or [] after about so many seconds."""

    def dismiss(self, worker: Any) -> None:
        """End a worker and whatever it is doing; a new one takes its place."""


def run(crew: WorkerPool, tasks: Sequence[Any], rules: Rules) -> Iterator[tuple[int, Any]]:
    """(number, answer) of every task, once each; raises `WorkFailed` at the end where some could not be done."""
    waiting = deque(range(len(tasks)))
    running: dict[Any, tuple[int, float]] = {}
    raised, died = Counter[int](), Counter[int]()
    failed: dict[int, BaseException] = {}
    done: set[int] = set()
    seconds: list[float] = []
    try:
        while len(done) + len(failed) < len(tasks):
            for worker in crew.idle():
                number = waiting.popleft() if waiting else _straggler(crew, running, done, seconds, rules)
                if number is None:
                    break
                if number in done:
                    continue
                crew.start(worker, number)
                running[worker] = number, time.monotonic()
            for end in crew.wait(0.25):
                number, begun = running.pop(end.worker)
                if number in done or number in failed:  # its twin was faster
                    continue
                if end.error is None:
                    done.add(number)
                    seconds.append(time.monotonic() - begun)
                    yield number, end.answer
                    continue
                (died if end.lost else raised)[number] += 1
                tries_left = raised[number] < rules.tries and died[number] < rules.deaths
                if tries_left and not isinstance(end.error, InputError):
                    waiting.append(number)
                elif number not in {other for other, _ in running.values()}:  # a twin may still make it
                    failed[number] = end.error
                    if len(failed) >= _HOPELESS and not done:
                        break
            if len(failed) >= _HOPELESS and not done:
                break
            if rules.timeout is not None and crew.can_dismiss:
                _end_overdue(crew, running, waiting, died, failed, rules)
    finally:
        for worker in running:  # twins that lost, or whatever an interrupt left
            crew.dismiss(worker)
    if failed:
        raise failure(tasks, failed, len(done))


def _straggler(
    crew: WorkerPool, running: dict[Any, tuple[int, float]], done: set[int], seconds: list[float], rules: Rules
) -> int | None:
    """The task that has been running suspiciously long and has no twin yet."""
    if not crew.can_dismiss or not seconds:
        return None
    limit = max(rules.patience, rules.slow * statistics.median(seconds))
    copies = Counter(number for number, _ in running.values())
    now = time.monotonic()
    late = [(begun, number) for number, begun in running.values() if now - begun > limit and copies[number] == 1]
    return min(late)[1] if late else None


def _end_overdue(
    crew: WorkerPool,
    running: dict[Any, tuple[int, float]],
    waiting: deque[int],
    died: Counter[int],
    failed: dict[int, BaseException],
    rules: Rules,
) -> None:
    now = time.monotonic()
    assert rules.timeout is not None
    for worker, (number, begun) in list(running.items()):
        if now - begun <= rules.timeout:
            continue
        crew.dismiss(worker)
        del running[worker]
        died[number] += 1
        if died[number] < rules.deaths:
            waiting.append(number)
        else:
            failed[number] = TimeoutError(f"it took longer than {rules.timeout:g} s, {rules.deaths} times")


def first_line(error: BaseException) -> str:
    """What an error says, without the pages that some append."""
    lines = str(error).strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__


def failure(tasks: Sequence[Any], failed: dict[int, BaseException], done: int) -> WorkFailed:
    """The error that names what could not be done."""
    shown = "; ".join(f"{tasks[number]}: {first_line(failed[number])}" for number in sorted(failed)[:_SHOWN])
    more = f"; and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    error = WorkFailed(
        f"{len(failed)} of {len(tasks)} tasks failed, each after several tries: {shown}{more}. The {done} others were done "
        "and are kept where there is a store: repair the cause and run again."
    )
    error.__cause__ = failed[min(failed)]
    return error
