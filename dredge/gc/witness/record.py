"""The record of the last complete mark: its commits, for the marks after it.

    <state>/witness/last_mark.json              the pointer: run, repository, creation date, times, parts and digests
    <state>/witness/<label>-commits-….parquet   every commit of the mark, active or not
    <state>/witness/<label>-tables-….parquet    opened files of `_lakefs/`, with their kind

The removal of old run folders leaves the folder of lease and index. The parts are written first and the pointer last,
under the lease and with a condition: after a kill in between, the old record counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import ConflictError, DredgeError, FormatError
from dredge.gc.config import KEEP_UNNAMED_DAYS, GCConfig
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import Run
from dredge.runs.consents import read_consents
from dredge.runs.folder import RunFolder
from dredge.runs.payload import NewerFormatError, PartInfo, from_json, from_versioned, to_json
from dredge.runs.tries import read_tagged, replace_again
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once

if TYPE_CHECKING:
    from dredge.gc.list_committed import ListCommittedOutput


FORMAT = 1
FOLDER = "witness"
POINTER = f"{FOLDER}/last_mark.json"
FORGET_LOST, RESTORE_LOST = "forget-lost", "restore-lost"
"""Kinds of people's statements. The first has the given-up ids in `commits` and `metaranges`; the second has in
`commits`, by the id of a lost commit, the id of the new commit with its content."""
COMMITS = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),
        pa.field("active", pa.bool_(), nullable=False),
        pa.field("branches", pa.list_(pa.string()), nullable=False),
        pa.field("parents", pa.list_(pa.string())),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
        pa.field("version", pa.int32()),
        pa.field("committer", pa.string()),
        pa.field("message", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("generation", pa.int64()),
    ]
)
"""Rows of commits. `branches` had the commit as their head. All fields from `parents` on are null for a commit with
only a known id and metarange; `metadata` is a JSON object."""
TABLES = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("kind", pa.string(), nullable=False)]
)


class Kept(Struct, frozen=True):
    """Settings of a run with more active commits than lakeFS's rules."""

    tags: bool  # whether tagged commits are active
    policy: str | None  # digest of the retention policy, or None

    @classmethod
    def of(cls, config: GCConfig) -> Kept:
        """Return those of a run's settings."""
        return cls(config.keep_tags, None if config.policy is None else config.policy.digest)

    def is_less_than(self, other: Kept) -> bool:
        """Whether the other settings may keep more commits."""
        return (other.tags and not self.tags) or other.policy not in (None, self.policy)


class Pause(Struct, frozen=True, kw_only=True):
    """A time between two marks, longer than unnamed metaranges are kept; by the store's clock."""

    began: datetime
    ended: datetime


class MarkRecord(Struct, frozen=True, kw_only=True):
    """The record of a complete mark."""

    repository: str
    namespace: str
    repository_created_at: datetime | None  # its creation date; None if the server does not return it
    run_id: str
    run_uri: str
    marked_at: datetime  # the store's time of the plan, before the first read
    left_at: datetime  # the store's time of this record
    commits: PartInfo  # rows of `COMMITS`
    tables: PartInfo  # rows of `TABLES`
    kept: Kept  # the repository's own settings: those of the last deleting run, or else of the first mark
    pause: Pause | None = None  # the last pause; None after its use
    format: int = FORMAT


class Stored(Struct, frozen=True):
    """The stored record and the ETag of its pointer; None without a record."""

    etag: str | None = None
    record: MarkRecord | None = None


def read_record(state: ObjectReader) -> Stored:
    """Read the record of the last complete mark."""
    tagged = read_tagged(state, POINTER)
    if tagged is None:
        return Stored()
    etag, data = tagged
    try:
        return Stored(etag, from_versioned(MarkRecord, json.loads(data), FORMAT))
    except NewerFormatError as error:
        raise error.as_refusal(f"{state.uri}/{POINTER}") from None
    except (FormatError, ValueError) as error:
        raise _damaged(state, POINTER, error) from None


def parts_of(record: MarkRecord) -> list[str]:
    """Return the keys of a record's parts, relative to the folder of lease and index."""
    return [record.commits.key, record.tables.key]


