"""Rules for whole partitions, of repositories and of staged changes; the status of each repository's partition.

Records decide first, then the shape of a name. A partition without a matching rule is live, or a person decides.

Source: docs/trash.md ("Rules"), measured on a real server; every rule has its dumps in tests/fixtures/kv.

Branch heads and tokens of the last look are noted (`Noted`); by the rows it lacks, a database restored from a backup is
detected. lakeFS never removes commit records, so a missing one means an older or another database. A token without a
reference now, and without a place in the server's drop queue, may have lost its branch record together with a part of
the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct, field

from dredge.errors import WitnessError
from dredge.kv.rows import show
from dredge.trash import names
from dredge.trash.findings import HANDED_OVER, HELD, TrashFinding, TrashMargins, Verdict
from dredge.trash.look import Contents, InstanceLook, Look, RepositoryRecord, value_digest

_SHOWN = 5


class Noted(Struct, frozen=True):
    """References of earlier looks."""

    # branch heads of the last look, by the partition of their repository
    heads: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    named: frozenset[str] = frozenset()  # digests of the tokens referenced then
    # digests of tokens referenced earlier, each with the time of the first look without the reference
    missed: Mapping[str, datetime] = field(default_factory=dict)

    def missed_since(self, token: bytes) -> datetime | None:
        """Time since when a token referenced earlier has no reference; None for others."""
        return self.missed.get(_digest(token))

    def after(self, look: Look, now: datetime, longest: timedelta) -> Noted:
        """The notes after a look; `longest` is the time to remember a token."""
        seen = look.references
        named = frozenset(map(_digest, {*seen.tokens, *look.unsure}))
        missed = {token: self.missed.get(token, now) for token in (self.named | self.missed.keys()) - named}
        lately = {token: since for token, since in missed.items() if now - since < longest}
        return Noted(look.heads, named, lately)

    def without_times(self) -> Noted:
        """The notes without times: the time of a missed token begins at the next look."""
        return Noted(self.heads, self.named | self.missed.keys())


def check_known(look: Look, location: str) -> None:
    """Refuse a store without the commit record of a noted branch head."""
    if not look.lost_commits:
        return
    lost = [
        f"{show(partition)}: {', '.join(commit[:12] for commit in commits[:_SHOWN])}"
        for partition, commits in sorted(look.lost_commits.items())
    ]
    if len(lost) > _SHOWN:
        lost[_SHOWN:] = [f"{len(lost) - _SHOWN:,} more repositories"]
    raise WitnessError(
        f"{location}: {sum(map(len, look.lost_commits.values())):,} branch heads of the last scan have no commit"
        f" record now ({'; '.join(lost)}). lakeFS never removes one, so this database is another one, or was restored"
        " from a backup. Nothing was removed. For the wrong database, correct the connection. After a restore on"
        " purpose, start with an empty state folder: all waits begin again."
    )


def _digest(token: bytes) -> str:
    return hashlib.blake2b(token, digest_size=8).hexdigest()


# Status of a repository's partition. The first three are in its record; the others have no record.
Status = Literal[
    "active", "in-deletion", "initial", "handed-over", "zombie", "leftovers", "lost", "unclear", "unsure"
]
_CREATING = "young: may be a repository being created"


class Classifier:
    """Classifies the rows of one look. `now`: time of the look (aware UTC, of the store's clock within
    `margins.clock_skew`)."""

    def __init__(self, look: Look, now: datetime, margins: TrashMargins, noted: Noted | None = None) -> None:
        self.look = look
        self.references = look.references
        self.now = now
        self.margins = margins
        self._noted = noted or Noted()
        self.statuses: dict[bytes, Status] = {
            partition: self._status(partition, instance) for partition, instance in look.instances.items()
        } | dict.fromkeys(look.unsure, "unsure")

    def candidate(
        self,
        partition: bytes,
        key: bytes | None,
        kind: str,
        why: str,
        contents: Contents,
        *,
        since: datetime | None = None,
        young: str = "",
        held: str = "",
    ) -> TrashFinding:
        """A finding without references, for a wait and then removal. `young`: why it is too young by that time; "" if
        it is not. `held`: why it cannot be proved unreferenced; "" if it can."""
        return TrashFinding(
            partition,
            key,
            kind,
            "wait" if young or held else "trash",
            held or young or why,
            contents.rows,
            contents.size_bytes,
            contents.digest,
            since,
            code=HELD if held else "",
        )

    def is_young(self, since: datetime) -> bool:
        """Whether the time in an id is too recent, or in the future."""
        return self.now - since < self.margins.id_age

    def was_named_lately(self, token: bytes) -> bool:
        """Whether an earlier look within `margins.unnamed` saw a reference to a token."""
        since = self._noted.missed_since(token)
        return since is not None and self.now - since < self.margins.unnamed

    def status_of(self, partition: bytes) -> Status | None:
        """Status of a repository's partition, or None."""
        record = self.references.partitions.get(partition)  # a bare repository has a record and no rows
        return self.statuses.get(partition) if record is None else record.state

    def _status(self, partition: bytes, instance: InstanceLook) -> Status:
        record = self.references.partitions.get(partition)
        if record is not None:
            return record.state
        if _handed_over(self.look, partition):
            return "handed-over"
        branches = self.references.branches.get(partition, {})
        staged = any(token in self.look.partitions for branch in branches.values() for token in branch.tokens)
        commits = instance.commits
        heads = [branch.commit for branch in branches.values()] + list(instance.tags.values())
        first = [commit for commit in commits.values() if not commit.parents]
        if staged:
            return "lost"
        if len(commits) == 1 and first and first[0].generation == 1 and not first[0].has_metarange:
            only_head = all(branch.commit in commits for branch in branches.values())
            if len(branches) <= 1 and only_head and not instance.tags and not instance.others:
                return "zombie"
        usable = any(head in commits for head in heads)
        if usable or (first and any(commit.has_metarange for commit in commits.values())):
            return "lost"
        # A delete removes branches and tags first: if one is left, its commit was lost in another way.
        if not (heads or first) and all(_known_leftover(key) for key in instance.others):
            return "leftovers"
        return "unclear"


