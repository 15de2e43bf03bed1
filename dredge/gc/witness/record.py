"""The record of the last complete mark: its commits, for the marks after it.

    <state>/witness/last_mark.json          the pointer: run, repository, its creation date, times, parts with digests
    <state>/witness/<label>-commits-….parquet   every commit that the mark saw, and which of them were active
    <state>/witness/<label>-tables-….parquet    files of `_lakefs/` that were opened, with their kind

The record lies in the folder of lease and index, so no cleaning of run folders removes it. The parts are written first
and the pointer last, under the lease and with a condition: after a kill between the two the old record counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from dredge.errors import ConflictError, DredgeError, FormatError
from dredge.gc.namespaces import canonical_namespace
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
