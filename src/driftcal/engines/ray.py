"""Tasks on a Ray cluster. Workers are actors that store models and data; only tasks, statistics and names are sent."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from driftcal.core.messages import first_line
from driftcal.core.parallel import limit_threads
from driftcal.engines.engine import Report, RetryPolicy, SharedValue, TaskFunction
from driftcal.engines.schedule import Finished, WorkerDied, run
from driftcal.errors import EngineError, need

#: Shared values that a worker stores: a map uses a model and a few arrays at a time.
_MAX_SHARED = 4
#: Longest wait for the first worker: a cluster may have to start machines.
_MAX_START_SECONDS = 600.0
#: After this many failed starts in a row, no worker is expected to start.
_MAX_FAILED_STARTS = 20


class RayEngine:
    """Workers on a Ray cluster, one task each at a time.

    The cluster is at `address`, or at the environment's RAY_ADDRESS. Without both, a cluster of this machine is started
    on its loopback interface, without dashboard and usage statistics; `close` stops it. All workers are requested at
    once, for the sake of an autoscaler. Work begins when the first has started. A dead worker is replaced.
    """

    name = "ray"
    remote = True

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        cpus: float = 1,
        gpus: float = 0,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":  # no other machine will join: Ray then listens on 127.0.0.1 only, on any system
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # hidden GPUs stay hidden; silences a notice
        self._ray: Any = need("ray", "ray")
        self.retry_policy = retry_policy or RetryPolicy()
        self._owns_cluster = _connect(self._ray, address, workers, cpus, gpus)
        resources = self._ray.cluster_resources()
        per_worker = {"CPU": cpus, "GPU": gpus}
        n_fitting = int(min(resources.get(kind, 0) // amount for kind, amount in per_worker.items() if amount))
        self.workers = workers or max(1, n_fitting)
        self.actor_class = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(_Worker)
        self.actor_arguments = max(1, int(cpus)), sys.path
        self.request = f"{self.workers} workers of {cpus:g} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
        self.idle: list[Any] = []  # actors
        self.starting: dict[Any, Any] = {}  # reference that is ready when the actor has started -> actor

    def __repr__(self) -> str:
        return f"RayEngine({self.request})"

    def share(self, value: Any) -> SharedValue:
        """Put the value into the object store: each node fetches it once, each worker unpacks it once."""
        return SharedValue(None, self._ray.put(value))

    def map(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        *shared: SharedValue,
        report: Report | None = None,
        holds_gil: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        """Results as tasks finish; see :meth:`driftcal.engines.engine.Engine.map`."""
        if not tasks:
            return
        for number, (result, reports) in run(_ActorPool(self, function, tasks, shared), tasks, self.retry_policy):
            for progress in reports if report else ():
                report(*progress)  # type: ignore[misc]
            yield number, result

    def stop_worker(self, actor: Any) -> None:
        """End a worker and its task."""
        with contextlib.suppress(Exception):  # it may be dead already, or the connection is
            self._ray.kill(actor)

    def stop_workers(self) -> None:
        """End all workers that are not running a task, which frees their cores; the next map starts new ones."""
        for actor in [*self.idle, *self.starting.values()]:
            self.stop_worker(actor)
        self.idle, self.starting = [], {}

    def close(self) -> None:
        """End the workers, and the cluster if this engine started it."""
        if not self._ray.is_initialized():
            return
        self.stop_workers()
        if self._owns_cluster:
            self._ray.shutdown()


class _ActorPool:
    """The actors of an engine during one map."""

    can_stop = True

    def __init__(
        self, engine: RayEngine, function: TaskFunction, tasks: Sequence[Any], shared: Sequence[SharedValue]
    ) -> None:
        self._engine, self._ray, self._function, self._tasks = engine, engine._ray, function, tasks
        # a reference inside a list: Ray would unpack a bare reference again for every task
        self._shared = [(item.key, [item.reference]) for item in shared]
        self._running: dict[Any, Any] = {}  # reference of the result -> actor
        self._size = min(engine.workers, len(tasks))
        self._last_time_with_worker = time.monotonic()
        self._failed_starts = 0

    def has_idle_worker(self) -> bool:
        engine = self._engine
        for _ in range(self._size - len(engine.idle) - len(engine.starting) - len(self._running)):
            actor = engine.actor_class.remote(*engine.actor_arguments)
            engine.starting[actor.__ray_ready__.remote()] = actor
        return bool(engine.idle)

    def start(self, number: int) -> Any:
        actor = self._engine.idle.pop(0)
        reference = actor.run.remote(self._function, self._shared, self._tasks[number])
        self._running[reference] = actor
        return reference

    def wait(self, seconds: float) -> list[Finished]:
        references = [*self._running, *self._engine.starting]
        self._ray.wait(references, num_returns=1, timeout=seconds)
        ended, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in ended:
            if reference in self._engine.starting:
                self._add_worker(reference)
        if self._running or self._engine.idle:
            self._last_time_with_worker = time.monotonic()
        elif time.monotonic() - self._last_time_with_worker > _MAX_START_SECONDS:
            raise EngineError(
                f"{self._engine.request} must start; none did within {_MAX_START_SECONDS:g} s. The cluster offers "
                f"{self._ray.cluster_resources()}. Ask for fewer --cpus or --gpus, or add nodes."
            )
        return [self._finish(reference) for reference in ended if reference in self._running]

    def _add_worker(self, reference: Any) -> None:
        from ray.exceptions import RayError

        actor = self._engine.starting.pop(reference)
        try:
            self._ray.get(reference)
        except RayError as error:  # `has_idle_worker` requests another
            self._engine.stop_worker(actor)
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                reason = str(error).strip().splitlines()[-1]
                raise EngineError(
                    f"{self._engine.request} must start; {self._failed_starts} in a row died as they started: {reason}. "
                    'Every node needs: pip install "driftcal[ray]".'
                ) from error
        else:
            self._engine.idle.append(actor)
            self._failed_starts = 0

    def _finish(self, reference: Any) -> Finished:
        from ray.exceptions import RayError, RayTaskError

        actor = self._running.pop(reference)
        try:
            finished = Finished(reference, self._ray.get(reference))
        except RayTaskError as error:
            finished = Finished(reference, error=error.cause or error)
        except RayError as error:  # the actor, its node or an object that it needed is lost
            self._engine.stop_worker(actor)
            return Finished(reference, error=WorkerDied(f"its worker died: {first_line(error)}"))
        self._engine.idle.append(actor)
        return finished

    def stop(self, handle: Any) -> None:
        if handle in self._running:  # otherwise the task has ended and its worker is idle
            self._engine.stop_worker(self._running.pop(handle))


class _Worker:
    """The code of a worker: a Ray actor."""

    def __init__(self, threads: int, path: list[str]) -> None:
        limit_threads(threads)
        # workers with the same folders can then import the caller's modules
        sys.path += [folder for folder in path if folder not in sys.path and os.path.isdir(folder)]
        self._values: OrderedDict[str, Any] = OrderedDict()

    def run(
        self, function: TaskFunction, shared: Sequence[tuple[str, Sequence[Any]]], task: Any
    ) -> tuple[Any, list[Any]]:
        """The result, and the progress that the task reported."""
        reports: list[Any] = []
        values = [self._value(key, reference) for key, (reference,) in shared]
        return function(*values, task, lambda *progress: reports.append(progress)), reports

    def _value(self, key: str, reference: Any) -> Any:
        if key not in self._values:
            import ray

            while len(self._values) >= _MAX_SHARED:
                self._values.popitem(last=False)
            self._values[key] = ray.get(reference)
        self._values.move_to_end(key)
        return self._values[key]


def _connect(ray: Any, address: str, workers: int | None, cpus: float, gpus: float) -> bool:
    """Join a cluster, or start one on this machine; returns whether this engine must disconnect at the end."""
    if ray.is_initialized():
        return False
    options = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "driftcal"}
    if address != "local":
        try:
            ray.init(address=address, **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EngineError(
                f"there is no Ray cluster at {address!r}: {first_line(error)}. Start one with `ray start --head`, or use "
                "--address local."
            ) from error
        return True
    resources: dict[str, Any] = {}
    if workers is not None:
        resources["num_cpus"] = max(1, round(workers * cpus))
        if gpus:
            resources["num_gpus"] = max(1, round(workers * gpus))
    ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **options, **resources)
    return True
