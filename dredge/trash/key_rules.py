"""Single keys that are trash: queue markers, indexes, hook results, status records, hints.

A key of one of these partitions that cannot be read, or has another shape, is reported and never touched.

Source: docs/trash.md, "What is trash" (second table).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from dredge.errors import FormatError
from dredge.graveler import messages
from dredge.kv.rows import show_key
from dredge.trash.finding import Finding
from dredge.trash.names import (
    ACTIONS,
    DELETED,
    INSTANCES,
    MARKERS,
    MULTIPARTS,
    OWNERS,
    PULLS,
    countdown_time,
    deleted_instance,
)
from dredge.trash.references import RepositoryRecord
from dredge.trash.rules import Judge, Status, one_row

_UNDECIDED: frozenset[Status | None] = frozenset({"in-deletion", "initial", "lost", "unclear", "unsure"})
"""What becomes of such a repository is for others to say; whatever belongs to it waits."""


def keys(judge: Judge) -> Iterator[Finding]:
    """Judge every key that is judged by itself."""
    small = judge.look.small
    yield from _each(judge, MARKERS, small.get(MARKERS, {}), _marker)
    yield from _each(judge, PULLS, small.get(PULLS, {}), _pull_index)
    yield from _actions(judge, small.get(ACTIONS, {}))
    yield from _each(judge, OWNERS, small.get(OWNERS, {}), _owner)
    yield from _each(judge, MULTIPARTS, small.get(MULTIPARTS, {}), _multipart)
    yield from _each(judge, INSTANCES, small.get(INSTANCES, {}), _heartbeat)
    yield from _each(judge, DELETED, small.get(DELETED, {}), _deleted_entry)
    for partition, instance in judge.look.instances.items():
        if judge.statuses[partition] == "active":
            yield from _each(judge, partition, instance.others, _status_record)


def pull_of_index(key: bytes, value: bytes) -> tuple[bytes, str] | None:
    """Read a pull request's index entry: the repository's partition and the pull's id; None for another
    shape."""
    parts = key.split(b"/")
    if len(parts) < 4 or parts[0] != b"repos":
        return None
    index = messages.decode(messages.SecondaryIndex, value, show_key(PULLS, key))
    return parts[1], index.primary_key.decode("utf-8", "replace")


def repository_of_action(key: bytes) -> str | None:
    """Name the repository that an action's key belongs to; None for another shape."""
    parts = key.split(b"/")
    if len(parts) < 4 or parts[0] != b"repos" or parts[2] not in (b"runs", b"tasks", b"branches", b"commits"):
        return None
    return parts[1].decode("utf-8", "replace")


def branch_of_owner(key: bytes) -> tuple[str, str] | None:
    """Read the key of an ownership hint, `…/<length>:<repository>/<branch>`; None for another shape."""
    prefix = "run-refs/approximate-branch-owner/"
    text = key.decode("utf-8", "replace")
    length, colon, rest = text.removeprefix(prefix).partition(":")
    if not text.startswith(prefix) or not colon or not length.isdecimal():
        return None
    repository, slash, branch = rest[: int(length)], rest[int(length) :][:1], rest[int(length) + 1 :]
    return (repository, branch) if slash == "/" and branch else None


def _each(judge: Judge, partition: bytes, rows: Mapping[bytes, bytes], rule: object) -> Iterator[Finding]:
    for key, value in rows.items():
        try:
            finding = rule(judge, partition, key, value)  # type: ignore[operator]
        except FormatError as error:
            finding = _left_alone(partition, key, value, str(error))
        if finding is not None:
            yield finding


