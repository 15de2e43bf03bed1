"""What each result of a run must have been made from before anything is deleted for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dredge.gc.check_limits import places
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import classify as judge
from dredge.runs import ledger
from dredge.runs.chain import PLAN

MARK: Mapping[str, Sequence[str]] = {
    SliceListingOutput.STEP: [PLAN],
    MarkUncommittedOutput.STEP: [SliceListingOutput.STEP],
    ListCommittedOutput.STEP: [SliceListingOutput.STEP, MarkUncommittedOutput.STEP],
    judge.STEP: [SliceListingOutput.STEP, MarkUncommittedOutput.STEP, ListCommittedOutput.STEP],
}
"""Up to the candidates; what the guards look at."""
SWEEP: Mapping[str, Sequence[str]] = {**MARK, places.STEP: list(MARK)}
"""What the sweep deletes for."""
RUN: Mapping[str, Sequence[str]] = {
    **SWEEP,
    ledger.STEP: list(SWEEP),
    "verify": [MarkUncommittedOutput.STEP, judge.STEP, ledger.STEP],
}
"""A complete run, on which the next one may build."""
