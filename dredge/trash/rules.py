"""Classification of all rows, by a pure function of a look and of the references of earlier looks: `classify`.
Rules for single keys: queue markers, indexes, hook results, status records, hints; `partition_rules` has those
for partitions.

An unreadable key, or a key of another shape, is reported and never touched. Trash is removed after its wait
(`waiting`).

Source: docs/trash.md, second table.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from dredge.errors import FormatError
from dredge.kv.rows import show_key
from dredge.lakefs.files import messages
from dredge.trash import names
from dredge.trash.findings import HANDED_OVER, TrashFinding, TrashMargins, Verdict
from dredge.trash.look import Look, RepositoryRecord
from dredge.trash.partition_rules import Classifier, Noted, Status, one_row, partitions

OF_EARLIER_LIFE = "actions-of-previous-instance"
OF_MISSING_REPOSITORY = "actions-of-missing-repository"
OF_MISSING_RUN = "actions-of-missing-run"
# The state of such a repository is not settled; its keys wait.
_UNDECIDED: frozenset[Status | None] = frozenset({"in-deletion", "initial", "lost", "unclear", "unsure"})

type _Rule = Callable[[Classifier, bytes, bytes, bytes], TrashFinding | None]


def classify(
    look: Look, now: datetime, margins: TrashMargins, noted: Noted | None = None
) -> tuple[TrashFinding, ...]:
    """Classify all rows of a store. Returns all rows that are not plainly live, in order of partition and key."""
    classifier = Classifier(look, now, margins, noted)
    findings = [*partitions(classifier), *keys(classifier)]
    return tuple(sorted(findings, key=lambda finding: (finding.partition, finding.key or b"")))


def keys(classifier: Classifier) -> Iterator[TrashFinding]:
    """Classify the single keys."""
    for partition, rule in _RULES.items():
        yield from _each(classifier, partition, classifier.look.small.get(partition, {}), rule)
    for partition, instance in classifier.look.instances.items():
        if classifier.statuses[partition] == "active":
            yield from _each(classifier, partition, instance.others, _status_record)


def pull_of_index(key: bytes, value: bytes) -> tuple[bytes, str] | None:
    """Read the index entry of a pull request: the repository's partition and the pull's id; None for another shape."""
    parts = key.split(b"/")
    if len(parts) < 4 or parts[0] != b"repos":
        return None
    index = messages.decode(messages.SecondaryIndex, value, show_key(names.PULLS, key))
    return parts[1], index.primary_key.decode("utf-8", "replace")


def repository_of_action(key: bytes) -> str | None:
    """Repository of an action's key; None for another shape."""
    parts = key.split(b"/")
    if len(parts) < 4 or parts[0] != b"repos" or parts[2] not in (b"runs", b"tasks", b"branches", b"commits"):
        return None
    return parts[1].decode("utf-8", "replace")


def run_of_action(key: bytes) -> bytes:
    """The key of the hook run to which an action's key belongs; only for keys with a `repository_of_action`."""
    parts = key.split(b"/")
    run = parts[3] if parts[2] in (b"runs", b"tasks") else parts[-1]
    return b"/".join((*parts[:2], b"runs", run))


def branch_of_owner(key: bytes) -> tuple[str, str] | None:
    """Repository and branch of an ownership hint's key, `…/<length>:<repository>/<branch>`; None for another shape."""
    prefix = "run-refs/approximate-branch-owner/"
    text = key.decode("utf-8", "replace")
    length, colon, rest = text.removeprefix(prefix).partition(":")
    if not text.startswith(prefix) or not colon or not length.isdecimal():
        return None
    repository, slash, branch = rest[: int(length)], rest[int(length) :][:1], rest[int(length) + 1 :]
    return (repository, branch) if slash == "/" and branch else None


def _each(
    classifier: Classifier, partition: bytes, rows: Mapping[bytes, bytes], rule: _Rule
) -> Iterator[TrashFinding]:
    for key, value in rows.items():
        try:
            finding = rule(classifier, partition, key, value)
        except FormatError as error:
            finding = _left_alone(partition, key, value, str(error))
        if finding is not None:
            yield finding