def _marker(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding:
    naming = judge.references.tokens.get(key)
    row = one_row(key, value)
    if naming is not None:
        live = any(judge.status_of(owner) == "active" for owner in naming)
        kind, verdict = ("marker-of-live-token", "report") if live else ("marker", "wait")
        return Finding(partition, key, kind, verdict, "named by a branch", 1, row.size_bytes)  # type: ignore[arg-type]
    if key in judge.look.partitions or key in judge.look.unsure:
        return Finding(partition, key, "marker", "wait", "its partition goes first", 1, row.size_bytes)
    return judge.settle(partition, key, "marker", "its partition is empty", row)


def _pull_index(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding | None:
    found = pull_of_index(key, value)
    if found is None:
        return _left_alone(partition, key, value)
    owner, pull = found
    status = judge.status_of(owner)
    row = one_row(key, value)
    if status in _UNDECIDED:
        return Finding(partition, key, "pull-index", "wait", "follows its repository", 1, row.size_bytes)
    if status == "active":
        instance = judge.look.instances.get(owner)
        if instance is not None and b"pulls/" + pull.encode() in instance.others:
            return None
        kind = "pull-index-dangling"
    else:
        kind = "pull-index-of-missing-repository"
    made = countdown_time(pull)
    if made is None:
        return _left_alone(partition, key, value, "the id of its pull request carries no time")
    young = "young: its pull request may be about to be written" if judge.is_young(made) else ""
    return judge.settle(partition, key, kind, "points nowhere", row, since=made, young=young)


def _actions(judge: Judge, rows: Mapping[bytes, bytes]) -> Iterator[Finding]:
    def rule(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding | None:
        return _action(judge, partition, key, value, rows)

    yield from _each(judge, ACTIONS, rows, rule)


def _action(
    judge: Judge, partition: bytes, key: bytes, value: bytes, rows: Mapping[bytes, bytes]
) -> Finding | None:
    repository = repository_of_action(key)
    if repository is None:
        return _left_alone(partition, key, value)
    parts = key.decode("utf-8", "replace").split("/")
    run = parts[3] if parts[2] in ("runs", "tasks") else parts[-1]
    began = countdown_time(run)
    if began is None:
        return _left_alone(partition, key, value, "its run's id carries no time")
    run_key = f"repos/{repository}/runs/{run}".encode()
    if run_key in rows:
        began = max(began, _start(run_key, rows[run_key]))
    kind = _action_kind(judge, repository, began, run_key in rows)
    if kind is None:
        return None
    young = "young: its run may be under way" if judge.is_young(began) else ""
    return judge.settle(partition, key, kind, kind, one_row(key, value), since=began, young=young)


def _action_kind(judge: Judge, repository: str, began: datetime, has_run: bool) -> str | None:
    """Compare times, not names: the record of that name may be of a later life."""
    record = judge.references.repositories.get(repository)
    if record is None:
        return None if _undecided_life(judge, repository) else "actions-of-missing-repository"
    if record.state != "active":
        return None
    if began < record.created - judge.safety.instance_margin:
        return None if _undecided_life(judge, repository) else "actions-of-previous-instance"
    return None if has_run else "actions-of-missing-run"


def _undecided_life(judge: Judge, repository: str) -> bool:
    """Whether a life of that name has lost its record and may get it back from a person."""
    prefix = f"{repository}-".encode()
    return any(
        status in _UNDECIDED and len(partition) == len(prefix) + 20 and partition.startswith(prefix)
        for partition, status in judge.statuses.items()
    )


def _start(run_key: bytes, value: bytes) -> datetime:
    run = messages.decode(messages.RunResultData, value, show_key(ACTIONS, run_key))
    return messages.from_timestamp(run.start_time)


def _owner(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding | None:
    found = branch_of_owner(key)
    if found is None:
        return _left_alone(partition, key, value)
    repository, branch = found
    record = judge.references.repositories.get(repository)
    if record is not None and not _is_gone(judge, record, branch):
        return None
    if record is None and _undecided_life(judge, repository):
        return None
    hint = messages.decode(messages.BranchOwnership, value, show_key(partition, key))
    expires = messages.from_timestamp(hint.expires)
    recent = judge.now - expires < judge.safety.ownership_expiry
    young = "expired less than a day ago" if recent else ""
    return judge.settle(
        partition,
        key,
        "branch-owner-stale",
        "its branch is gone",
        one_row(key, value),
        since=expires,
        young=young,
    )


def _is_gone(judge: Judge, record: RepositoryRecord, branch: str) -> bool:
    return record.state == "active" and branch not in judge.references.branches.get(record.partition, {})


def _multipart(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding:
    upload = messages.decode(messages.UploadData, value, show_key(partition, key))
    begun = messages.from_timestamp(upload.creation_date)
    old = judge.now - begun >= judge.safety.multipart_report
    why = "does not name a repository; only the object store knows whether the upload is open"
    return Finding(
        partition, key, "multipart", "report" if old else "wait", why, 1, len(key) + len(value), since=begun
    )


def _heartbeat(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding | None:
    if not key.startswith(b"instances/"):
        return _left_alone(partition, key, value)
    beat = messages.decode(messages.InstanceHeartbeat, value, show_key(partition, key))
    return _expired(judge, partition, key, value, "heartbeat", "last beat is old", beat.updated_at)


def _status_record(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding | None:
    if key.startswith(b"imports/"):
        record = messages.decode(messages.ImportStatusData, value, show_key(partition, key))
        return _expired(judge, partition, key, value, "import-expired", "live repository", record.updated_at)
    if key.startswith(b"tasks/"):
        status = messages.decode(messages.GarbageCollectionPrepareStatus, value, show_key(partition, key))
        return _expired(
            judge, partition, key, value, "task-expired", "live repository", status.task.updated_at
        )
    return None


def _expired(
    judge: Judge,
    partition: bytes,
    key: bytes,
    value: bytes,
    kind: str,
    why: str,
    updated: messages.Timestamp,
) -> Finding | None:
    """Judge by the last update; a record that never says when is left alone, not taken for one of 1970."""
    if not updated.seconds:
        return _left_alone(partition, key, value, "does not say when it was updated")
    since = messages.from_timestamp(updated)
    if judge.now - since < judge.safety.expiry:
        return None
    row = one_row(key, value)
    return Finding(partition, key, kind, "trash", why, 1, row.size_bytes, row.digest, since)


def _deleted_entry(judge: Judge, partition: bytes, key: bytes, value: bytes) -> Finding:
    """An entry waits for its partition; one whose partition is empty (a bare repository's, or the cleaner died
    after the last row) is handed over by itself.
    """
    row = one_row(key, value)
    instance = deleted_instance(key)
    if instance is None:
        return _left_alone(partition, key, value)
    owner = instance.partition
    if owner in judge.references.partitions:
        why = "a record still names its repository"
    elif owner in judge.look.instances or owner in judge.look.unsure:
        why = "its repository's partition goes first"
    else:
        why = "its repository's partition is empty"
        return Finding(
            partition, key, "deleted-repository", "trash", why, row.rows, row.size_bytes, row.digest
        )
    return Finding(partition, key, "deleted-entry", "wait", why, row.rows, row.size_bytes)


def _left_alone(
    partition: bytes, key: bytes, value: bytes, why: str = "not a key that lakeFS writes here"
) -> Finding:
    return Finding(partition, key, "unknown", "report", f"{why}: left alone", 1, len(key) + len(value))
