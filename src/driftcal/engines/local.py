"""Tasks on this machine: one after the other, on threads, or in processes where Python's lock would block threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from driftcal.core.messages import first_line
from driftcal.core.parallel import limit_threads, n_cores
from driftcal.engines.engine import Report, RetryPolicy, SharedValue, TaskFunction
from driftcal.engines.schedule import Finished, WorkerDied, run


class LocalEngine:
    """The default engine. With one worker, tasks run one after the other, each on all cores, and errors are unchanged.

    More workers are threads, because numpy, numba, onnxruntime and torch release Python's lock. A function that holds
    the lock runs in processes, each on its share of the cores.

    >>> dict(LocalEngine().map(lambda task, report: task * task, [1, 2, 3]))
    {0: 1, 1: 4, 2: 9}
    """

    name = "local"
    remote = False

    def __init__(self, workers: int = 1, *, retry_policy: RetryPolicy | None = None) -> None:
        self.workers = workers
        self.retry_policy = retry_policy or RetryPolicy()
        self._processes: _Processes | None = None  # reused by the next map with the same shared values

    def __repr__(self) -> str:
        return f"LocalEngine(workers={self.workers})"

    def share(self, value: Any) -> SharedValue:
        """The value itself, which is already in this process."""
        return SharedValue(value)

    def map(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        *shared: SharedValue,
        report: Report | None = None,
        holds_gil: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        """Results as tasks finish; see :meth:`driftcal.engines.engine.Engine.map`."""
        report = report or _ignore
        values = [item.value for item in shared]
        if self.workers == 1:
            for number, task in enumerate(tasks):
                yield number, function(*values, task, report)
        elif holds_gil:
            if self._processes is None or self._processes.shared != shared:
                self.close()
                self._processes = _Processes(self.workers, shared)
            processes = self._processes
            pool = _FuturePool(self.workers, lambda number: processes.submit(function, tasks[number]))
            for number, (result, reports) in run(pool, tasks, self.retry_policy):
                for progress in reports:
                    report(*progress)
                yield number, result
        else:
            with ThreadPoolExecutor(self.workers, thread_name_prefix="driftcal-task") as threads:
                pool = _FuturePool(
                    self.workers, lambda number: threads.submit(function, *values, tasks[number], report)
                )
                yield from run(pool, tasks, self.retry_policy)

    def close(self) -> None:
        """End the processes; threads end with their map."""
        if self._processes is not None:
            self._processes.close()
            self._processes = None


def _ignore(*_: Any) -> None:
    pass


class _FuturePool:
    """As many futures at a time as there are workers."""

    can_stop = False

    def __init__(self, workers: int, submit: Callable[[int], Future[Any]]) -> None:
        self._workers, self._submit = workers, submit
        self._futures: set[Future[Any]] = set()

    def has_idle_worker(self) -> bool:
        return len(self._futures) < self._workers

    def start(self, number: int) -> Future[Any]:
        future = self._submit(number)
        self._futures.add(future)
        return future

    def wait(self, seconds: float) -> list[Finished]:
        ended, self._futures = wait(self._futures, timeout=seconds, return_when=FIRST_COMPLETED)
        return [self._finished(future) for future in ended]

    def _finished(self, future: Future[Any]) -> Finished:
        error = future.exception()
        if isinstance(error, BrokenExecutor):  # one process died, and all tasks of the pool were lost with it
            error = WorkerDied(f"its process died: {first_line(error)}")
        return Finished(future, error=error) if error is not None else Finished(future, future.result())

    def stop(self, handle: Future[Any]) -> None:
        self._futures.discard(handle)
        handle.cancel()


class _Processes:
    """Processes of joblib's loky, which scikit-learn installs: it runs any function and detects a dead process."""

    def __init__(self, workers: int, shared: tuple[SharedValue, ...]) -> None:
        self.shared = shared
        self._workers = workers
        self._executor = self._open()

    def _open(self) -> Executor:
        from joblib.externals.loky import ProcessPoolExecutor

        threads, values = max(1, n_cores() // self._workers), [item.value for item in self.shared]
        executor: Executor = ProcessPoolExecutor(self._workers, initializer=_start_process, initargs=(threads, values))
        return executor

    def submit(self, function: TaskFunction, task: Any) -> Future[Any]:
        """Run a task in a process; if a process has died, start new ones first."""
        try:
            return self._executor.submit(_run_in_process, function, task)
        except BrokenExecutor:
            self.close()
            self._executor = self._open()
            return self._executor.submit(_run_in_process, function, task)

    def close(self) -> None:
        """End the processes."""
        self._executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]


#: The shared values of this process, if it is a worker.
_shared_values: list[Any] = []


def _start_process(threads: int, values: list[Any]) -> None:
    limit_threads(threads)
    _shared_values[:] = values


def _run_in_process(function: TaskFunction, task: Any) -> tuple[Any, list[Any]]:
    """The result, and the progress that was reported."""
    reports: list[Any] = []
    return function(*_shared_values, task, lambda *progress: reports.append(progress)), reports