def _marker(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding:
    naming = classifier.references.tokens.get(key)
    row = one_row(key, value)
    if naming is not None:
        live = any(classifier.status_of(owner) == "active" for owner in naming)
        verdict: Verdict = "report" if live else "wait"
        kind = "marker-of-live-token" if live else "marker"
        return TrashFinding(partition, key, kind, verdict, "a branch references it", 1, row.size_bytes)
    if key in classifier.look.partitions:
        return TrashFinding(partition, key, "marker", "wait", "after its partition", 1, row.size_bytes)
    return classifier.candidate(partition, key, "marker", "its partition is empty", row)


def _pull_index(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding | None:
    found = pull_of_index(key, value)
    if found is None:
        return _left_alone(partition, key, value)
    owner, pull = found
    status = classifier.status_of(owner)
    row = one_row(key, value)
    if status in _UNDECIDED:
        return TrashFinding(partition, key, "pull-index", "wait", "with its repository", 1, row.size_bytes)
    if status == "active":
        instance = classifier.look.instances.get(owner)
        if instance is not None and b"pulls/" + pull.encode() in instance.others:
            return None
        kind = "pull-index-dangling"
    else:
        kind = "pull-index-of-missing-repository"
    made = names.countdown_time(pull)
    if made is None:
        return _left_alone(partition, key, value, "the id of its pull request has no time")
    young = "young: its pull request may be about to be written" if classifier.is_young(made) else ""
    return classifier.candidate(partition, key, kind, "its target is missing", row, since=made, young=young)


def _action(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding | None:
    rows = classifier.look.small[partition]
    repository = repository_of_action(key)
    if repository is None:
        return _left_alone(partition, key, value)
    run_key = run_of_action(key)
    began = names.countdown_time(run_key.rpartition(b"/")[2].decode("utf-8", "replace"))
    if began is None:
        return _left_alone(partition, key, value, "its run's id has no time")
    if run_key in rows:
        began = max(began, _start(run_key, rows[run_key]))
    kind = _action_kind(classifier, repository, began, run_key in rows)
    if kind is None:
        return None
    young = "young: its run may be in progress" if classifier.is_young(began) else ""
    return classifier.candidate(partition, key, kind, kind, one_row(key, value), since=began, young=young)


def _action_kind(classifier: Classifier, repository: str, began: datetime, has_run: bool) -> str | None:
    # Times are compared, not names: the record of that name may be of a later life.
    record = classifier.references.repositories.get(repository)
    if record is None:
        return None if _undecided_life(classifier, repository) else OF_MISSING_REPOSITORY
    if record.state != "active":
        return None
    if began < record.created - classifier.margins.instance_margin:
        return None if _undecided_life(classifier, repository) else OF_EARLIER_LIFE
    return None if has_run else OF_MISSING_RUN


def _undecided_life(classifier: Classifier, repository: str) -> bool:
    """Whether a life of this name lost its record; a person may restore the record."""
    prefix = f"{repository}-".encode()
    return any(
        status in _UNDECIDED and len(partition) == len(prefix) + 20 and partition.startswith(prefix)
        for partition, status in classifier.statuses.items()
    )


def _start(run_key: bytes, value: bytes) -> datetime:
    run = messages.decode(messages.RunResultData, value, show_key(names.ACTIONS, run_key))
    return messages.from_timestamp(run.start_time)


def _owner(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding | None:
    found = branch_of_owner(key)
    if found is None:
        return _left_alone(partition, key, value)
    repository, branch = found
    record = classifier.references.repositories.get(repository)
    if record is not None and not _is_gone(classifier, record, branch):
        return None
    if record is None and _undecided_life(classifier, repository):
        return None
    hint = messages.decode(messages.BranchOwnership, value, show_key(partition, key))
    expires = messages.from_timestamp(hint.expires)
    recent = classifier.now - expires < classifier.margins.ownership_expiry
    why, young = "its branch is missing", "expired less than a day ago" if recent else ""
    row = one_row(key, value)
    return classifier.candidate(partition, key, "branch-owner-stale", why, row, since=expires, young=young)


def _is_gone(classifier: Classifier, record: RepositoryRecord, branch: str) -> bool:
    return record.state == "active" and branch not in classifier.references.branches.get(record.partition, {})


def _multipart(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding:
    upload = messages.decode(messages.UploadData, value, show_key(partition, key))
    begun = messages.from_timestamp(upload.creation_date)
    old = classifier.now - begun >= classifier.margins.multipart_report
    why = "does not name a repository; only the object store knows whether the upload is open"
    return TrashFinding(
        partition, key, "multipart", "report" if old else "wait", why, 1, len(key) + len(value), since=begun
    )


def _heartbeat(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding | None:
    if not key.startswith(b"instances/"):
        return _left_alone(partition, key, value)
    beat = messages.decode(messages.InstanceHeartbeat, value, show_key(partition, key))
    return _expired(classifier, partition, key, value, "heartbeat", "its heartbeat is old", beat.updated_at)


def _status_record(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding | None:
    name = show_key(partition, key)
    if key.startswith(b"imports/"):
        kind, updated = "import-expired", messages.decode(messages.ImportStatusData, value, name).updated_at
    elif key.startswith(b"tasks/"):
        status = messages.decode(messages.GarbageCollectionPrepareStatus, value, name)
        kind, updated = "task-expired", status.task.updated_at
    else:
        return None
    return _expired(classifier, partition, key, value, kind, "live repository", updated)


def _expired(
    classifier: Classifier,
    partition: bytes,
    key: bytes,
    value: bytes,
    kind: str,
    why: str,
    updated: messages.Timestamp,
) -> TrashFinding | None:
    if not updated.seconds:  # no time is no time of 1970
        return _left_alone(partition, key, value, "has no update time")
    since = messages.from_timestamp(updated)
    if classifier.now - since < classifier.margins.expiry:
        return None
    return classifier.candidate(partition, key, kind, why, one_row(key, value), since=since)


def _deleted_entry(classifier: Classifier, partition: bytes, key: bytes, value: bytes) -> TrashFinding:
    # The removal takes an entry only after its partition.
    row = one_row(key, value)
    instance = names.deleted_instance(key)
    if instance is None:
        return _left_alone(partition, key, value)
    owner = instance.partition
    if owner in classifier.references.partitions:
        why = "a record still references its repository"
    elif owner in classifier.look.unsure:
        why = "its repository's partition was in use when this look began"
    else:
        return classifier.candidate(partition, key, HANDED_OVER, "removed after its repository", row)
    return TrashFinding(partition, key, "deleted-entry", "wait", why, row.rows, row.size_bytes)


def _left_alone(
    partition: bytes, key: bytes, value: bytes, why: str = "not a key that lakeFS writes here"
) -> TrashFinding:
    return TrashFinding(partition, key, "unknown", "report", f"{why}: it stays", 1, len(key) + len(value))


_RULES: Mapping[bytes, _Rule] = {
    names.MARKERS: _marker,
    names.PULLS: _pull_index,
    names.ACTIONS: _action,
    names.OWNERS: _owner,
    names.MULTIPARTS: _multipart,
    names.INSTANCES: _heartbeat,
    names.DELETED: _deleted_entry,
}
