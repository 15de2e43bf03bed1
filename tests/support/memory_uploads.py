"""Multipart uploads to a store in this process's memory."""

import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.keys import is_text
from dredge.storage.model import ObjectWriter
from lakefs_embedded.uploads import Completed, Part, check_part_number, choose_parts, combined_etag


@dataclass(slots=True)
class _Open:
    uri: str
    key: str
    begun: datetime
    parts: dict[int, tuple[Part, bytes]] = field(default_factory=dict)
    is_ending: bool = False


_open: dict[str, _Open] = {}
_lock = threading.Lock()


class MemoryUploads:
    """See `lakefs_embedded.uploads.Uploads`."""

    def __init__(self, writer: ObjectWriter, now: Callable[[], datetime]) -> None:
        self._writer = writer
        self._now = now

    def begin(self, key: str) -> str:
        if not key or not is_text(key):
            raise ConfigError(f"{key!r} cannot be the name of an object; nothing was begun")
        upload_id = secrets.token_hex(16)
        with _lock:
            _open[upload_id] = _Open(self._writer.uri, key, self._now())
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        check_part_number(number)
        self._find(key, upload_id)
        data = b"".join(chunks)
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        part = Part(number, len(data), etag, self._now())
        with _lock:
            self._find_open(key, upload_id).parts[number] = part, data
        return part

    def parts(self, key: str, upload_id: str) -> list[Part]:
        return [part for _, (part, _) in sorted(self._find(key, upload_id).parts.items())]

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        with _lock:
            found = self._find_open(key, upload_id)
            chosen = choose_parts(self.parts(key, upload_id), parts)
            data = b"".join(found.parts[part.number][1] for part in chosen)
            found.is_ending = True
        try:
            # Without the lock: a writer may wait for others here. The upload is listed until its object is there.
            self._writer.put(key, data)
        except BaseException:
            found.is_ending = False
            raise
        with _lock:
            del _open[upload_id]
        return Completed(self._writer.stat(key), combined_etag(part.etag for part in chosen))

    def abort(self, key: str, upload_id: str) -> None:
        with _lock:
            self._find_open(key, upload_id)
            del _open[upload_id]

    def opened(self, upload_id: str) -> tuple[str, datetime] | None:
        """Return the key of an open upload, and the time it was begun."""
        found = _open.get(upload_id)
        return None if found is None else (found.key, found.begun)

    def _find_open(self, key: str, upload_id: str) -> _Open:
        found = self._find(key, upload_id)
        if found.is_ending:
            raise NotFoundError(f"the upload {upload_id!r} of {key!r} is being completed by somebody else")
        return found

    def _find(self, key: str, upload_id: str) -> _Open:
        found = _open.get(upload_id)
        if found is None or (found.uri, found.key) != (self._writer.uri, key):
            raise NotFoundError(f"no upload {upload_id!r} of {key!r} in {self._writer.uri}")
        return found
