"""The record of the last complete mark: its commits, for the marks after it.

    <state>/witness/last_mark.json          the pointer: run, repository, its creation date, times, parts with digests
    <state>/witness/<label>-commits-….parquet   every commit that the mark saw, and which of them were active
    <state>/witness/<label>-tables-….parquet    files of `_lakefs/` that were opened, with their kind

The record lies in the folder of lease and index, so no cleaning of run folders removes it. The parts are written first
and the pointer last, under the lease and with a condition: after a kill between the two the old record counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConflictError, DredgeError, FormatError
from dredge.gc.config import KEEP_UNNAMED_DAYS
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.witness.consents import read_consents
from dredge.runs.conditional import read_tagged, replace_again
from dredge.runs.folder import RunFolder
from dredge.runs.payload import NewerFormatError, from_json, from_versioned, to_json
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once

if TYPE_CHECKING:
    from dredge.gc.config import GCConfig
    from dredge.gc.list_committed import ListCommittedOutput
    from dredge.gc.run import Run


FORMAT = 1
FOLDER = "witness"
POINTER = f"{FOLDER}/last_mark.json"
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
"""Rows of commits. `branches` had the commit as their head. All fields from `parents` on are null for a commit of which
only the id and the metarange were known; `metadata` is a JSON object."""
TABLES = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("kind", pa.string(), nullable=False)]
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What settings of a run keep active beyond lakeFS's rules.

    Attributes:
        tags: whether commits with a tag are.
        policy: digest of the retention policy; None without one.
    """

    tags: bool
    policy: str | None

    @classmethod
    def of(cls, config: GCConfig) -> Kept:
        """Of the settings of a run."""
        return cls(config.keep_tags, None if config.policy is None else config.policy.digest)

    def is_less_than(self, other: Kept) -> bool:
        """Whether commits may be active by the other one only."""
        return (other.tags and not self.tags) or other.policy not in (None, self.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time without a complete mark that was longer than unnamed metaranges are kept; a payload.

    Attributes:
        began: the store's time of the mark before it.
        ended: the store's time of the mark after it.
    """

    began: datetime
    ended: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRecord:
    """What a complete mark left.

    Attributes:
        repository: its name in lakeFS.
        namespace: URI of its storage namespace.
        repository_created_at: its creation date; None if the server does not return it.
        run_id: the run.
        run_uri: the run's folder.
        marked_at: the store's time when the run was planned, before it read anything.
        left_at: the store's time when the record was written.
        commits: rows of commits.
        tables: rows of opened files.
        kept: by the repository's own settings: those of the last run that was to delete, or else of the first mark.
        pause: the last one; None where marks need it no more.
        format: number of the format.
    """

    repository: str
    namespace: str
    repository_created_at: datetime | None
    run_id: str
    run_uri: str
    marked_at: datetime
    left_at: datetime
    commits: PartInfo
    tables: PartInfo
    kept: Kept
    pause: Pause | None = None
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored.

    Attributes:
        etag: of the pointer; None if there is none.
        record: None if there is none.
    """

    etag: str | None = None
    record: MarkRecord | None = None


def read_record(state: ObjectReader) -> Stored:
    """Read the record of the last complete mark.

    Args:
        state: on the folder of lease and index.

    Raises:
        RefusedError: a newer version of Dredge wrote it.
        FormatError: damaged.
    """
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


def read_commits(state: ObjectReader, record: MarkRecord) -> pa.Table:
    """Read the commits of a record (`COMMITS`); raises FormatError if they are gone or damaged."""
    return _read_part(state, record, record.commits)


def read_tables(state: ObjectReader, record: MarkRecord) -> dict[str, str]:
    """Read the kinds of opened files, by name; raises FormatError if they are gone or damaged."""
    table = _read_part(state, record, record.tables)
    return dict(zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True))


def is_about(record: MarkRecord, namespace: str) -> bool:
    """Whether a record is about a storage namespace: not so if the bucket is a copy of another one."""
    return canonical_namespace(record.namespace) == canonical_namespace(namespace)


def parts_of(record: MarkRecord) -> list[str]:
    """Keys of the parts that a record names, relative to the folder of lease and index."""
    return [record.commits.key, record.tables.key]


def write_record(run: Run, committed: ListCommittedOutput, commits: pa.Table, tables: pa.Table) -> None:
    """Write the record of a complete mark over the one that the mark was compared with.

    Args:
        run: whose mark it is; it holds the lease.
        committed: result of `list_committed`.
        commits: rows of commits.
        tables: rows of opened files.

    Raises:
        ConflictError: another mark has left its record since.
        OvertakenError: a later try of the step was begun.
    """
    facts = committed.detail("witness")
    folder, created = RunFolder(run.state, run.plan.run_id), facts["repository_created_at"]
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
        kept=_own_settings(run),
        pause=None if facts.get("pause") is None else from_json(Pause, facts["pause"]),
    )
    data = json.dumps(to_json(record), sort_keys=True).encode()
    run.check_right(record.left_at)  # a later try may have left its record
    if not replace_again(run.state, POINTER, data, facts["record_etag"], lambda found: _is_of(run, found)):
        raise ConflictError(
            f"run {run.plan.run_id}: another run has left the record of its mark in {run.state.uri}/{POINTER} since"
            " this run listed commits. Nothing was deleted. Start a new run."
        )


def is_what_if(config: GCConfig, record: MarkRecord | None) -> bool:
    """Whether a run only asks what would be garbage under settings that keep less than the repository's own: its mark
    does not know all that is active.

    Args:
        config: of the run.
        record: of the last complete mark.
    """
    return config.dry_run and record is not None and Kept.of(config).is_less_than(record.kept)


