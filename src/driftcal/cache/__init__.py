"""Logits on disk or on any fsspec URL: one safetensors file per condition, named by what produced it.

::

    store/
      store.json                       what this folder is
      logits/<sha256 of key>.safetensors     one finished condition
      parts/<sha256 of key>/<start>-<stop>.safetensors     rows of one that is still being collected

A file is whole or absent, carries its key and a digest of its rows, and counts as missing when either does not fit. So
a killed writer, a second process or a damaged disk cost time, never a wrong number.
"""

from __future__ import annotations

from driftcal.cache.key import CacheEntry, CacheKey
from driftcal.cache.store import LogitCache

__all__ = ["CacheEntry", "CacheKey", "LogitCache"]
