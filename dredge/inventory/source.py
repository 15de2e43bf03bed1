"""Which inventory a run reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
