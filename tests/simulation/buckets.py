"""The objects of one bucket, with a clock, a kind of ETag and other habits; below all doors."""

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Literal

from dredge.storage.undo import ObjectVersion, Versioning
from tests.simulation.clock import Clock
from tests.simulation.noise import stable_hash

type ETags = Literal["md5", "opaque"]
"""A bucket's ETags: from the content, or random (encrypted by its key)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object, an earlier version, or a delete marker."""

    data: bytes
    modified: datetime
    etag: str
    version: str = ""
    is_marker: bool = False


@dataclass
class Bucket:
    name: str
    clock: Clock  # gives times of writes
    etags: ETags = "md5"  # how they are made
    # versioning: deletions and replacements keep an older version, and a deletion leaves a marker
    versioned: bool = False
    page_keys: int = 1000  # keys a page of a listing has
    # called with a key right before its object is removed; may raise
    on_delete: Callable[[str], None] = lambda _key: None
    # called with a key and a version or marker right before its removal; may raise
    on_purge: Callable[[str, Stored], None] = lambda _key, _version: None
    # called with key and content of each write
    on_put: Callable[[str, bytes], None] = lambda _key, _data: None
    # called with a key right before its object is replaced; may raise
    on_replace: Callable[[str], None] = lambda _key: None
    # calls that are denied for an object, by its key
    locked: dict[str, frozenset[str]] = field(default_factory=dict)
    on_hold: set[str] = field(default_factory=set)  # locked objects, by their keys
    objects: dict[str, Stored] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    older: dict[str, list[Stored]] = field(default_factory=dict)
    writes: int = 0
    lock: AbstractContextManager[None] = field(
        default_factory=nullcontext
    )  # an operation is never interrupted

    def write(
        self, key: str, data: bytes, modified: datetime | None = None, etag: str | None = None
    ) -> Stored:
        self.writes += 1
        if etag is None:
            etag = (
                hashlib.md5(data, usedforsecurity=False).hexdigest()
                if self.etags == "md5"
                else f"{stable_hash(self.name, key, self.writes):032x}"
            )
        if key in self.objects:
            self.on_replace(key)
        self._supersede(key)
        if key not in self.objects:
            insort(self.keys, key)
        version = f"v{self.writes}" if self.versioned else ""
        stored = self.objects[key] = Stored(bytes(data), modified or self.clock(), etag, version)
        self.on_put(key, stored.data)
        return stored

    def remove(self, key: str) -> str | None:
        """Remove an object, if it exists; returns the id of the marker."""
        if key in self.objects:
            self.on_delete(key)
            self._supersede(key)
            self.lose(key)
        if not self.versioned:
            return None
        self.writes += 1
        marker = Stored(b"", self.clock(), "", f"v{self.writes}", is_marker=True)
        self.older.setdefault(key, []).append(marker)
        return marker.version

    def versions(self, key: str) -> list[Stored]:
        current = [self.objects[key]] if key in self.objects else []
        return current + self.older.get(key, [])[::-1]

    def versioning(self) -> Versioning:
        return "enabled" if self.versioned else "off"

    def all_versions(self, key: str) -> list[ObjectVersion]:
        return [
            ObjectVersion(
                version_id=each.version or "null",
                is_latest=number == 0,
                is_marker=each.is_marker,
                size=len(each.data),
                etag=None if each.is_marker else each.etag,
                last_modified=each.modified,
            )
            for number, each in enumerate(self.versions(key))
        ]

    def keys_from(self, prefix: str, after: str = "") -> Iterator[str]:
        at = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after) if after else 0)
        return takewhile(lambda key: key.startswith(prefix), islice(self.keys, at, None))

    def purge(self, key: str, version: str) -> None:
        """Remove one version or marker permanently; the newest remaining one becomes current."""
        for found in self.versions(key):
            if found.version == version:
                self.on_purge(key, found)
                if self.objects.get(key) is found:
                    self.lose(key)
                else:
                    self.older[key].remove(found)
        left = self.older.get(key, [])
        if key not in self.objects and left and not left[-1].is_marker:
            insort(self.keys, key)
            self.objects[key] = left.pop()

    def _supersede(self, key: str) -> None:
        if self.versioned and key in self.objects:
            self.older.setdefault(key, []).append(self.objects[key])

    def lose(self, key: str) -> None:
        """Remove an object without any request."""
        del self.objects[key]
        del self.keys[bisect_left(self.keys, key)]

    def flip(self, key: str) -> None:
        stored = self.objects[key]
        middle = len(stored.data) // 2
        data = stored.data[:middle] + bytes([stored.data[middle] ^ 4]) + stored.data[middle + 1 :]
        self.objects[key] = replace(stored, data=data)

    def restore(self, key: str, stored: Stored) -> None:
        if key not in self.objects:
            insort(self.keys, key)
        self.objects[key] = stored
