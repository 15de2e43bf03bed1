"""A server's requests by month, for the usage report.

They are kept in the key-value store, shared by all servers of an installation:

    usage    usage/monthly/<installation id>/<YYYYMM>    decimal number

Source: lakeFS pkg/stats/usage_counter.go (behaviour only)
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import datetime

from dredge.errors import ConflictError, NotFoundError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store

INSTALLATION_PARTITION, INSTALLATION_KEY = b"auth", b"installation_metadata/installation_id"
PARTITION = b"usage"


class Usage:
    """Counts requests in memory, and adds them to those of the installation, by month, on demand."""

    def __init__(self, kv: Store, clock: Callable[[], datetime]) -> None:
        self.installation_id = _installation_id(kv)
        self._kv = kv
        self._clock = clock
        self._lock = threading.Lock()
        self._months: Counter[tuple[int, int]] = Counter()

    def count(self) -> None:
        """Count one finished request."""
        now = self._clock()
        with self._lock:
            self._months[now.year, now.month] += 1

    def months(self) -> list[tuple[int, int, int]]:
        """Store the requests since the last call; returns year, month and number of requests of the installation."""
        with self._lock:
            waiting, self._months = self._months, Counter()
        for (year, month), count in waiting.items():
            self._add(self._prefix + f"{year:04}{month:02}".encode(), count)
        found = []
        for entry in self._kv.scan(PARTITION, self._prefix):
            if not entry.key.startswith(self._prefix):
                break
            month_text = entry.key.removeprefix(self._prefix).decode()
            found.append((int(month_text[:4]), int(month_text[4:]), int(entry.value)))
        return found

    @property
    def _prefix(self) -> bytes:
        return f"usage/monthly/{self.installation_id}/".encode()

    def _add(self, key: bytes, count: int) -> None:
        while True:
            try:
                present = self._kv.get(PARTITION, key)
            except KeyNotFoundError:
                present = None
            try:
                self._kv.set_if(PARTITION, key, str(int(present or 0) + count).encode(), present)
            except PredicateFailedError:
                continue  # another server added its own
            return


def _installation_id(kv: Store) -> str:
    try:
        return kv.get(INSTALLATION_PARTITION, INSTALLATION_KEY).decode()
    except NotFoundError:
        made = str(uuid.uuid4())
    try:
        kv.set_if(INSTALLATION_PARTITION, INSTALLATION_KEY, made.encode(), None)
    except ConflictError:
        return kv.get(INSTALLATION_PARTITION, INSTALLATION_KEY).decode()
    return made
