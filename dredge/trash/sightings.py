"""What was seen unused before: since when, with which bytes.

A partition or key is settled when two looks at least a grace period apart saw the same unused bytes. A
look that sees it used, changed or gone forgets it, and the count begins anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.errors import FormatError

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


class Sightings:
    """All sightings of one look.

    Args:
        sightings: each name once.
        looked: when that look was (aware UTC); None before the first one.
    """

    def __init__(self, sightings: Iterable[Sighting] = (), looked: datetime | None = None) -> None:
        self.looked = looked
        self._by_name: dict[Name, Sighting] = {(s.partition, s.key): s for s in sightings}

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
        return Sightings([s for name, s in self._by_name.items() if name not in names], self.looked)

    @property
    def digest(self) -> str:
        """SHA-256 over everything in them."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "looked": self.looked.isoformat() if self.looked else None,
            "sightings": [
                {
                    "partition": _encode(s.partition),
                    "key": None if s.key is None else _encode(s.key),
                    "digest": s.digest,
                    "first_seen": s.first_seen.isoformat(),
                }
                for s in self._by_name.values()
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Sightings:
        """From the object that `to_json` made.

        Raises:
            FormatError: it did not.
        """
        try:
            looked = value["looked"]
            return cls(
                [
                    Sighting(
                        base64.b64decode(item["partition"], validate=True),
                        None if item["key"] is None else base64.b64decode(item["key"], validate=True),
                        item["digest"],
                        datetime.fromisoformat(item["first_seen"]),
                    )
                    for item in value["sightings"]
                ],
                datetime.fromisoformat(looked) if looked else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"the remembered sightings cannot be read: {error!r}") from error


def _encode(name: bytes) -> str:
    return base64.b64encode(name).decode()
