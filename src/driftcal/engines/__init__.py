"""Engines: where tasks run, on this machine (`local`) or on a Ray cluster (`ray`). Results are the same to the bit."""

from __future__ import annotations

from driftcal.engines.engine import Engine, RetryPolicy, SharedValue
from driftcal.engines.local import LocalEngine
from driftcal.errors import InputError, UnknownName

#: What ``--engine`` accepts -> description
ENGINES: dict[str, str] = {"local": "this machine", "ray": "a Ray cluster"}

__all__ = ["ENGINES", "Engine", "LocalEngine", "RetryPolicy", "SharedValue", "open_engine"]


def open_engine(
    engine: str | Engine = "local",
    *,
    workers: int | None = None,
    address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    retry_policy: RetryPolicy | None = None,
) -> Engine:
    """An engine by name.

    Parameters
    ----------
    engine : {"local", "ray"} or Engine
        This machine, or a Ray cluster. An engine is returned unchanged.
    workers : int, optional
        Number of tasks at once. The default is one on this machine, and as many as fit on a cluster.
    address : str, optional
        A running Ray cluster: ``auto`` for the one this machine belongs to, ``ray://host:10001`` for another. ``local``
        starts one on this machine, which ``close()`` stops.
    cpus, gpus : float
        CPUs and GPUs of each Ray worker.
    retry_policy : RetryPolicy, optional
        When tasks are tried again.

    Examples
    --------
    >>> open_engine("local").workers
    1
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise UnknownName.of("engine", engine, ENGINES)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1; it is {workers}. Leave it out for the default.")
    if engine == "local":
        if address is not None or gpus:
            raise InputError("address and gpus are for engine 'ray'; the engine is 'local'. Leave them out.")
        return LocalEngine(workers or 1, retry_policy=retry_policy)
    from driftcal.engines.ray import RayEngine

    return RayEngine(workers, address=address, cpus=cpus, gpus=gpus, retry_policy=retry_policy)
