"""Tasks on a Ray cluster: workers are actors that keep models and data; only tasks, statistics and names travel."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from driftcal.core.parallel import limit_threads
from driftcal.engines.engine import Kept, Rules, Tell, Work
from driftcal.engines.schedule import Finished, first_line, run
from driftcal.errors import EngineError, need

#: A map uses a job and a few arrays at a time; older ones make room.
_KEPT = 4
#: A cluster may have to start machines first.
_START_SECONDS = 600.0


class RayEngine:
    """Workers on a Ray cluster, one task each at a time.

    Without an `address`, the environment's RAY_ADDRESS is used, or a cluster of this machine is started on its loopback
    interface, without dashboard and usage statistics, and stopped by `close`. Actors are asked for all at once, so that an
    autoscaler sees the whole demand; work begins with the first that is ready, and a dead one is replaced.
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
        rules: Rules | None = None,
    ) -> None:
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":  # despite its name: says that nobody will join, so that Ray listens on 127.0.0.1 only
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # hidden GPUs stay hidden; silences a notice
        self._ray: Any = need("ray", "ray")
        self.rules = rules or Rules()
        self._owns = _connect(self._ray, address, workers, cpus, gpus)
        there = self._ray.cluster_resources()
        fitting = int(min(there.get(kind, 0) // each for kind, each in (("CPU", cpus), ("GPU", gpus)) if each))
        self.workers = workers or max(1, fitting)
        self._actor = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_concurrency=1)(_Worker)
        self._threads = max(1, int(cpus))
        self._wish = f"{self.workers} workers of {cpus:g} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
        self._idle: list[Any] = []
        self._coming: dict[Any, Any] = {}  # the ref of a new actor's first word -> the actor

    def keep(self, value: Any) -> Kept:
        """Into the object store: every node fetches it once, every worker opens it once."""
        return Kept(None, self._ray.put(value))

    def map(
        self, function: Work, tasks: Sequence[Any], *given: Kept, tell: Tell | None = None, holds_lock: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Answers as they finish."""
        if not tasks:
            return
        crew = _Actors(self, function, tasks, given, min(self.workers, len(tasks)))
        for number, (answer, told) in run(crew, tasks, self.rules):
            for words in told if tell else ():
                tell(*words)  # type: ignore[misc]
            yield number, answer

    def close(self) -> None:
        """Let the workers go; a cluster that was started here stops."""
        if not self._ray.is_initialized():
            return
        for actor in [*self._idle, *self._coming.values()]:
            self._end(actor)
        self._idle, self._coming = [], {}
        if self._owns:
            self._ray.shutdown()

    def _hire(self) -> None:
        actor = self._actor.remote(self._threads, sys.path)
        self._coming[actor.ready.remote()] = actor

    def _end(self, actor: Any) -> None:
        with contextlib.suppress(Exception):  # it may be dead already, or the connection is
            self._ray.kill(actor)


class _Actors:
    """The scheduler's view of the actors."""

    can_dismiss = True

    def __init__(
        self, engine: RayEngine, function: Work, tasks: Sequence[Any], given: Sequence[Kept], wanted: int
    ) -> None:
        self.engine, self.ray, self.function, self.tasks = engine, engine._ray, function, tasks
        self.given = [(kept.token, [kept.place]) for kept in given]  # in a list, or Ray would unpack it for every task
        self.running: dict[Any, Any] = {}  # ref -> actor
        self.wanted = wanted
        self.since = time.monotonic()

    def idle(self) -> list[Any]:
        engine = self.engine
        have = len(engine._idle) + len(engine._coming) + len(self.running)
        for _ in range(self.wanted - have):
            engine._hire()
        return list(engine._idle)

    def start(self, worker: Any, number: int) -> None:
        self.engine._idle.remove(worker)
        self.running[worker.run.remote(self.function, self.given, self.tasks[number])] = worker

    def wait(self, seconds: float) -> list[Finished]:
        engine = self.engine
        refs = [*self.running, *engine._coming]
        ready, _ = self.ray.wait(refs, num_returns=1, timeout=seconds)
        if len(refs) > 1:  # whatever else is there
            ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
        ended = []
        for ref in ready:
            if ref in engine._coming:
                self._arrive(engine._coming.pop(ref), ref)
            else:
                ended.append(self._finish(self.running.pop(ref), ref))
        if self.running or engine._idle:
            self.since = time.monotonic()
        elif time.monotonic() - self.since > _START_SECONDS:
            raise EngineError(
                f"no worker became ready within {_START_SECONDS:g} s; asked for {engine._wish}, the cluster offers "
                f"{self.ray.cluster_resources()}. Ask for fewer --cpus or --gpus, or add nodes."
            )
        return ended

    def _arrive(self, actor: Any, ref: Any) -> None:
        from ray.exceptions import RayError

        try:
            self.ray.get(ref)
            self.engine._idle.append(actor)
        except RayError:  # it died before it was ready; `idle` asks for another
            self.engine._end(actor)
            time.sleep(0.1)

    def _finish(self, actor: Any, ref: Any) -> Finished:
        from ray.exceptions import RayError, RayTaskError

        try:
            answer = self.ray.get(ref)
        except RayTaskError as error:
            self.engine._idle.append(actor)
            return Finished(actor, error=error.cause or error)
        except RayError as error:  # the actor, its node or an object it needed is gone
            self.engine._end(actor)
            return Finished(actor, error=EngineError(f"its worker died: {first_line(error)}"), lost=True)
        self.engine._idle.append(actor)
        return Finished(actor, answer)

    def dismiss(self, worker: Any) -> None:
        self.running = {ref: actor for ref, actor in self.running.items() if actor is not worker}
        self.engine._end(worker)


class _Worker:
    """The actor."""

    def __init__(self, threads: int, path: list[str]) -> None:
        limit_threads(threads)
        # on the same machine, or with the same folders on others, what the caller can import, workers can
        sys.path += [folder for folder in path if folder not in sys.path and os.path.isdir(folder)]
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def ready(self) -> int:
        """Its process, as a sign of life."""
        return os.getpid()

    def run(self, function: Work, given: Sequence[tuple[str, Sequence[Any]]], task: Any) -> tuple[Any, list[Any]]:
        """The answer, and what the task told on its way."""
        told: list[Any] = []
        values = [self._value(token, place) for token, place in given]
        return function(*values, task, lambda *words: told.append(words)), told

    def _value(self, token: str, place: Sequence[Any]) -> Any:
        if token not in self._kept:
            import ray

            while len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            self._kept[token] = ray.get(place[0])
        self._kept.move_to_end(token)
        return self._kept[token]


def _connect(ray: Any, address: str, workers: int | None, cpus: float, gpus: float) -> bool:
    """Join a cluster, or start one on this machine; whether it is ours to stop."""
    if ray.is_initialized():
        return False
    common = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "driftcal"}
    if address != "local":
        try:
            ray.init(address=address, **common)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EngineError(
                f"there is no Ray cluster at {address!r}: {first_line(error)}. Start one with `ray start --head`, or use "
                "--address local."
            ) from error
        return True
    local: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    if workers is not None:
        local["num_cpus"] = max(1, round(workers * cpus))
        if gpus:
            local["num_gpus"] = max(1, round(workers * gpus))
    ray.init(address="local", **common, **local)
    return True
