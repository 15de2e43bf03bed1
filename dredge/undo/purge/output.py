"""What a purge leaves: what became of each copy and version that a run's deletion had left."""

from __future__ import annotations

from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo

PURGED, WOULD_GO, FAILED, UNSENT = "purged", "would_go", "failed", "not_sent"
PINNED, LIVE, YOUNG, CURRENT, OTHER = "pinned", "live", "young", "current", "other"
OUTCOMES = {
    PURGED: "are gone for good",
    WOULD_GO: "would go",
    PINNED: "stay: they were brought back, and are pinned",
    LIVE: "stay: something live names them, or may",
    YOUNG: "stay: they are not old enough",
    CURRENT: "stay: what the run deleted is the current version again",
    OTHER: "stay: they are not what the run listed",
    FAILED: "could not be deleted",
    UNSENT: "were left to a later purge",
}
"""What became of copies and versions, in words that follow a number."""


class PurgeOutput(StepOutput):
    """What became of each."""

    STEP = "purge"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of run, address, size, way, version id, outcome and message."""
        return self.parts("")
