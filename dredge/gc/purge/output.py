"""What the purge of a collection's run reads and leaves."""

from __future__ import annotations

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.undo.leftovers import PurgeOutput as AnyPurgeOutput


class PurgeOutput(AnyPurgeOutput):
    """What became of each copy and old version; the mark of the same run shows that none of them is live."""

    INPUTS = (MarkUncommittedOutput, ListCommittedOutput, CheckLimitsOutput)
