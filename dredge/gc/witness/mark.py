"""The witnesses of a mark: comparisons with earlier marks before later steps use it.

`list_committed` calls `Witnesses.compare` after it has read the commits. A refused mark leaves no records.

lakeFS never removes the record of a commit. So a server without an active commit of an earlier mark has an older or
another database. A repository created again under its name has other commits: it starts without a record if no
metarange of its namespace is older than it.

Metarange files counted as active commits without an active commit:

    written since the cutoff                              always
    written in the last `keep_unnamed_days`, or since     without a commit known to the server, and without a commit of
    the last complete mark if longer                      an earlier mark

Such a file belongs to a commit lost with lakeFS's database, to a commit in progress (lakeFS writes the tree, runs
hooks, and moves the branch last), or to a short-lived branch between two marks.

Ranges and metaranges share `_lakefs/`, and only their content shows the kind. Active metaranges and the committed index
name most of them. Any other file is opened once, at its end, and its kind is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.index.store import CommittedIndex
from dredge.gc.list_committed import CARRIED, OPENED, UNNAMED, ListCommittedOutput
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.gc.witness import owner
from dredge.gc.witness.owner import Site, compare_ids, refuse
from dredge.gc.witness.record import COMMITS, TABLES, Known, Past, is_what_if
from dredge.lakefs import QUESTIONS, LakeFSClient, Repository
from dredge.lakefs.files.ranges import Files, find_metarange_before, list_tables, read_kinds
from dredge.lakefs.files.sstable import METARANGES
from dredge.runs.run import StepRecord
from dredge.storage import ObjectInfo, ObjectReader, ObjectWriter
from dredge.storage.parallel import at_once, ordered_map

if TYPE_CHECKING:
    from dredge.gc.index.ranges import Metaranges
    from dredge.gc.list_committed import ActiveCommits
    from dredge.gc.metadata.deleting import Sought
    from dredge.runs.payload import PartInfo

log = logging.getLogger("dredge")

UNKNOWN, CREATED_AGAIN = "known_commits", "created_again"  # kinds of refusals
_INACTIVE_ASKED = 4
_EXAMPLES_MAX = 5


class Witnesses(Struct):
    """The comparison of a mark or a re-check with earlier marks; `read`: the record of the last one."""

    run: Run
    read: Future[Past]
    _past: Past = field(default_factory=Past)
    # metarange by commit, of commits known to the server
    _shown: Mapping[str, str] = field(default_factory=dict)
    # range and metarange files, listed after the commits were read
    _files: Files = field(default_factory=dict)

    def compare(self, record: StepRecord, active: ActiveCommits) -> None:
        """Compare a mark with the record of earlier marks, which only runs with the lease replace; all active commits
        are read."""
        run = self.run
        with at_once() as ask:  # commits are read
            repository_read = ask(run.client.repository, run.plan.repository)
            ids = ask(compare_ids, Site.of_run(run))
            listed = ask(list_tables, run.reader, len({*active.metaranges.values()}))
            owns = owner.check_owner(run, record)
        # The owner's marks are no evidence about another server's commits.
        past = self.read.result() if owns else Past()
        repository = repository_read.result()
        self._past = past = check_life(run, past, repository)
        self._shown = _shown_commits(active)
        check_known(run, past, self._shown, listed.result())
        if owns:
            owner.check_id(run, ids.result())
        self._files = demand_metaranges(run, listed.result(), active.metaranges.values(), record.warn)
        what_if = is_what_if(run.plan.config, past.record)
        if what_if:
            record.warn(
                "this dry run keeps less than the repository's own settings (tags, retention policy), so its mark"
                " leaves no commits and no id for later runs"
            )
        created = repository.created_at
        record.details["witness"] = {
            "what_if": what_if,
            "pause": past.pause(run.plan.created_at, timedelta(days=run.plan.config.keep_unnamed_days)),
            "record_etag": past.etag,
            "repository_created_at": None if created is None else created.isoformat(),
        }

    def count_unnamed(self, record: StepRecord, named: Metaranges) -> set[str]:
        """Find the metaranges counted as active commits without an active commit; given are those of the active
        commits. Writes files for `leave_record` and the re-check."""
        unnamed = self._find_unnamed(self._shown, named.ranges, self._files)
        record.counts["unnamed_metaranges"] = len(unnamed.lost)
        record.parts += self._write_parts(unnamed)
        return unnamed.metaranges

    def find_unnamed_now(self, active: ActiveCommits, ranges: Collection[str]) -> set[str]:
        """Find the metaranges counted as active commits in a re-check, with or without a commit; given are the ids of
        the read ranges."""
        run, self._past = self.run, self.read.result()
        listed = list_tables(run.reader, len({*active.metaranges.values()}) + len(ranges))
        files = demand_metaranges(run, listed, active.metaranges.values(), log.warning)
        return self._find_unnamed(_shown_commits(active), ranges, files).metaranges

    def _find_unnamed(self, shown: Mapping[str, str], ranges: Collection[str], files: Files) -> Unnamed:
        run, known = self.run, self._past.known({*shown.values()}, ranges)
        place, cutoff = run.plan.namespace, run.plan.cutoff
        return sort_out(run.reader, run.state, place, files, known, cutoff, self._since)

    @property
    def _since(self) -> datetime:
        plan = self.run.plan
        return self._past.since(plan.created_at, timedelta(days=plan.config.keep_unnamed_days))

    def _write_parts(self, unnamed: Unnamed) -> list[PartInfo]:
        step, folder, since = ListCommittedOutput.STEP, self.run.folder, self._since
        # Commits of earlier marks are carried while their metarange could count as an unnamed one.
        recent = [name for name, info in self._files.items() if info.last_modified >= since]
        rows = self._past.commits
        carried = rows.filter(
            pc.and_(
                pc.is_in(rows["metarange_id"], pa.array(recent, pa.string())),
                pc.invert(pc.is_in(rows["commit_id"], pa.array(list(self._shown), pa.string()))),
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
            folder.write_table(step, 0, carried.set_column(place, COMMITS.field(place), inactive), CARRIED),
            folder.write_table(step, 0, pa.table(tables, schema=TABLES), OPENED),
            folder.write_table(step, 0, pa.table(rows_of_unnamed), UNNAMED),
        ]


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


def _shown_commits(active: ActiveCommits) -> dict[str, str]:
    every = {**active.records, **active.graph}
    return {commit.id: commit.metarange_id for commit in every.values()} | active.metaranges


class Unnamed(Struct):
    """Metaranges counted as active commits."""

    young: set[str]  # written since the cutoff
    lost: set[str]  # older, without a known commit
    kinds: dict[str, str]  # kinds of opened files, also of earlier marks

    @property
    def metaranges(self) -> set[str]:
        """All of them."""
        return self.young | self.lost


def demand_metaranges(
    run: Run, files: Files, metaranges: Iterable[str], warn: Callable[[str], None]
) -> Files:
    """Restore missing metaranges of active commits from copies of collections of metadata, else refuse the mark;
    return the current files. The run has passed the other witnesses, and the files were listed after the commits
    were read."""
    wanted = {item for item in metaranges if item}
    if not wanted - files.keys():
        return files
    from dredge.gc.metadata.deleting import restore_metaranges

    sought = restore_metaranges(
        run.plan.namespace, wanted - files.keys(), files, run.plan.created_at, run.options
    )
    if sought.back:
        warn(
            f"{len(sought.back):,} files of {METADATA}, deleted by collections of metadata and used by active commits,"
            f" were restored, such as {sought.back[0]}"
        )
        files = list_tables(run.reader, len(wanted))
    if missing := sorted(wanted - files.keys()):
        raise RefusedError(
            f"run {run.plan.run_id}: {len(missing):,} metaranges of active commits are not in the bucket, such as"
            f" {METADATA}{missing[0]}{_deleted_by(missing, sought)}. Live objects cannot be determined. Nothing was"
            " deleted. Restore them (a backup, an older version of the bucket), then start a new run."
        )
    return files


def _deleted_by(missing: Sequence[str], sought: Sought) -> str:
    name = next((name for name in missing if name in sought.deleted_by), None)
    if name is None:
        return " (no collection of metadata deleted them)"
    return f" (collection of metadata {sought.deleted_by[name]} deleted {name}, and no copy of it is left)"


def sort_out(
    reader: ObjectReader,
    state: ObjectWriter,
    namespace: str,
    files: Files,
    known: Known,
    cutoff: datetime,
    since: datetime,
) -> Unnamed:
    """Find the metaranges counted as active commits: all written at the cutoff or later, and those without a known
    commit written at `since` or later. The files were listed after the commits were read."""
    young = {name for name, info in files.items() if info.last_modified >= cutoff}
    recent = {
        name
        for name, info in files.items()
        if info.last_modified >= since and not _is_forgotten(known, name, info)
    }
    metaranges = known.named | known.earlier
    unknown = ((young | recent) - metaranges).difference(known.ranges, known.kinds)
    kinds = {name: kind for name, kind in known.kinds.items() if name in recent or name in young}
    if unknown:
        unknown -= CommittedIndex.load(state, namespace).places.keys()
        kinds |= read_kinds(reader, [files[name] for name in sorted(unknown)])
    found = {name for name, kind in kinds.items() if kind == METARANGES}
    return Unnamed(
        young=young & (metaranges | found),
        lost=((recent & found) - metaranges) - young,
        kinds=kinds,
    )


def _is_forgotten(known: Known, name: str, info: ObjectInfo) -> bool:
    """Whether a person gave up the file. A file written again since counts."""
    decided = known.forgotten.get(name)
    return decided is not None and info.last_modified <= decided
