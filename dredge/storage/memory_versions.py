"""What a memory store keeps of the past, where a test lets it keep versions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from dredge.storage.undo import ObjectVersion


@dataclass(frozen=True, slots=True)
class Older:
    """An earlier version; no data means a delete marker."""

    version_id: str
    data: bytes | None
    last_modified: datetime


@dataclass(slots=True)
class OlderVersions:
    """Earlier versions of each key, the newest first.

    Attributes:
        by_key: all of them.
        current: ids of current versions that somebody has asked for.
        made: how many there have been.
    """

    by_key: dict[str, list[Older]] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def supersede(self, key: str, data: bytes, last_modified: datetime) -> None:
        """Keep what was current."""
        self._push(key, data, last_modified, self.current.pop(key, None))

    def mark(self, key: str, at: datetime) -> str:
        """Put a delete marker on top; gives its id."""
        return self._push(key, None, at)

    def versions(self, key: str, current: tuple[bytes, datetime] | None) -> list[ObjectVersion]:
        """All of a key, the current one first."""
        found = [] if current is None else [_version(Older(self._current(key), *current), True)]
        older = self.by_key.get(key, [])
        return found + [_version(item, not found and not number) for number, item in enumerate(older)]

    def delete(self, key: str, version_id: str) -> None:
        """Drop a version or marker."""
        self.by_key[key] = [item for item in self.by_key.get(key, []) if item.version_id != version_id]

    def revived(self, key: str) -> Older | None:
        """Take the newest version out, when no marker lies on it: it becomes the current one."""
        older = self.by_key.get(key, [])
        if not older or older[0].data is None:
            return None
        self.current[key] = older[0].version_id
        return older.pop(0)

    def _current(self, key: str) -> str:
        if key not in self.current:
            self.current[key] = self._new_id()
        return self.current[key]

    def _push(self, key: str, data: bytes | None, at: datetime, version_id: str | None = None) -> str:
        version_id = version_id or self._new_id()
        self.by_key.setdefault(key, []).insert(0, Older(version_id, data, at))
        return version_id

    def _new_id(self) -> str:
        self.made += 1
        return f"v{self.made}"


def _version(item: Older, is_latest: bool) -> ObjectVersion:
    tag = None if item.data is None else hashlib.md5(item.data, usedforsecurity=False).hexdigest()
    return ObjectVersion(
        version_id=item.version_id,
        is_latest=is_latest,
        is_marker=item.data is None,
        size=0 if item.data is None else len(item.data),
        etag=tag,
        last_modified=item.last_modified,
    )
