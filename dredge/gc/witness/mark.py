"""A mark before its witnesses, and what a mark that passed them leaves."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.list_committed import CARRIED, OPENED, UNNAMED, ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.witness import owner
from dredge.gc.witness.known_commits import check_known, check_life
from dredge.gc.witness.mark_id import compare_ids
from dredge.gc.witness.ownership import Site
from dredge.gc.witness.past import Past
from dredge.gc.witness.record import COMMITS, TABLES, is_what_if, write_record
from dredge.gc.witness.unnamed import Files, Known, Unnamed, find_unnamed, list_tables, with_metaranges
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.storage.parallel import at_once

if TYPE_CHECKING:
    from dredge.gc.index.ranges import Metaranges
    from dredge.gc.list_committed import ActiveCommits
    from dredge.runs.summary import PartInfo


log = logging.getLogger("dredge")


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What the witnesses add to a mark.

    Attributes:
        metaranges: that count as active commits, besides those of active commits.
        parts: for `leave_record` and the re-check.
    """

    metaranges: set[str]
    parts: list[PartInfo]


@dataclass(frozen=True, slots=True)
class Passed:
    """A mark that was compared with what earlier marks left.

    Attributes:
        past: what they left.
        shown: metaranges of all commits that the server shows, by commit.
        files: range and metarange files, listed after the commits were read.
    """

    past: Past
    shown: Mapping[str, str]
    files: Files

    def count_unnamed(self, run: Run, record: StepRecord, named: Metaranges) -> Witnessed:
        """Find the metaranges that count as active commits although no active commit names them.

        Args:
            run: the run.
            record: of the step.
            named: the metaranges of the active commits.
        """
        since = _since(run, self.past)
        unnamed = find_unnamed(run, self.files, _known(self.past, self.shown, named.ranges), since)
        record.counts["unnamed_metaranges"] = len(unnamed.lost)
        return Witnessed(unnamed.metaranges, _write_parts(run, self.past, self.shown, self.files, unnamed))


def pass_witnesses(run: Run, record: StepRecord, active: ActiveCommits) -> Passed:
    """Compare a mark with what earlier marks left.

    Args:
        run: the run.
        record: of the step.
        active: the active commits, all read.

    Raises:
        WitnessError: a witness refuses the mark.
        RefusedError: the metarange of an active commit is not in the bucket.
        FormatError: what earlier marks left is damaged.
    """
    with at_once() as ask:  # commits are read
        past_read = ask(Past.read, run.state, run.plan.namespace)
        repository_read = ask(run.client.repository, run.plan.repository)
        ids = ask(compare_ids, Site.of_run(run))
        listed = ask(list_tables, run.reader)
        owns = owner.check_owner(run, record)
    # The owner's marks say nothing about another server's commits.
    past = past_read.result() if owns else Past()
    repository = repository_read.result()
    past = check_life(run, past, repository)
    shown = _shown_commits(active)
    check_known(run, past, shown)
    if owns:
        owner.check_id(run, ids.result())
    files = with_metaranges(run, listed.result(), active.metaranges.values(), record.warn)
    what_if = is_what_if(run.plan.config, past.record)
    if what_if:
        record.warn(
            "this dry run keeps less than the repository's own settings (tags, retention policy), so its mark leaves no"
            " commits and no id for later runs"
        )
    created = repository.created_at
    pause = past.pause(run.plan.created_at, timedelta(days=run.plan.config.keep_unnamed_days))
    record.details["witness"] = {
        "what_if": what_if,
        "pause": None if pause is None else to_json(pause),
        "record_etag": past.etag,
        "repository_created_at": None if created is None else created.isoformat(),
    }
    return Passed(past, shown, files)


def find_unnamed_now(run: Run, active: ActiveCommits, ranges: Collection[str]) -> set[str]:
    """Find the metaranges that count as active commits in a re-check, whatever names them.

    Args:
        run: the run, whose mark is complete.
        active: the active commits, all read.
        ranges: ids of ranges that were read.

    Raises:
        RefusedError: the metarange of an active commit is not in the bucket.
    """
    with at_once() as ask:
        past_read = ask(Past.read, run.state, run.plan.namespace)
        listed = list_tables(run.reader)
    past = past_read.result()
    files = with_metaranges(run, listed, active.metaranges.values(), log.warning)
    return find_unnamed(
        run, files, _known(past, _shown_commits(active), ranges), _since(run, past)
    ).metaranges


