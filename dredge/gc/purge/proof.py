"""What a purge must leave alone: everything that the mark of its run shows as live, or does not show as dead.

    live in the mark · live since the mark (a re-check) · of the size of an entry of a branch head and not proved dead

The same proof as for a candidate: a copy is the last one of its object, so it goes only if the object could go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dredge.gc.bulk_delete import Subtracted, recheck
from dredge.gc.check_limits import ask_about
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.purge.output import PurgeOutput
from dredge.gc.run import Run
from dredge.runs.steps import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet, in_any
from dredge.undo.deleted import SweptRun


def find_live(run: Run, runner: TaskRunner, record: StepRecord, runs: Sequence[SweptRun]) -> LiveSet:
    """Find what a purge must leave alone.

    Args:
        run: this run; its mark is complete.
        runner: spreads the work.
        record: of the purge; its inputs are the mark.
        runs: whose deletions may be made final.

    Raises:
        RefusedError: staging or commits cannot be read completely.
    """
    committed = record.input(ListCommittedOutput)
    subtracted = Subtracted.of_mark(run, committed)
    recheck(run, runner, subtracted, f"{PurgeOutput.STEP}/recheck/{record.attempt.number:03d}")
    unproved = _unproved(run, runner, record, runs)
    record.counts["unproved_objects"] = len(unproved)
    part = write_hashes(run.folder, f"{PurgeOutput.STEP}/unproved-0.u64", unproved)
    more = [*subtracted.live, ShardedSet(0, {0: part})]
    mark = committed.live
    return LiveSet(
        (*mark.sets, *(LocatedSet(run.plan.run_uri, found) for found in more)), mark.counted, mark.counted_uri
    )


def _unproved(run: Run, runner: TaskRunner, record: StepRecord, runs: Sequence[SweptRun]) -> Hashes:
    """Deleted objects of the size of an entry of a branch head that no answer shows to be served by no branch."""
    tables = [swept.folder.read_part(part, ["hash", "size"]) for swept in runs for part in swept.candidates]
    if not tables:
        return NONE
    rows = pa.concat_tables(tables)
    hashes, sizes = rows["hash"].to_numpy(), rows["size"].to_numpy().astype(np.uint64)
    proof = ask_about(run, runner, record, hashes, sizes, f"{PurgeOutput.STEP}/same_size")
    if not proof.objects:
        return NONE
    (of_a_head,) = in_any(record.input(ListCommittedOutput).sizes, [sizes])
    asked = rows.filter(pa.array(of_a_head))
    held = proof.verdicts.codes_of(asked).is_valid().to_numpy(zero_copy_only=False)
    found = unite([asked["hash"].to_numpy()[held]])
    return unite([found, proof.answers.served[contains(unite([hashes]), proof.answers.served)]])
