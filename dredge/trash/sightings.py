"""What was seen unused before: since when, with which bytes.

A partition or key is settled when two looks at least a grace period apart saw the same unused bytes. A
look that sees it used, changed or gone forgets it, and the count begins anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dredge.runs.payload import to_json

Name = tuple[bytes, bytes | None]
"""A partition, and a key or None for the whole of it."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Something that was seen unused.

    Args:
        partition: whose.
        key: None: the partition as a whole.
        digest: of its bytes.
        first_seen: the first of an unbroken row of looks that saw exactly this (aware UTC).
    """

    partition: bytes
    key: bytes | None
    digest: str
    first_seen: datetime


@dataclass(frozen=True)
class Sightings:
    """All sightings of one look.

    Attributes:
        sightings: each name once.
        looked: when that look was (aware UTC); None before the first one.
    """

    sightings: tuple[Sighting, ...] = ()
    looked: datetime | None = None

    @cached_property
    def _by_name(self) -> dict[Name, Sighting]:
        return {(found.partition, found.key): found for found in self.sightings}

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: Name) -> bool:
        return name in self._by_name

    def since(self, partition: bytes, key: bytes | None, digest: str, now: datetime) -> Sighting:
        """Tell since when these very bytes are seen unused; from now on, if they were not before."""
        before = self._by_name.get((partition, key))
        if before is not None and before.digest == digest:
            return before
        return Sighting(partition, key, digest, now)

    def of_row(self, partition: bytes, key: bytes) -> list[Name]:
        """Name what is remembered of a row: its partition, or the row itself."""
        return [name for name in ((partition, None), (partition, key)) if name in self._by_name]

    def without(self, names: Container[Name]) -> Sightings:
        """Forget some, so that their count begins anew."""
        return Sightings(tuple(s for name, s in self._by_name.items() if name not in names), self.looked)

    @property
    def digest(self) -> str:
        """SHA-256 over everything in them."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()
