"""A mark before its witnesses, and what a mark that passed them leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import RefusedError
from dredge.gc.run import Run
from dredge.gc.witness import owner
from dredge.gc.witness import record as records
from dredge.gc.witness.known_commits import find_unknown
from dredge.gc.witness.unnamed import Files, Known, Unnamed, demand_metaranges, find_unnamed, list_tables
from dredge.runs.perform import StepRecord

if TYPE_CHECKING:
    from dredge.gc.index.metaranges import Metaranges
    from dredge.gc.list_committed import ActiveCommits, ListCommittedOutput
    from dredge.runs.summary import PartInfo

EARLIER, TABLES, UNNAMED = "witness-earlier", "witness-tables", "witness-unnamed"


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What the witnesses add to a mark.

    Attributes:
        metaranges: that count as active commits besides those of active commits.
        parts: for `leave_record` and the re-check.
    """

    metaranges: set[str]
    parts: list[PartInfo]


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier marks left.

    Attributes:
        stored: the record of the last one.
        commits: its rows; empty without a record.
        kinds: kinds of files that were opened.
    """

    stored: records.Stored
    commits: pa.Table
    kinds: Mapping[str, str]

    @classmethod
    def read(cls, run: Run) -> Past:
        """Read the record of the last complete mark of this namespace.

        Raises:
            RefusedError: a newer version of Dredge wrote it.
            FormatError: damaged.
        """
        stored = records.read_record(run.state)
        found = stored.record
        if found is None or not records.is_about(found, run.plan.namespace):
            return cls(records.Stored(stored.etag), records.COMMITS.empty_table(), {})
        commits = records.read_commits(run.state, found)
        return cls(stored, commits, records.read_tables(run.state, found))

    @property
    def active(self) -> list[str]:
        """Ids of the commits that the last complete mark called active."""
        found: list[str] = self.commits.filter(self.commits["active"])["commit_id"].to_pylist()
        return found

    @property
    def metaranges(self) -> set[str]:
        """Metaranges of all its commits."""
        return set(filter(None, self.commits["metarange_id"].to_pylist()))

    def since(self, run: Run) -> datetime:
        """Metaranges that no known commit names count if they were written then or later."""
        days_ago = run.plan.created_at - timedelta(days=run.plan.config.keep_unnamed_days)
        last = self.stored.record
        return days_ago if last is None else min(days_ago, last.marked_at)


def pass_witnesses(run: Run, record: StepRecord, active: ActiveCommits, named: Metaranges) -> Witnessed:
    """Compare a mark with what earlier marks left, and find the metaranges that count as active commits.

    Args:
        run: the run.
        record: of the step.
        active: the active commits, all read.
        named: their metaranges.

    Raises:
        RefusedError: a witness refuses the mark.
    """
    owns = owner.check_owner(run, record)
    # A mark of the owner says nothing about another server's commits.
    past = Past.read(run) if owns else Past(records.Stored(), records.COMMITS.empty_table(), {})
    shown = _shown_commits(active)
    unknown = find_unknown(run, set(past.active) - shown.keys())
    if unknown:
        raise RefusedError(f"{len(unknown)} commits are unknown")
    if owns:
        owner.check_id(run)
    files = list_tables(run.reader)
    demand_metaranges(run, files, active.metaranges.values())
    metaranges = set(filter(None, shown.values()))
    known = Known(named=metaranges, earlier=past.metaranges, ranges=set(named.ranges), kinds=past.kinds)
    unnamed = find_unnamed(run, files, known, past.since(run))
    record.counts["unnamed_metaranges"] = len(unnamed.lost)
    created = run.client.repository(run.plan.repository).created_at
    record.details["witness"] = {
        "record_etag": past.stored.etag,
        "repository_created_at": None if created is None else created.isoformat(),
    }
    return Witnessed(unnamed.metaranges, _write_parts(run, past, shown, files, unnamed))


def leave_record(run: Run, committed: ListCommittedOutput) -> None:
    """Leave the commits of a complete mark for the marks after it.

    Args:
        run: whose mark is complete: the witnesses have passed it, and its candidates are known.
        committed: result of `list_committed`.

    Raises:
        ConflictError: another mark has left its record since.
    """
    folder = run.folder
    now = pa.Table.from_pylist(list(_rows(run, committed)), schema=records.COMMITS)
    earlier = folder.read_part(committed.part(f"{EARLIER}-00000.parquet"))
    tables = folder.read_part(committed.part(f"{TABLES}-00000.parquet"))
    records.write_record(run, committed, pa.concat_tables([now, earlier]), tables)


def _shown_commits(active: ActiveCommits) -> dict[str, str]:
    """Metaranges of all commits that the server shows, by commit."""
    every = {**active.records, **active.graph}
    return {commit.id: commit.metarange_id for commit in every.values()} | active.metaranges


def _write_parts(
    run: Run, past: Past, shown: Mapping[str, str], files: Files, unnamed: Unnamed
) -> list[PartInfo]:
    """Write what `leave_record` needs and only this step knows.

    Commits of earlier marks are carried on as long as their metarange could count as an unnamed one.
    """
    step, since = "list_committed", past.since(run)
    recent = [name for name, info in files.items() if info.last_modified >= since]
    rows = past.commits
    carried = pc.and_(
        pc.is_in(rows["metarange_id"], pa.array(recent, pa.string())),
        pc.invert(pc.is_in(rows["commit_id"], pa.array(list(shown), pa.string()))),
    )
    earlier = rows.filter(carried)
    place = records.COMMITS.get_field_index("active")
    earlier = earlier.set_column(
        place, records.COMMITS.field(place), pa.array([False] * len(earlier), pa.bool_())
    )
    names = sorted(unnamed.kinds)
    tables = pa.table([names, [unnamed.kinds[name] for name in names]], schema=records.TABLES)
    found = sorted(unnamed.metaranges)
    rows_of_unnamed = {
        "metarange_id": pa.array(found, pa.string()),
        "lost": pa.array([name in unnamed.lost for name in found], pa.bool_()),
    }
    return [
        run.folder.write_table(step, 0, earlier, EARLIER),
        run.folder.write_table(step, 0, tables, TABLES),
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
