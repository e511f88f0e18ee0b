"""How a call runs: where logits are kept, which workers compute them, and where progress is reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from driftcal.cache import LogitCache
from driftcal.core.progress import is_interactive
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
        True or False: a progress bar, or none. True in a script without a terminal: a line every 15 seconds. None: a bar on
        a terminal and in notebooks. A function is called with what is being computed and how many samples of it were just
        done.
    """

    cache: LogitCache | str | os.PathLike[str] | None = None
    engine: Engine | None = None
    progress: OnProgress | bool | None = None

    @property
    def on_progress(self) -> OnProgress | None:
        """The function that is called with the progress, if there is one."""
        return self.progress if callable(self.progress) else None

    @property
    def wants_bar(self) -> bool:
        """Whether to show a progress bar."""
        return is_interactive() if self.progress is None else self.progress is True

    @cached_property
    def logit_cache(self) -> LogitCache | None:
        """The cache, opened once, so that its entries are checked once."""
        return self.cache if self.cache is None or isinstance(self.cache, LogitCache) else LogitCache(self.cache)
