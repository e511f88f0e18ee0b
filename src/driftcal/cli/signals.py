"""Signals that end a command which runs until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def on_signals(names: Sequence[str], handle: Callable[[], None]) -> Iterator[None]:
    """Inside, these signals call `handle`. One that is ignored, as SIGHUP under nohup, stays ignored."""
    previous = {}
    if threading.current_thread() is threading.main_thread():  # other threads may not install handlers
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
        handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, lambda *_: handle()) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
