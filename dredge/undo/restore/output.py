"""What a restore leaves: what became of each object that was asked for."""

from __future__ import annotations

from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo

RESTORED, THERE, TAKEN, GONE, FAILED, UNSENT = "restored", "there", "taken", "gone", "failed", "not_sent"
REFUSED = "refused"
OUTCOMES = {
    RESTORED: "came back",
    THERE: "are there already, as they were",
    TAKEN: "have another object under their key, which was left alone",
    GONE: "have neither a copy nor a version that could be brought back",
    FAILED: "could not be brought back",
    REFUSED: "are refused by the store, and would be again",
    UNSENT: "were left to a later try",
}
"""What became of objects, in words that follow a number."""


class RestoreOutput(StepOutput):
    """What became of each object."""

    STEP = "restore"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of address, size, reason, outcome, way and message, one for each object."""
        return self.parts("")