def one_row(key: bytes, value: bytes) -> Contents:
    """Contents of a single row."""
    return Contents(1, len(key) + len(value), value_digest(value))


def _handed_over(look: Look, partition: bytes) -> bool:
    life = names.parse_instance(partition)
    return life is not None and f"repo/{life.repository}/{life.uid}".encode() in look.small.get(
        names.DELETED, {}
    )


def _known_leftover(key: bytes) -> bool:
    return key == names.REPOSITORY_METADATA_KEY or key.startswith(names.OTHER_KEYS)


def partitions(classifier: Classifier) -> Iterator[TrashFinding]:
    """Classify the partitions of repositories and of staged changes."""
    look = classifier.look
    for partition, instance in look.instances.items():
        if partition not in look.unsure:
            yield from _instance(classifier, partition, instance)
    for partition, contents in look.staging.items():
        if partition not in look.unsure:
            yield from _staging(classifier, partition, contents)
    for partition in sorted(look.unsure):
        yield TrashFinding(partition, None, "in-motion", "wait", "was in use when this look began")
    for partition in look.unknown:
        yield TrashFinding(partition, None, "unknown", "report", "not a name that lakeFS writes: it stays")


def _instance(classifier: Classifier, partition: bytes, instance: InstanceLook) -> Iterator[TrashFinding]:
    status = classifier.statuses[partition]
    contents = instance.contents
    if status == "active":
        why = "reachable by id only; retention may still use it"
        for commit in instance.dangling:
            yield TrashFinding(partition, b"commits/" + commit.encode(), "commit-dangling", "report", why, 1)
    elif status in ("in-deletion", "initial"):
        record = classifier.references.partitions[partition]
        for key, size_bytes in instance.names.items():
            yield TrashFinding(
                partition, key, names.first_part(key), "wait", "live repository", 1, size_bytes
            )
        yield _unusable(classifier, record)
    elif status == "handed-over":
        why = "deleted and handed over to the cleaner"
        yield classifier.candidate(partition, None, HANDED_OVER, why, contents)
    elif status == "lost":
        why = "has history or staged data, but no record references it"
        yield _reported(classifier, partition, "lost-repository", why, contents)
    elif status == "unclear":
        why = "no record references it; neither a failed create nor the leftovers of a delete"
        yield _reported(classifier, partition, "repository-unclear", why, contents)
    else:
        yield _unrecorded(classifier, partition, status, contents)


def _unrecorded(classifier: Classifier, partition: bytes, status: Status, contents: Contents) -> TrashFinding:
    life = names.parse_instance(partition)
    assert life is not None  # it is an instance only by its shape
    young = _CREATING if classifier.is_young(life.created) else ""
    if status == "zombie":
        kind, why = "zombie-create", "first commit and branch only, no record"
    else:
        kind, why = "deleted-repository-leftovers", "no record, no first commit, no usable head"
    return classifier.candidate(partition, None, kind, why, contents, since=life.created, young=young)


def _reported(
    classifier: Classifier, partition: bytes, kind: str, why: str, contents: Contents
) -> TrashFinding:
    life = names.parse_instance(partition)
    since = life.created if life else None
    verdict: Verdict = "report"
    if since is not None and classifier.is_young(since):
        verdict, why = "wait", _CREATING
    return TrashFinding(partition, None, kind, verdict, why, contents.rows, contents.size_bytes, since=since)


def _unusable(classifier: Classifier, record: RepositoryRecord) -> TrashFinding:
    """A repository in deletion or creation: lakeFS or a person has to finish it."""
    key = names.REPOSITORY_PREFIX + record.name.encode()
    size = len(key) + len(record.value)
    if record.state == "in-deletion":
        why = "its deletion has not ended: delete it again through the API"
        return TrashFinding(names.REPOSITORIES, key, "repository-in-deletion", "report", why, 1, size)
    if classifier.is_young(record.created):
        return TrashFinding(names.REPOSITORIES, key, "repository-initial", "wait", _CREATING, 1, size)
    why = "its creation failed: get it through the API, so that lakeFS marks it, then delete it"
    return TrashFinding(names.REPOSITORIES, key, "repository-initial", "report", why, 1, size)


def _staging(classifier: Classifier, partition: bytes, contents: Contents | None) -> Iterator[TrashFinding]:
    queued = partition in classifier.look.small.get(names.MARKERS, {})
    naming = classifier.references.tokens.get(partition)
    if naming is not None:
        statuses = {classifier.status_of(owner) for owner in naming}
        rows, size = (contents.rows, contents.size_bytes) if contents else (0, 0)
        if "active" in statuses:
            if queued:
                why = "the server will drop a partition that a branch still references"
                yield TrashFinding(partition, None, "staging-live-but-queued", "report", why, rows, size)
            return
        verdict: Verdict = "report" if statuses & {"lost", "unclear"} else "wait"
        yield TrashFinding(partition, None, "staging", verdict, "referenced by a branch record", rows, size)
    elif contents is None:
        return  # emptied during this look
    elif queued:
        why = "queued for dropping; no branch references it"
        yield classifier.candidate(partition, None, "staging-queued", why, contents)
    else:
        named = classifier.was_named_lately(partition)
        held = "a branch referenced it lately; the branch's record may be lost" if named else ""
        yield classifier.candidate(
            partition, None, "staging-orphan", "no branch references it", contents, held=held
        )
