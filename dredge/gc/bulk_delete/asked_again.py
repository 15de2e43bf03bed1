"""What may have been staged unseen since branches were asked about candidates as long as an entry of a head.

A copy of what a head has is staged, and the server does not show it (L6), so the re-check does not see it either:
somebody may have staged an old object since the guards asked. So after each re-check the branches of that moment are
asked once more, by all the heads at which it saw them.

    the staging records are read       everything that is staged was seen: nothing else to do
    cleared by the guards              branches are asked again; what they serve, or do not answer about, stays
    of no size that a head had then    nobody was asked about such a candidate, as none could be served: it stays where
                                       it is as long as an entry that a head has got since, and the next run asks

Where only the mark read the records, nobody was asked about any candidate: those as long as any entry of a head stay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.check_limits import HoldFiles, Since, Verdicts, heads_of_the_mark, prove, read_confirmed
from dredge.gc.index.metaranges import read_metaranges
from dredge.gc.index.ranges import Ranges, facts_of
from dredge.gc.list_committed import SIZES, ListCommittedOutput, Roles, collect_ranges, known_commit
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.runs.perform import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.files import read_hashes
from dredge.sets.hashes import contains
from dredge.sets.live import LocatedSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is known of candidates that a branch may serve unseen.

    Attributes:
        holds: what branches answered.
        sizes: candidates that are so long, and about which nobody was asked, stay.
        questions: requests made to branches.
    """

    holds: HoldFiles
    sizes: tuple[LocatedSet, ...] = ()
    questions: int = 0


def ask_again(
    run: Run, runner: TaskRunner, record: StepRecord, asked: Asked, subtracted: Subtracted, where: str
) -> Asked:
    """Ask once more about what may go although it is as long as an entry of a head. Comes after a re-check.

    Args:
        run: this run.
        runner: spreads the search.
        record: of the sweep.
        asked: the last look; at first what the guards found.
        subtracted: what the re-check saw.
        where: folder for the files, relative to the run folder.

    Raises:
        RefusedError: the commit of a branch does not exist.
    """
    if subtracted.exact:
        return replace(asked, questions=0)
    heads = subtracted.heads | _heads_now(run, subtracted)
    new = _new_in_heads(run, runner, record.input(ListCommittedOutput), heads, f"{where}/heads")
    asked = replace(asked, sizes=_not_asked_about(run, runner, record, new, f"{where}/heads"), questions=0)
    cleared = read_hashes(run.folder, asked.holds.cleared)
    if (confirmed := read_confirmed(run.folder, asked.holds)) is not None:
        cleared = cleared[contains(confirmed, cleared)]
    if not len(cleared):
        return asked
    # The sweep's own record takes the files of the ledger only.
    since = Since(cleared=cleared, heads=heads, ranges=new)
    proof = prove(run, runner, StepRecord(record.inputs, record.attempt), since)
    verdicts = Verdicts.read(run.folder, asked.holds.size_verdicts, asked.holds.served)
    size_verdicts, served = verdicts.renewed(proof.verdicts).write(run.folder, f"{where}/answers")
    holds = replace(asked.holds, size_verdicts=size_verdicts, served=served)
    return replace(asked, holds=holds, questions=proof.answers.requests)


def _heads_now(run: Run, subtracted: Subtracted) -> set[tuple[str, str]]:
    """Branches, each with the metarange of its head: since the re-check listed them it has read commits and ranges, and
    a branch may have been made, or reset to a commit that it knows, for which no sweep stops."""
    found, repository = set(), run.plan.repository
    for branch in run.client.branches(repository):
        metarange = subtracted.commits.get(branch.commit_id)
        if metarange is None:
            told = f"branch {branch.id} is at commit {branch.commit_id}, and lakeFS does not know that"
            metarange = known_commit(run.client, repository, branch.commit_id, told).metarange_id
        found.add((branch.id, metarange))
    return found


def _new_in_heads(
    run: Run,
    runner: TaskRunner,
    committed: ListCommittedOutput,
    heads: Collection[tuple[str, str]],
    where: str,
) -> Ranges:
    """The ranges of heads that none of the heads had that the guards asked about."""
    then = {metarange for _, metarange in heads_of_the_mark(run, committed)}
    moved = {metarange for _, metarange in heads} - then
    if not moved:
        return {}
    known = {item for item, facts in facts_of(run.folder.read_part(committed.ranges)) if facts.head}
    ranges = read_metaranges(run, runner, where, moved).select(moved, moved)
    return {item: facts for item, facts in ranges.items() if item not in known}


def _not_asked_about(
    run: Run, runner: TaskRunner, record: StepRecord, new: Ranges, where: str
) -> tuple[LocatedSet, ...]:
    """Sizes of which a branch may serve a candidate that the classification did not hold for its size: those of entries
    that are new in a head, and of all where the mark read the staging records, so that it held none."""
    known = record.input(ListCommittedOutput).sizes if record.input(MarkUncommittedOutput).exact else ()
    if not new:
        return known
    found = collect_ranges(run, runner, where, Roles(new), []).set_of(SIZES)
    return (*known, LocatedSet(run.plan.run_uri, found))
