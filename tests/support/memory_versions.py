"""Earlier versions of a memory store, if a test enables versioning."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from dredge.storage.undo import NULL_VERSION, ObjectVersion


@dataclass(frozen=True, slots=True)
class Older:
    """An earlier version; no data means a delete marker."""

    version_id: str
    data: bytes | None
    last_modified: datetime


@dataclass(slots=True)
class OlderVersions:
    """Earlier versions of each key, the newest first.

    As in S3, a write or deletion while versioning is suspended has the id `NULL_VERSION`, and replaces the version
    with the same id.
    """

    by_key: dict[str, list[Older]] = field(default_factory=dict)  # all of them
    # requested ids of current versions
    current: dict[str, str] = field(default_factory=dict)
    made: int = 0  # how many there have been
    suspended: bool = False  # whether versioning is suspended
    # keys with a current version written while versioning was off or suspended
    nameless: set[str] = field(default_factory=set)

    def supersede(self, key: str, data: bytes, last_modified: datetime) -> None:
        """Keep the earlier version, unless the new one takes its id."""
        version_id = self.current.pop(key, None)
        if key not in self.nameless:
            self._push(key, Older(version_id or self._new_id(), data, last_modified))
        elif not self.suspended:
            self._push(key, Older(NULL_VERSION, data, last_modified))
        self.nameless.discard(key)

    def written(self, key: str) -> None:
        if self.suspended:
            self.delete(key, NULL_VERSION)
            self.nameless.add(key)

    def forget_current(self, key: str, version_id: str) -> bool:
        """Forget the id of a current version; returns whether this was its id."""
        if key in self.nameless:
            same = version_id == NULL_VERSION
            if same:
                self.nameless.discard(key)
            return same
        same = self.current.get(key) == version_id
        if same:
            del self.current[key]
        return same

    def mark(self, key: str, at: datetime) -> str:
        """Put a delete marker on top; returns its id."""
        if self.suspended:
            self.delete(key, NULL_VERSION)
        version_id = NULL_VERSION if self.suspended else self._new_id()
        self._push(key, Older(version_id, None, at))
        return version_id

    def versions(self, key: str, current: tuple[bytes, datetime] | None) -> list[ObjectVersion]:
        found = [] if current is None else [_version(Older(self._current(key), *current), True)]
        older = self.by_key.get(key, [])
        return found + [_version(item, not found and not number) for number, item in enumerate(older)]

    def delete(self, key: str, version_id: str) -> None:
        self.by_key[key] = [item for item in self.by_key.get(key, []) if item.version_id != version_id]

    def revived(self, key: str) -> Older | None:
        """Remove the newest version, if it is not below a marker, to make it the current one."""
        older = self.by_key.get(key, [])
        if not older or older[0].data is None:
            return None
        if older[0].version_id == NULL_VERSION:
            self.nameless.add(key)
        else:
            self.current[key] = older[0].version_id
        return older.pop(0)

    def _current(self, key: str) -> str:
        if key in self.nameless:
            return NULL_VERSION
        if key not in self.current:
            self.current[key] = self._new_id()
        return self.current[key]

    def _push(self, key: str, item: Older) -> None:
        self.by_key.setdefault(key, []).insert(0, item)

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
