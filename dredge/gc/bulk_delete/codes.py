"""Why a candidate was kept, as the ledger says it."""

from __future__ import annotations

from dredge.gc.check_limits import why_held

ALIVE_AGAIN = "alive_again"


def why_kept(code: str) -> str:
    """Half a sentence for people; the code itself when nobody knows it."""
    return "named again since the mark" if code == ALIVE_AGAIN else why_held(code)
