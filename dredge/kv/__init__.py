"""Key-value stores; database drivers are imported nowhere else. Start with `open_store` and `model.Store`."""

from __future__ import annotations

from dredge.kv.model import Entry, KeyNotFoundError, PredicateFailedError, Store
from dredge.kv.opening import open_store

__all__ = ["Entry", "KeyNotFoundError", "PredicateFailedError", "Store", "open_store"]
