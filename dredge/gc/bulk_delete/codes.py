"""Why a candidate was kept, as the ledger says it."""

from __future__ import annotations

from dredge.gc.check_limits import why_held
from dredge.storage import CHANGED, STORE_HOLD
from dredge.undo.protecting import NOT_COPIED, NOT_RESTORABLE

ALIVE_AGAIN = "alive_again"

_WHY = {
    ALIVE_AGAIN: "named again since the mark",
    CHANGED: "it was written again, or its metadata was changed, since it was listed",
    STORE_HOLD: "the store refuses: it is on hold there, or a retention policy of the bucket has it",
    "named_by_kept": "Icechunk: a snapshot or manifest names it that nothing reaches, and that stays all the same",
    NOT_RESTORABLE: "its key ends with a slash, so some stores would refuse to put a copy of it back",
    NOT_COPIED: "it could not be copied, so its deletion could not have been taken back",
}


CODES = tuple(_WHY)
"""Every code of the sweep's own, beside those of holds."""


def why_kept(code: str) -> str:
    """Half a sentence for people; the code itself when nobody knows it."""
    return _WHY.get(code) or why_held(code)
