"""Tasks on this machine: one after the other, on threads, or in processes where Python's lock would hold threads up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from driftcal.core.parallel import limit_threads, n_cores
from driftcal.engines.engine import Kept, Rules, Tell, Work
from driftcal.engines.schedule import Finished, run


class LocalEngine:
    """The default. With one worker tasks simply follow each other, each free to use all cores, and errors come as they are.

    More workers are threads (numpy, numba, onnxruntime and torch let go of Python's lock) or, for work that says it holds
    the lock, processes; then each of them is meant to use its share of the cores.

    >>> dict(LocalEngine().map(lambda task, tell: task * task, [1, 2, 3]))
    {0: 1, 1: 4, 2: 9}
    """

    name = "here"

    def __init__(self, workers: int = 1, *, rules: Rules | None = None) -> None:
        self.workers = workers
        self.rules = rules or Rules()
        self._processes: _Processes | None = None  # kept for the next map of the same values

    @property
    def remote(self) -> bool:
        """Threads see what the caller sees."""
        return False

    def keep(self, value: Any) -> Kept:
        """Nothing to do: the value is here already."""
        return Kept(value)

    def map(
        self, function: Work, tasks: Sequence[Any], *given: Kept, tell: Tell | None = None, holds_lock: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Answers as they finish."""
        say = tell or _silent
        if self.workers == 1:
            values = [kept.value for kept in given]
            for number, task in enumerate(tasks):
                yield number, function(*values, task, say)
        elif holds_lock:
            if self._processes is None or self._processes.given != given:
                self.close()
                self._processes = _Processes(self.workers, given)
            self._processes.function, self._processes.tasks = function, tasks
            for number, (answer, told) in run(self._processes, tasks, self.rules):
                for words in told:
                    say(*words)
                yield number, answer
        else:
            with ThreadPoolExecutor(self.workers, thread_name_prefix="driftcal-here") as pool:
                yield from run(_Threads(pool, self.workers, function, tasks, given, say), tasks, self.rules)

    def close(self) -> None:
        """End the processes; threads are gone with their map."""
        if self._processes is not None:
            self._processes.close()
            self._processes = None


def _silent(*_: Any) -> None:
    pass


class _Futures:
    """Workers are numbers; each has at most one future."""

    can_dismiss = False

    def __init__(self, pool: Executor, workers: int) -> None:
        self.pool, self.workers = pool, workers
        self.futures: dict[int, Future[Any]] = {}

    def idle(self) -> list[int]:
        return [worker for worker in range(self.workers) if worker not in self.futures]

    def wait(self, seconds: float) -> list[Finished]:
        wait(self.futures.values(), timeout=seconds, return_when=FIRST_COMPLETED)
        ended = [worker for worker, future in self.futures.items() if future.done()]
        return [self.finished(worker, self.futures.pop(worker)) for worker in ended]

    def finished(self, worker: int, future: Future[Any]) -> Finished:
        error = future.exception()
        return Finished(worker, error=error) if error is not None else Finished(worker, future.result())

    def dismiss(self, worker: int) -> None:
        self.futures.pop(worker).cancel()


class _Threads(_Futures):
    def __init__(
        self, pool: Executor, workers: int, function: Work, tasks: Sequence[Any], given: Sequence[Kept], say: Tell
    ) -> None:
        super().__init__(pool, workers)
        self.values, self.function, self.tasks, self.say = [kept.value for kept in given], function, tasks, say

    def start(self, worker: int, number: int) -> None:
        self.futures[worker] = self.pool.submit(self.function, *self.values, self.tasks[number], self.say)


class _Processes(_Futures):
    """joblib's processes, which scikit-learn brings along: they take any function and notice when one dies."""

    function: Work
    tasks: Sequence[Any]

    def __init__(self, workers: int, given: tuple[Kept, ...]) -> None:
        self.given = given
        self._setup = (max(1, n_cores() // workers), [kept.value for kept in given])
        self._used: dict[int, Executor] = {}  # the pool that each worker's task went to
        super().__init__(self._open(workers), workers)

    def _open(self, workers: int) -> Executor:
        from joblib.externals.loky import ProcessPoolExecutor

        pool: Executor = ProcessPoolExecutor(workers, initializer=_move_in, initargs=self._setup)
        return pool

    def start(self, worker: int, number: int) -> None:
        self._used[worker] = self.pool
        self.futures[worker] = self.pool.submit(_in_process, self.function, self.tasks[number])

    def finished(self, worker: int, future: Future[Any]) -> Finished:
        from concurrent.futures.process import BrokenProcessPool

        end = super().finished(worker, future)
        if not isinstance(end.error, BrokenProcessPool):
            return end
        if self._used[worker] is self.pool:  # one process died and took the pool along; its first task to be seen pays
            self.close()
            self.pool = self._open(self.workers)
        return Finished(worker, error=end.error, lost=True)

    def close(self) -> None:
        self.pool.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]


_values: list[Any] = []


def _move_in(threads: int, values: list[Any]) -> None:
    limit_threads(threads)
    _values[:] = values


def _in_process(function: Work, task: Any) -> tuple[Any, list[Any]]:
    told: list[Any] = []
    return function(*_values, task, lambda *words: told.append(words)), told
