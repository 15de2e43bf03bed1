"""What time has changed since branches were asked about candidates as long as an entry of a head.

A copy of what a head has is staged, and the server does not show it (L6), so the re-check does not see it either:
somebody may have staged an old object since the guards asked. So what they cleared is asked about once more after
each re-check. A run that waited for a person, or whose sweep is tried again hours later, looks besides at what heads
have got since.

    the staging records are read       everything that is staged was seen: nothing else to do. Where only the mark read
                                       them, the last look is none, however short the time
    cleared by the guards              branches are asked again; what they serve, or do not answer about, stays
    size of an entry that a branch     after a while: nobody was asked about such a candidate, so it stays, and the next
    has got into its head since        run asks
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.check_limits import CheckLimitsOutput, HoldFiles, Verdicts, prove
from dredge.gc.index.metaranges import read_metaranges
from dredge.gc.index.ranges import Ranges, unite_ranges
from dredge.gc.list_committed import SIZES, ListCommittedOutput, Roles, collect_ranges
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.runs.perform import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.files import read_hashes
from dredge.sets.live import LocatedSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is known of candidates that a branch may serve unseen.

    Attributes:
        at: since when entries of heads are known, by this machine's clock, or earlier.
        holds: what branches answered.
        sizes: candidates that are so long stay.
        questions: requests made to branches.
    """

    at: datetime
    holds: HoldFiles
    sizes: tuple[LocatedSet, ...] = ()
    questions: int = 0

    @classmethod
    def by_the_guards(cls, run: Run, record: StepRecord) -> Asked:
        """What the guards found.

        Args:
            run: this run.
            record: of the sweep.
        """
        guards = record.input(CheckLimitsOutput)
        if record.input(MarkUncommittedOutput).exact:
            # They had nobody to ask. What the mark saw is no answer about what was staged since.
            return cls(at=datetime.min.replace(tzinfo=UTC), holds=guards.hold_files)
        # Another machine's clock wrote it down; both may differ from the store's.
        skew = 2 * timedelta(seconds=run.plan.config.safety.clock_skew_seconds_max)
        return cls(at=guards.summary.finished_at - skew, holds=guards.hold_files)


def ask_again(
    run: Run, runner: TaskRunner, record: StepRecord, asked: Asked, subtracted: Subtracted, where: str
) -> Asked:
    """Ask once more about what may go although it is as long as an entry of a head. Comes after a re-check.

    Args:
        run: this run.
        runner: spreads the search.
        record: of the sweep.
        asked: the last look.
        subtracted: what the re-check saw.
        where: folder for the files, relative to the run folder.

    Returns:
        What holds now; the last look where that is not long ago and nothing may go by what branches said.
    """
    if subtracted.exact:
        return asked
    now, safety = run.clock(), run.plan.config.safety
    is_late = now - asked.at >= timedelta(seconds=safety.ask_again_seconds)
    cleared = read_hashes(run.folder, asked.holds.cleared)
    if not is_late and not len(cleared):
        return asked
    # The sweep's own record takes the files of the ledger only.
    proof = prove(run, runner, StepRecord(record.inputs, record.attempt), cleared, subtracted.heads)
    verdicts = Verdicts.read(run.folder, asked.holds.size_verdicts, asked.holds.served)
    sizes_verdict, served = verdicts.renewed(proof.verdicts).write(run.folder)
    return Asked(
        at=now if is_late else asked.at,
        holds=replace(asked.holds, size_verdicts=sizes_verdict, served=served),
        sizes=_sizes_since(run, runner, record, subtracted, where) if is_late else asked.sizes,
        questions=proof.answers.requests,
    )


def _sizes_since(
    run: Run, runner: TaskRunner, record: StepRecord, subtracted: Subtracted, where: str
) -> tuple[LocatedSet, ...]:
    """Sizes about which branches could not be asked: those of entries that are new in a head, and of all where the mark
    read the staging records, so that no candidate was held for its size."""
    committed = record.input(ListCommittedOutput)
    known = committed.sizes if record.input(MarkUncommittedOutput).exact else ()
    new = _new_in_heads(run, runner, committed, subtracted, f"{where}/heads")
    if not new:
        return known
    found = collect_ranges(run, runner, f"{where}/heads", Roles(new), []).set_of(SIZES)
    return (*known, LocatedSet(run.plan.run_uri, found))


def _new_in_heads(
    run: Run, runner: TaskRunner, committed: ListCommittedOutput, subtracted: Subtracted, where: str
) -> Ranges:
    """The ranges of each branch's head that no head of this branch had that its questions were about."""
    table = run.folder.read_part(committed.branches)
    then: dict[str, set[str]] = defaultdict(set)
    for branch, metarange in zip(table["branch"].to_pylist(), table["metarange_id"].to_pylist(), strict=True):
        then[branch].add(metarange)
    moved = {(branch, now) for branch, now in subtracted.heads if now not in then[branch]}
    wanted = {metarange for branch, now in moved for metarange in (now, *then[branch]) if metarange}
    named = read_metaranges(run, runner, where, wanted)
    new: Ranges = {}
    for branch, now in sorted(moved):
        asked = named.select(then[branch])
        ranges = named.select([now], [now])
        unite_ranges(new, ((item, facts) for item, facts in ranges.items() if item not in asked))
    return new