def _own_settings(run: Run) -> Kept:
    before = read_record(run.state).record if run.plan.dry_run else None
    return Kept.of(run.plan.config) if before is None else before.kept


def _is_of(run: Run, data: bytes) -> bool:
    """Whether a run left a record."""
    try:
        return bool(json.loads(data)["run_id"] == run.plan.run_id)
    except (KeyError, TypeError, ValueError):
        return False


def _read_part(state: ObjectReader, record: MarkRecord, part: PartInfo) -> pa.Table:
    try:
        return RunFolder(state, record.run_id).read_part(part)  # type: ignore[arg-type]
    except FormatError as error:
        raise _damaged(state, part.key, error) from None


def _damaged(state: ObjectReader, key: str, error: Exception) -> DredgeError:
    return FormatError(
        f"{state.uri}/{key}, in which the last complete mark left its commits, cannot be read: {error}. Nothing was"
        " deleted. Restore the file, such as an older version of it; or run `dredge gc forget-lost`, after which the"
        " next run starts without it."
    )


FORGET_LOST, RESTORE_LOST = "forget-lost", "restore-lost"
"""Kinds of statements. `what` of the first has `commits` and `metaranges`, ids that were given up; of the second
`commits`: by the id of a lost commit the id of the one that has its content now."""


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier marks left.

    Attributes:
        etag: of the pointer to the record; None if there is none.
        record: of the last complete mark; None if there is none that counts.
        commits: rows of its commits (`COMMITS`).
        kinds: kinds of files that were opened, by name.
        forgotten_at: when a person last gave up what was lost; None if nobody did.
        forgotten: metaranges that were given up, each with the time.
        given_up: commits that were given up, each with the time.
        restored: by the id of a lost commit the id of the one that has its content now.
    """

    etag: str | None = None
    record: MarkRecord | None = None
    commits: pa.Table = field(default_factory=COMMITS.empty_table)
    kinds: Mapping[str, str] = field(default_factory=dict)
    forgotten_at: datetime | None = None
    forgotten: Mapping[str, datetime] = field(default_factory=dict)
    given_up: Mapping[str, datetime] = field(default_factory=dict)
    restored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, state: ObjectReader, namespace: str) -> Past:
        """Read the record of the last complete mark of a namespace, and the statements of people.

        Args:
            state: on the folder of lease and index.
            namespace: URI of the storage namespace.

        Raises:
            RefusedError: a newer version of Dredge wrote the record.
            FormatError: the record or a statement is damaged.
        """
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
        stored, commits, kinds = _read_record(state, namespace, forgotten_at, record)
        return cls(stored.etag, stored.record, commits, kinds, forgotten_at, forgotten, given_up, restored)

    @property
    def compares(self) -> bool:
        """Whether the life of the repository must still be the record's: nobody has given up what was lost since."""
        return self.record is not None and (
            self.forgotten_at is None or self.record.left_at > self.forgotten_at
        )

    @property
    def active(self) -> list[str]:
        """Ids of the commits that the last complete mark called active, but for those that were given up since."""
        if self.record is None:
            return []
        found: list[str] = self.commits.filter(self.commits["active"])["commit_id"].to_pylist()
        left_at = self.record.left_at
        return [item for item in found if item not in self.given_up or self.given_up[item] < left_at]

    @property
    def active_metaranges(self) -> set[str]:
        """Metaranges of the commits in `active`."""
        rows = self.commits.filter(pc.is_in(self.commits["commit_id"], pa.array(self.active, pa.string())))
        return set(filter(None, rows["metarange_id"].to_pylist()))

    @property
    def metaranges(self) -> set[str]:
        """Metaranges of all its commits."""
        return set(filter(None, self.commits["metarange_id"].to_pylist()))

    def since(self, now: datetime, keep_unnamed: timedelta) -> datetime:
        """Metaranges that no known commit names count if they were written then or later.

        Args:
            now: the store's time.
            keep_unnamed: how long they count at least.
        """
        if self.record is None:
            return now - keep_unnamed
        since, pause = min(now - keep_unnamed, self.record.marked_at), self.record.pause
        return since if pause is None or now - pause.ended >= keep_unnamed else min(since, pause.began)

    def pause(self, now: datetime, keep_unnamed: timedelta) -> Pause | None:
        """The last time without a mark that was longer than metaranges are kept: what was written then counts from the
        mark that ended it for as long.

        Args:
            now: the store's time.
            keep_unnamed: how long they count at least.
        """
        if self.record is None:
            return None
        longest = max(keep_unnamed, timedelta(days=KEEP_UNNAMED_DAYS))  # another run may keep them longer
        pause, last = self.record.pause, self.record.marked_at
        if pause is not None and now - pause.ended < longest:
            return pause
        return Pause(began=last, ended=now) if now - last > keep_unnamed else None

    def rows(self, commits: Iterable[str]) -> list[dict[str, Any]]:
        """Rows of some commits, in the order of their ids."""
        wanted = set(commits)
        found = [row for row in self.commits.to_pylist() if row["commit_id"] in wanted]
        return sorted(found, key=lambda row: str(row["commit_id"]))


def _read_record(
    state: ObjectReader, namespace: str, forgotten_at: datetime | None, reading: Future[Stored]
) -> tuple[Stored, pa.Table, Mapping[str, str]]:
    stored = Stored()
    try:
        stored = reading.result()
        record = stored.record
        if record is not None and is_about(record, namespace):
            with at_once() as ask:
                tables = ask(read_tables, state, record)
                commits = read_commits(state, record)
            return stored, commits, tables.result()
    except FormatError:
        info = state.stat(POINTER)
        if forgotten_at is None or forgotten_at < info.last_modified:
            raise
        return Stored(info.etag), COMMITS.empty_table(), {}
    return Stored(stored.etag), COMMITS.empty_table(), {}
