"""Where work runs: on this machine (`here`), or on a Ray cluster (`ray`). One protocol, the same answers to the bit."""

from __future__ import annotations

from driftcal.engines.engine import Engine, Kept, Rules
from driftcal.engines.local import LocalEngine
from driftcal.errors import InputError, UnknownName

#: What ``--engine`` accepts, and what it is.
ENGINES: dict[str, str] = {"here": "this machine", "ray": "a Ray cluster"}

__all__ = ["ENGINES", "Engine", "Kept", "LocalEngine", "Rules", "open_engine"]


def open_engine(
    engine: str | Engine = "here",
    *,
    workers: int | None = None,
    address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    rules: Rules | None = None,
) -> Engine:
    """An engine by name. `workers` None means one here, and as many as fit on a cluster.

    `address` is a running Ray cluster (``auto`` for the one this machine belongs to, ``ray://host:10001`` for one far
    away), or ``local`` for one that is started on this machine and stopped by ``close()``. Each Ray worker asks for
    `cpus` and `gpus`.

    >>> open_engine("here").workers
    1
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise UnknownName.of("engine", engine, ENGINES)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1; it is {workers}. Leave it out to use what there is.")
    if engine == "here":
        if address is not None or gpus:
            raise InputError("address and gpus are for engine 'ray'; the engine is 'here'. Leave them out.")
        return LocalEngine(workers or 1, rules=rules)
    from driftcal.engines.ray import RayEngine

    return RayEngine(workers, address=address, cpus=cpus, gpus=gpus, rules=rules)