def leave_record(run: Run, committed: ListCommittedOutput) -> None:
    """Write the record of a complete mark in place of the compared record. The run holds the lease."""
    now = pa.Table.from_pylist(list(_rows(run.folder, committed)), schema=COMMITS)
    commits = pa.concat_tables([now, run.folder.read_part(committed.carried_commits)])
    tables = run.folder.read_part(committed.opened_tables)
    facts = committed.detail("witness")
    folder, created = RunFolder(run.state, run.plan.run_id), facts["repository_created_at"]
    before = read_record(run.state).record if run.plan.dry_run else None
    with at_once() as ask:
        commits_written = ask(folder.write_table, FOLDER, 0, commits, f"{run.folder.label}-commits")
        tables_written = ask(folder.write_table, FOLDER, 0, tables, f"{run.folder.label}-tables")
    record = MarkRecord(
        repository=run.plan.repository,
        namespace=run.plan.namespace,
        repository_created_at=None if created is None else datetime.fromisoformat(created),
        run_id=run.plan.run_id,
        run_uri=run.plan.run_uri,
        marked_at=run.plan.created_at,
        left_at=run.store_now(),
        commits=commits_written.result(),
        tables=tables_written.result(),
        kept=Kept.of(run.plan.config) if before is None else before.kept,
        pause=None if facts.get("pause") is None else from_json(Pause, facts["pause"]),
    )
    data = json.dumps(to_json(record), sort_keys=True).encode()
    run.check_right(record.left_at)  # a later try may have left its record

    def is_own(found: bytes) -> bool:
        try:
            return bool(json.loads(found)["run_id"] == run.plan.run_id)
        except (KeyError, TypeError, ValueError):
            return False

    if not replace_again(run.state, POINTER, data, facts["record_etag"], is_own):
        raise ConflictError(
            f"run {run.plan.run_id}: another run has replaced {run.state.uri}/{POINTER} since this run listed commits."
            " Nothing was deleted. Start a new run."
        )


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


def is_what_if(config: GCConfig, record: MarkRecord | None) -> bool:
    """Whether a dry run keeps less than the repository's own settings, so its mark lacks active commits."""
    return config.dry_run and record is not None and Kept.of(config).is_less_than(record.kept)


class Known(Struct, frozen=True, kw_only=True):
    """Known metaranges and ranges."""

    named: set[str]  # metaranges of commits known to the server
    earlier: set[str]  # metaranges of commits of earlier marks
    ranges: Collection[str]  # ids of ranges
    kinds: Mapping[str, str]  # kinds of files opened before
    forgotten: Mapping[str, datetime]  # given-up metaranges, each with the time of the decision


