"""Key-value stores: `open_store` and `model.Store`. Only this package imports database drivers."""

from __future__ import annotations

from dredge.kv.model import Entry, KeyNotFoundError, PredicateFailedError, Store
from dredge.kv.opening import open_store

__all__ = ["Entry", "KeyNotFoundError", "PredicateFailedError", "Store", "open_store"]
