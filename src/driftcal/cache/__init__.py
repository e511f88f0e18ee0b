"""Stored logits, on disk or at any fsspec URL: one safetensors file per condition, named by the digest of its key.

::

    cache/
      store.json                                           format and version
      logits/<sha256 of key>.safetensors                   one finished condition
      parts/<sha256 of key>/<start>-<stop>.safetensors     samples of one that is still being computed

A file is complete or absent. It holds its key and a digest of its arrays, and counts as missing if one of them does not
fit. Killed processes, concurrent processes and damaged disks therefore cost time, but never give an incorrect number.
"""

from __future__ import annotations

from driftcal.cache.entry import CacheEntry
from driftcal.cache.key import CacheKey
from driftcal.cache.logit_cache import LogitCache

__all__ = ["CacheEntry", "CacheKey", "LogitCache"]
