"""The witnesses of a mark, and the records of a mark after them.

`list_committed` calls `pass_witnesses` after it has read the commits. A refused mark leaves no records. `check_limits`
calls `leave_record` after the candidates of the mark are complete.

lakeFS never removes the record of a commit. So a server without an active commit of an earlier mark has an older or
another database. A repository created again under its name has other commits: it starts without a record if no
metarange of its namespace is older than it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import NotFoundError
from dredge.gc.list_committed import CARRIED, OPENED, UNNAMED, ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.witness import owner
from dredge.gc.witness.owner import Site, compare_ids, refuse
from dredge.gc.witness.record import (
    COMMITS,
    TABLES,
    Files,
    Past,
    Unnamed,
    demand_metaranges,
    find_metarange_before,
    find_unnamed,
    is_what_if,
    list_tables,
    write_record,
)
from dredge.lakefs import QUESTIONS, LakeFSClient, Repository
from dredge.runs.folder import RunFolder
from dredge.runs.run import StepRecord
from dredge.storage.parallel import at_once, ordered_map

if TYPE_CHECKING:
    from dredge.gc.index.ranges import Metaranges
    from dredge.gc.list_committed import ActiveCommits
    from dredge.runs.payload import PartInfo

log = logging.getLogger("dredge")

UNKNOWN, CREATED_AGAIN = "known_commits", "created_again"  # kinds of refusals
_INACTIVE_ASKED = 4
_EXAMPLES_MAX = 5


@dataclass(frozen=True, slots=True)
class Passed:
    """A mark after its comparison with earlier marks."""

    past: Past
    shown: Mapping[str, str]  # metarange by commit, of all commits known to the server
    files: Files  # range and metarange files, listed after the commits were read

    def count_unnamed(self, run: Run, record: StepRecord, named: Metaranges) -> set[str]:
        """Find the metaranges counted as active commits without an active commit; given are those of the active
        commits. Writes files for `leave_record` and the re-check."""
        since = _since(run, self.past)
        unnamed = find_unnamed(run, self.files, self.past.known({*self.shown.values()}, named.ranges), since)
        record.counts["unnamed_metaranges"] = len(unnamed.lost)
        record.parts += _write_parts(run, self.past, self.shown, self.files, unnamed)
        return unnamed.metaranges


def pass_witnesses(
    run: Run, record: StepRecord, active: ActiveCommits, read_past: Callable[[], Past]
) -> Passed:
    """Compare a mark with the record of earlier marks, which only runs with the lease replace; all active commits are
    read."""
    with at_once() as ask:  # commits are read
        repository_read = ask(run.client.repository, run.plan.repository)
        ids = ask(compare_ids, Site.of_run(run))
        listed = ask(list_tables, run.reader)
        owns = owner.check_owner(run, record)
    # The owner's marks are no evidence about another server's commits.
    past = read_past() if owns else Past()
    repository = repository_read.result()
    past = check_life(run, past, repository)
    shown = _shown_commits(active)
    check_known(run, past, shown, listed.result())
    if owns:
        owner.check_id(run, ids.result())
    files = demand_metaranges(run, listed.result(), active.metaranges.values(), record.warn)
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
        "pause": pause,
        "record_etag": past.etag,
        "repository_created_at": None if created is None else created.isoformat(),
    }
    return Passed(past, shown, files)


def check_life(run: Run, past: Past, repository: Repository) -> Past:
    """Compare the repository's creation date with the record. Returns the past, without a record if the repository
    was created again on a namespace without older metaranges."""
    record, created = past.record, repository.created_at
    if record is None or created is None or record.repository_created_at in (None, created):
        return past
    older = find_metarange_before(run.reader, created, past.metaranges) if past.compares else None
    if older is not None:
        refuse(
            Site.of_run(run),
            CREATED_AGAIN,
            f"{run.plan.repository} was created at {repository.created_at}, and run {record.run_id} marked a repository"
            f" of the same name created at {record.repository_created_at}. Metaranges such as _lakefs/{older} are older"
            " than the current repository, so commits unknown to this server may use objects of the namespace. If the"
            " repository was restored from a dump of its refs, or created again on purpose:"
            f" `dredge gc lost {run.plan.repository}` lists commits unknown to the server,"
            f" `dredge gc forget-lost {run.plan.repository} --reason …` gives them up. If this is another server"
            " (a copy, a test installation): use the connection of the right one.",
            {"run_id": record.run_id, "metarange": older},
        )
    log.info("run %s: %s was created again; its first mark", run.plan.run_id, run.plan.repository)
    return replace(past, record=None, commits=COMMITS.empty_table())


def check_known(run: Run, past: Past, shown: Collection[str], files: Files) -> None:
    """Refuse a mark if the server does not know commits of the last complete mark (`find_unknown`)."""
    unknown = find_unknown(run.client, run.plan.repository, past, shown, files)
    if not unknown:
        return
    record, name = past.record, run.plan.repository
    assert record is not None
    refuse(
        Site.of_run(run),
        UNKNOWN,
        f"lakeFS does not know {len(unknown):,} commits of {name} that run {record.run_id} saw at"
        f" {record.marked_at:%Y-%m-%d %H:%M} UTC, such as {_examples(past, unknown)}. lakeFS never removes commits, so"
        " this server has an older database (restored from a backup), or another one. If the database was restored:"
        f" `dredge gc lost {name}` lists the lost commits, and restores them with --apply. If the older database is"
        f" the right one: `dredge gc forget-lost {name} --reason …`. If this is another server: use the connection of"
        " the right one.",
        {"run_id": record.run_id, "commits": len(unknown), "examples": unknown[:_EXAMPLES_MAX]},
    )


def find_unknown(
    client: LakeFSClient, repository: str, past: Past, shown: Collection[str], files: Files
) -> list[str]:
    """Find the ids, in order, of the commits of the last complete mark that the server does not know.

    It is asked for those outside `shown`, a request each: for active ones and the newest inactive ones, which any
    older database lacks too, and if it does not know one of these, for all. `LakeFSClient.commit` repeats a 404 with a
    shorter prefix of the id (L42). A commit restored under another id (`dredge gc lost --apply`) is known while that
    commit is.
    """

    def is_known(commit_id: str) -> bool:
        instead = past.restored.get(commit_id)
        return knows_commit(client, repository, commit_id) or (
            instead is not None and (instead in shown or knows_commit(client, repository, instead))
        )

    def ask(commits: set[str]) -> set[str]:
        asked = sorted(commits.difference(shown))
        if asked:
            log.info("%s: asking lakeFS for %d commits of the last mark", repository, len(asked))
        known = ordered_map(is_known, asked, QUESTIONS)
        return {commit_id for commit_id, found in zip(asked, known, strict=True) if not found}

    inactive = past.inactive
    # Clients choose the dates of commits, and equal content shares a file: neither order alone finds each lost one.
    by_date = islice(inactive, _INACTIVE_ASKED)
    by_file = nlargest(_INACTIVE_ASKED, inactive.keys(), key=lambda item: _written(files, inactive[item]))
    first = {*past.active, *by_date, *by_file}
    unknown = ask(first)
    if unknown:  # a person gives up or restores all of them at once
        unknown |= ask({*inactive} - first)
    return sorted(unknown)


def _written(files: Files, metarange_id: str) -> float:
    found = files.get(metarange_id)
    return 0.0 if found is None else found.last_modified.timestamp()


def knows_commit(client: LakeFSClient, repository: str, commit_id: str) -> bool:
    """Whether the server knows a commit."""
    try:
        client.commit(repository, commit_id)
    except NotFoundError:
        return False
    return True


def _examples(past: Past, unknown: Sequence[str]) -> str:
    rows = past.rows(unknown)
    rows.sort(key=lambda row: not row["branches"])  # heads first
    return "; ".join(
        row["commit_id"] + (f" (head of {', '.join(row['branches'])})" if row["branches"] else "")
        for row in rows[:3]
    )


def find_unnamed_now(run: Run, active: ActiveCommits, ranges: Collection[str], past: Past) -> set[str]:
    """Find the metaranges counted as active commits in a re-check, with or without a commit; given are the ids of the
    read ranges, and the record of earlier marks."""
    files = demand_metaranges(run, list_tables(run.reader), active.metaranges.values(), log.warning)
    known = past.known({*_shown_commits(active).values()}, ranges)
    return find_unnamed(run, files, known, _since(run, past)).metaranges


def leave_record(run: Run, committed: ListCommittedOutput) -> None:
    """Write the commits of a complete mark for the marks after it."""
    folder = run.folder
    now = pa.Table.from_pylist(list(_rows(run.folder, committed)), schema=COMMITS)
    carried = folder.read_part(committed.carried_commits)
    tables = folder.read_part(committed.opened_tables)
    write_record(run, committed, pa.concat_tables([now, carried]), tables)


def _shown_commits(active: ActiveCommits) -> dict[str, str]:
    every = {**active.records, **active.graph}
    return {commit.id: commit.metarange_id for commit in every.values()} | active.metaranges


def _since(run: Run, past: Past) -> datetime:
    return past.since(run.plan.created_at, timedelta(days=run.plan.config.keep_unnamed_days))


def _write_parts(
    run: Run, past: Past, shown: Mapping[str, str], files: Files, unnamed: Unnamed
) -> list[PartInfo]:
    step, since = ListCommittedOutput.STEP, _since(run, past)
    # Commits of earlier marks are carried while their metarange could count as an unnamed one.
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


def _rows(folder: RunFolder, committed: ListCommittedOutput) -> Iterator[dict[str, Any]]:
    active = folder.read_part(committed.commits)
    branches: dict[str, list[str]] = defaultdict(list)
    for row in folder.read_part(committed.branches).to_pylist():
        branches[row["commit_id"]].append(row["branch"])
    metaranges = dict(zip(active["commit_id"].to_pylist(), active["metarange_id"].to_pylist(), strict=True))
    for row in folder.read_part(committed.history).to_pylist():
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
