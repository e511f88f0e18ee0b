"""How a call runs: where logits are kept, which workers compute them, and where progress is reported."""

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
    """Where logits are kept, which workers compute them, and where progress is reported.

    Parameters
    ----------
    cache
        A folder or URL that keeps the model's logits. A run that was killed continues from there. None: memory.
    engine
        Where the work is done (:func:`driftcal.open_engine`). None: in this process. All engines give the same bits.
    progress
        Called with what is being computed and how many samples of it were just done.
    """

    cache: LogitCache | str | os.PathLike[str] | None = None
    engine: Engine | None = None
    progress: OnProgress | None = None

    @cached_property
    def logit_cache(self) -> LogitCache | None:
        """The cache, opened once, so that its entries are checked once."""
        return self.cache if self.cache is None or isinstance(self.cache, LogitCache) else LogitCache(self.cache)
