"""Guards of the product, each broken in one line, and the tests that must notice.

reading    what is read              guarding   what may go           sweeping   what deletes, and what runs share
approving  what people say           undo       what can be taken back
trash      the key-value store       icechunk   the collection of Icechunk
"""

from __future__ import annotations

from tests.mutations.breakages import approving, guarding, icechunk, reading, sweeping, trash, undo
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
    *approving.APPROVED,
    *sweeping.SWEEP,
    *sweeping.VERIFY,
    *undo.UNDO,
    *trash.TRASH,
    *icechunk.ICECHUNK,
)
