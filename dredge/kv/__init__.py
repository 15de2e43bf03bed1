"""Key-value stores; no other package knows their drivers.

Start with `open_store`; `model.py` says what a store can do.
"""

from __future__ import annotations

from dredge.kv.model import Entry, KeyNotFoundError, PredicateFailedError, Store
from dredge.kv.opening import DRIVERS, open_store

__all__ = ["DRIVERS", "Entry", "KeyNotFoundError", "PredicateFailedError", "Store", "open_store"]
