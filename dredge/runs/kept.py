"""Parts of a run's folder that this process wrote or read: they are written side by side, and not read again.

Nobody writes under the key of a part twice, and a reader compares its digest, so bytes from here are those that the
store has, or will have before anybody else is told of them (`KeptParts.settle`). Tasks that run in the process of their
driver find what the driver keeps, and the driver what they wrote.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from dredge.storage import ObjectWriter

_AT_ONCE = 16
_PART_BYTES_MAX = 1 << 20
_BYTES_MAX = 64 << 20
"""What a run of millions of objects reads and writes must not stay in memory."""


class KeptParts:
    """Bytes by key: those that are being written, and small ones that were used last."""

    def __init__(self) -> None:
        self.users = 0
        self._found: OrderedDict[str, bytes] = OrderedDict()
        self._found_bytes = 0
        self._writes: dict[str, tuple[Future[str | None], bytes]] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dredge-parts")
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Give a part; None when it is not kept."""
        with self._lock:
            if key in self._writes:
                return self._writes[key][1]
            if (data := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return data

    def put(self, key: str, data: bytes) -> None:
        """Keep a part that was read or written, unless it is long."""
        if len(data) > _PART_BYTES_MAX:
            return
        with self._lock:
            self._found_bytes += len(data) - len(self._found.pop(key, b""))
            self._found[key] = data
            while self._found_bytes > _BYTES_MAX:
                self._found_bytes -= len(self._found.popitem(last=False)[1])

    def write(self, writer: ObjectWriter, key: str, data: bytes) -> None:
        """Begin to write a part, and wait for others when too much waits to be written.

        Args:
            writer: of the folder.
            key: in it.
            data: the part.
        """
        with self._lock:
            running = [(name, *item) for name, item in self._writes.items()]
            too_much = sum(len(item) for _, _, item in running) + len(data) - _BYTES_MAX
        for name, future, waiting in running:
            if too_much > 0 or name == key:
                future.exception()  # it has ended; `settle` raises what it is
                too_much -= len(waiting)
        with self._lock:
            self._writes = {
                name: item
                for name, item in self._writes.items()
                if not item[0].done() or item[0].exception() is not None
            }
            self._writes[key] = self._pool.submit(writer.put, key, data), data
        self.put(key, data)

    def settle(self) -> None:
        """Wait until all that is being written is there; raises the first error."""
        with self._lock:
            writes, self._writes = self._writes, {}
        failed = [error for future, _ in writes.values() if (error := future.exception()) is not None]
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Wait until all has ended, however it has."""
        self._pool.shutdown()


_KEPT: dict[str, KeptParts] = {}
_LOCK = threading.Lock()


def kept_parts(uri: str) -> KeptParts | None:
    """What this process keeps of a folder now; None outside of `keeping_parts`.

    Args:
        uri: of the run folder.
    """
    return _KEPT.get(uri)


@contextmanager
def keeping_parts(uri: str) -> Iterator[None]:
    """Keep parts of a folder within the block. At the end of the outermost one all are there that were written, or an
    error is raised.

    Args:
        uri: of the run folder.
    """
    with _LOCK:
        kept = _KEPT.setdefault(uri, KeptParts())
        kept.users += 1
    try:
        yield
        if kept.users == 1:
            kept.settle()
    finally:
        with _LOCK:
            kept.users -= 1
            if not kept.users:
                del _KEPT[uri]
        if not kept.users:
            kept.close()