@dataclass(frozen=True, slots=True)
class Past:
    """The record of the last complete mark, and later statements of people."""

    etag: str | None = None  # of the pointer to the record, or None
    record: MarkRecord | None = None  # None if there is none, or it is about another namespace
    commits: pa.Table = field(default_factory=COMMITS.empty_table)  # its commits (`COMMITS`)
    kinds: Mapping[str, str] = field(default_factory=dict)  # kinds of opened files by name
    forgotten_at: datetime | None = None  # time of the last `dredge gc forget-lost`, or None
    forgotten: Mapping[str, datetime] = field(default_factory=dict)  # given-up metaranges, each with the time
    given_up: Mapping[str, datetime] = field(default_factory=dict)  # given-up commits, each with the time
    # by the id of a lost commit, the id of the new commit with its content
    restored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, state: ObjectReader, namespace: str) -> Past:
        """Read the record about a namespace and the statements. Raises RefusedError: a newer version of Dredge wrote
        it."""
        forgotten_at, forgotten, given_up = None, dict[str, datetime](), dict[str, datetime]()
        restored = dict[str, str]()
        with at_once() as ask:
            record = ask(read_record, state)
            consents = read_consents(state, FORGET_LOST, RESTORE_LOST)
        for consent in consents:
            if consent.kind == FORGET_LOST:
                forgotten_at = consent.at
                forgotten |= dict.fromkeys(consent.what["metaranges"], consent.at)
                given_up |= dict.fromkeys(consent.what["commits"], consent.at)
            else:
                restored |= consent.what["commits"]
        stored, commits, kinds = _read_tables(state, namespace, forgotten_at, record)
        return cls(stored.etag, stored.record, commits, kinds, forgotten_at, forgotten, given_up, restored)

    @property
    def compares(self) -> bool:
        """Whether the creation date of the repository is compared: not after a later `forget-lost`."""
        return self.record is not None and (
            self.forgotten_at is None or self.record.left_at > self.forgotten_at
        )

    @property
    def active(self) -> list[str]:
        """Ids of the active commits of the last complete mark, without later given-up commits."""
        if self.record is None:
            return []
        found: list[str] = self.commits.filter(self.commits["active"])["commit_id"].to_pylist()
        left_at = self.record.left_at
        return [item for item in found if item not in self.given_up or self.given_up[item] < left_at]

    @property
    def inactive(self) -> dict[str, str]:
        """Metarange by id of the last complete mark's inactive commits, newest first, without given-up ones."""
        given_up = pc.is_in(self.commits["commit_id"], pa.array(list(self.given_up), pa.string()))
        rows = self.commits.filter(pc.invert(pc.or_(self.commits["active"], given_up)))
        rows = rows.sort_by([("created_at", "descending"), ("commit_id", "ascending")])
        return dict(zip(rows["commit_id"].to_pylist(), rows["metarange_id"].to_pylist(), strict=True))

    @property
    def seen_metaranges(self) -> set[str]:
        """Metaranges of the commits of the last complete mark, without given-up commits."""
        seen = pa.array([*self.active, *self.inactive], pa.string())
        rows = self.commits.filter(pc.is_in(self.commits["commit_id"], seen))
        return set(filter(None, rows["metarange_id"].to_pylist()))

    @property
    def metaranges(self) -> set[str]:
        """Metaranges of all its commits."""
        return set(filter(None, self.commits["metarange_id"].to_pylist()))

    def since(self, now: datetime, keep_unnamed: timedelta) -> datetime:
        """Return the oldest write time of metaranges that count without a known commit, for at least `keep_unnamed`."""
        if self.record is None:
            return now - keep_unnamed
        since, pause = min(now - keep_unnamed, self.record.marked_at), self.record.pause
        return since if pause is None or now - pause.ended >= keep_unnamed else min(since, pause.began)

    def pause(self, now: datetime, keep_unnamed: timedelta) -> Pause | None:
        """Return the last pause. Metaranges written in it count for `keep_unnamed` from its end."""
        if self.record is None:
            return None
        longest = max(keep_unnamed, timedelta(days=KEEP_UNNAMED_DAYS))  # another run may keep them longer
        pause, last = self.record.pause, self.record.marked_at
        if pause is not None and now - pause.ended < longest:
            return pause
        return Pause(began=last, ended=now) if now - last > keep_unnamed else None

    def known(self, named: set[str], ranges: Collection[str] = ()) -> Known:
        """Return the known metaranges and ranges: those of this past and the given ones."""
        return Known(
            named=named - {""},
            earlier=self.metaranges,
            ranges=ranges,
            kinds=self.kinds,
            forgotten=self.forgotten,
        )

    def rows(self, commits: Iterable[str]) -> list[dict[str, Any]]:
        """Return the rows of some commits, sorted by id."""
        wanted = set(commits)
        found = [row for row in self.commits.to_pylist() if row["commit_id"] in wanted]
        return sorted(found, key=lambda row: str(row["commit_id"]))


def _read_tables(
    state: ObjectReader, namespace: str, forgotten_at: datetime | None, reading: Future[Stored]
) -> tuple[Stored, pa.Table, Mapping[str, str]]:
    try:
        stored = reading.result()
        record = stored.record
        # A copied bucket has the record of another namespace.
        if record is None or canonical_namespace(record.namespace) != canonical_namespace(namespace):
            return Stored(stored.etag), COMMITS.empty_table(), {}
        with at_once() as ask:
            tables_read = ask(_read_part, state, record, record.tables)
            commits = _read_part(state, record, record.commits)
        tables = tables_read.result()
    except FormatError:
        info = state.stat(POINTER)
        if forgotten_at is None or forgotten_at < info.last_modified:
            raise
        return Stored(info.etag), COMMITS.empty_table(), {}
    return stored, commits, dict(zip(tables["name"].to_pylist(), tables["kind"].to_pylist(), strict=True))


def _read_part(state: ObjectReader, record: MarkRecord, part: PartInfo) -> pa.Table:
    try:
        return RunFolder(state, record.run_id).read_part(part)  # type: ignore[arg-type]
    except FormatError as error:
        raise _damaged(state, part.key, error) from None


def _damaged(state: ObjectReader, key: str, error: Exception) -> DredgeError:
    return FormatError(
        f"{state.uri}/{key}, the record of the last complete mark, cannot be read: {error}. Nothing was deleted."
        " Restore the file, such as an older version of it; or run `dredge gc forget-lost`, after which the next run"
        " starts without it."
    )
