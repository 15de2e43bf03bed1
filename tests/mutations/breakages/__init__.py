"""Guards of the product, each broken in one line, and the tests that must notice.

reading    what is read              guarding   what may go           sweeping   what deletes, and what runs share
undo       what can be taken back    trash      the key-value store        icechunk   the collection of Icechunk
inventory  runs on an inventory      metadata   the report on metadata     many       many repositories
"""

from __future__ import annotations

from tests.mutations.breakages import (
    guarding,
    icechunk,
    inventory,
    many,
    metadata,
    reading,
    sweeping,
    trash,
    undo,
)
from tests.mutations.breakages.breakage import Breakage

__all__ = ["BREAKAGES", "Breakage"]

BREAKAGES = (
    *reading.AGE_AND_PLACE,
    *reading.STAGED,
    *reading.COMMITTED,
    *guarding.COMPARED,
    *guarding.ASKED,
    *guarding.HOLDS,
    *reading.OPTIMIZED,
    *sweeping.SWEEP,
    *sweeping.VERIFY,
    *inventory.INVENTORY,
    *many.MANY,
    *metadata.METADATA,
    *undo.UNDO,
    *trash.TRASH,
    *icechunk.ICECHUNK,
)
