"""What a sweep writes before its first deletion: the hashes of everything that it may delete, beside the lease."""

from __future__ import annotations

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs.steps import StepRecord
from dredge.sets.hashes import read_hashes, unite
from dredge.undo import deletions


def note_deletion(run: Run, record: StepRecord) -> None:
    """Write the record of what a sweep may delete. Without it later runs could not compare it with what is live.

    Args:
        run: this run.
        record: of the sweep.
    """
    parts = record.input(CheckLimitsOutput).may_go(record.input(SubtractOutput))
    hashes = unite([read_hashes(run.folder, part) for part in parts])
    deletions.note_deletion(run, hashes)
