"""Names of new objects: `data/<slice>/<name>`.

A slice is a descending xid, so newer slices sort first; a name is an ascending one. A slice is closed after a
number of names or a time, and a path provider has one open slice at a time. So listings can go slice by slice, and an
old slice gets no new names.

Source: design "Uncommitted garbage collector", objects path conventions; lakeFS pkg/upload/path_provider.go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from dredge.xid import new_descending_xid, new_xid

DATA_PREFIX = "data/"


class PathProvider:
    """Makes names of new objects, at most `names_max` in a slice; safe for use from many threads."""

    def __init__(self, clock: Callable[[], datetime], names_max: int, age_max: timedelta) -> None:
        self._clock = clock
        self._names_max = names_max
        self._age_max = age_max
        self._lock = threading.Lock()
        self._slice = ""
        self._began: datetime | None = None
        self._names = 0

    def new_address(self) -> str:
        """Make a unique address, relative to the storage namespace."""
        now = self._clock()
        with self._lock:
            if self._began is None or self._names >= self._names_max or now - self._began >= self._age_max:
                self._slice, self._began, self._names = new_descending_xid(now), now, 0
            self._names += 1
            return f"{DATA_PREFIX}{self._slice}/{new_xid(now)}"
