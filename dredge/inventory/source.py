"""Which inventory a run reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """An inventory that a run was planned on.

    Attributes:
        uri: of its manifest.json, or of a table or a folder of tables.
        created_at: when the store began to make it, by its manifest; None for a table, which does not tell.
        digest: of the manifest, or of the tables' names, sizes and ETags; what has another one is another inventory.
    """

    uri: str
    created_at: datetime | None
    digest: str

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        created = None if self.created_at is None else self.created_at.isoformat()
        return {"uri": self.uri, "created_at": created, "digest": self.digest}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Inventory:
        """From the object that `to_json` made."""
        created = value["created_at"]
        return cls(
            uri=value["uri"],
            created_at=None if created is None else datetime.fromisoformat(created),
            digest=value["digest"],
        )
