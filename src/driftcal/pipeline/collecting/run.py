"""How the work of a call is done: where logits are kept, who computes them, who is told about progress."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from driftcal.cache import LogitCache
from driftcal.engines import Engine

#: Called with what is being computed and how many samples of it were just done.
OnProgress: TypeAlias = Callable[[str, int], None]


@dataclass(frozen=True, eq=False)
class Run:
    """Where logits are kept, which workers compute them, and who is told about progress.

    Parameters
    ----------
    cache
        A folder or URL that keeps the model's logits. A run that was killed goes on where it was. None: memory.
    engine
        Where the work is done (:func:`driftcal.open_engine`). None: in this process. The results are the same to the bit.
    progress
        Called with what is being computed and how many samples of it were just done.
    """

    cache: LogitCache | str | os.PathLike[str] | None = None
    engine: Engine | None = None
    progress: OnProgress | None = None

    @cached_property
    def logit_cache(self) -> LogitCache | None:
        """The cache, opened once: what it has checked it does not check again."""
        return self.cache if self.cache is None or isinstance(self.cache, LogitCache) else LogitCache(self.cache)