def leave_record(run: Run, committed: ListCommittedOutput) -> None:
    """Leave the commits of a complete mark for the marks after it.

    Args:
        run: whose mark is complete: the witnesses have passed it, and its candidates are known.
        committed: result of `list_committed`.

    Raises:
        ConflictError: another mark has left its record since.
    """
    folder = run.folder
    now = pa.Table.from_pylist(list(_rows(run, committed)), schema=COMMITS)
    carried = folder.read_part(committed.carried_commits)
    tables = folder.read_part(committed.opened_tables)
    write_record(run, committed, pa.concat_tables([now, carried]), tables)


def _shown_commits(active: ActiveCommits) -> dict[str, str]:
    """Metaranges of all commits that the server shows, by commit."""
    every = {**active.records, **active.graph}
    return {commit.id: commit.metarange_id for commit in every.values()} | active.metaranges


def _since(run: Run, past: Past) -> datetime:
    return past.since(run.plan.created_at, timedelta(days=run.plan.config.keep_unnamed_days))


def _known(past: Past, shown: Mapping[str, str], ranges: Collection[str]) -> Known:
    return Known(
        named=set(filter(None, shown.values())),
        earlier=past.metaranges,
        ranges=ranges,
        kinds=past.kinds,
        forgotten=past.forgotten,
    )


def _write_parts(
    run: Run, past: Past, shown: Mapping[str, str], files: Files, unnamed: Unnamed
) -> list[PartInfo]:
    """Write what later steps need and only this one knows.

    Commits of earlier marks are carried on as long as their metarange could count as an unnamed one.
    """
    step, since = ListCommittedOutput.STEP, _since(run, past)
    recent = [name for name, info in files.items() if info.last_modified >= since]
    rows = past.commits
    carried = rows.filter(
        pc.and_(
            pc.is_in(rows["metarange_id"], pa.array(recent, pa.string())),
            pc.invert(pc.is_in(rows["commit_id"], pa.array(list(shown), pa.string()))),
        )
    )
    place = COMMITS.get_field_index("active")
    inactive = pa.array([False] * len(carried), pa.bool_())
    names, found = sorted(unnamed.kinds), sorted(unnamed.metaranges)
    rows_of_unnamed = {
        "metarange_id": pa.array(found, pa.string()),
        "lost": pa.array([name in unnamed.lost for name in found], pa.bool_()),
    }
    tables = {"name": names, "kind": [unnamed.kinds[name] for name in names]}
    return [
        run.folder.write_table(step, 0, carried.set_column(place, COMMITS.field(place), inactive), CARRIED),
        run.folder.write_table(step, 0, pa.table(tables, schema=TABLES), OPENED),
        run.folder.write_table(step, 0, pa.table(rows_of_unnamed), UNNAMED),
    ]


def _rows(run: Run, committed: ListCommittedOutput) -> Iterator[dict[str, Any]]:
    """All commits that the mark saw, as rows of the record."""
    active = run.folder.read_part(committed.commits)
    branches: dict[str, list[str]] = defaultdict(list)
    for row in run.folder.read_part(committed.branches).to_pylist():
        branches[row["commit_id"]].append(row["branch"])
    metaranges = dict(zip(active["commit_id"].to_pylist(), active["metarange_id"].to_pylist(), strict=True))
    for row in run.folder.read_part(committed.history).to_pylist():
        commit_id = row["commit_id"]
        is_active = metaranges.pop(commit_id, None) is not None
        yield {**row, "active": is_active, "branches": branches[commit_id]}
    for commit_id, metarange_id in metaranges.items():
        yield {
            "commit_id": commit_id,
            "metarange_id": metarange_id,
            "active": True,
            "branches": branches[commit_id],
        }
