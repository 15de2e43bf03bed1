"""What is trash, and why: pure functions over a look and the sightings before it.

Records decide first, the shape of a name only afterwards. Whatever matches no rule is live or a person's
business.

Source: docs/trash.md, "What is trash", measured on a real server; every rule has its dumps in
tests/fixtures/kv.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dredge.trash.finding import Finding, Verdict
from dredge.trash.look import Contents, InstanceLook, Look, value_digest
from dredge.trash.names import (
    DELETED,
    MARKERS,
    OTHER_KEYS,
    REPOSITORIES,
    REPOSITORY_METADATA_KEY,
    REPOSITORY_PREFIX,
    first_part,
    parse_instance,
)
from dredge.trash.references import RepositoryRecord
from dredge.trash.safety import Safety
from dredge.trash.sightings import Sighting, Sightings

Status = Literal[
    "active", "in-deletion", "initial", "handed-over", "zombie", "leftovers", "lost", "unclear", "unsure"
]
"""What a repository's partition is. The first three are told by its record; the others have none."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one look.

    Args:
        findings: everything that is not plainly live.
        sightings: to be remembered for the next look.
    """

    findings: tuple[Finding, ...]
    sightings: Sightings


class Judge:
    """Judges one look.

    Args:
        look: what was seen.
        before: what earlier looks saw unused.
        now: time of this look (aware UTC, of the store's clock within `safety.clock_skew`).
        safety: the margins.
    """

    def __init__(self, look: Look, before: Sightings, now: datetime, safety: Safety) -> None:
        self.look = look
        self.references = look.references
        self.now = now
        self.safety = safety
        self._before = before
        self.seen: list[Sighting] = []
        self.statuses: dict[bytes, Status] = {
            partition: self._status(partition, instance) for partition, instance in look.instances.items()
        } | dict.fromkeys(look.unsure, "unsure")

    def partitions(self) -> Iterator[Finding]:
        """Judge repositories' and staging partitions."""
        for partition, instance in self.look.instances.items():
            if partition not in self.look.unsure:
                yield from self._instance(partition, instance)
        for partition, contents in self.look.staging.items():
            if partition not in self.look.unsure:
                yield from self._staging(partition, contents)
        for partition in sorted(self.look.unsure):
            yield Finding(partition, None, "in-motion", "wait", "was in use when this look began")
        for partition in self.look.unknown:
            yield Finding(partition, None, "unknown", "report", "not a name that lakeFS writes: left alone")

    def settle(
        self,
        partition: bytes,
        key: bytes | None,
        kind: str,
        why: str,
        contents: Contents,
        *,
        since: datetime | None = None,
        young: str = "",
        when_settled: str = "",
    ) -> Finding:
        """Judge something unused: trash once it is old enough and was seen like this a grace period ago.

        Args:
            partition: whose.
            key: or None for the whole partition.
            kind: what it would be.
            why: the rule in words.
            contents: its rows.
            since: time of its id, where it has one.
            young: why it has to wait because of that time; "" when it has not.
            when_settled: replaces `why` for trash.
        """
        sighting = self._before.since(partition, key, contents.digest, self.now)
        self.seen.append(sighting)
        verdict: Verdict = "wait"
        if young:
            why = young
        elif self._is_settled(sighting):
            verdict, why = "trash", when_settled or why
        elif sighting.first_seen == self.now:
            why = f"{why}; first sighting"
        else:
            why = f"{why}; seen before, but not long enough ago"
        return Finding(
            partition,
            key,
            kind,
            verdict,
            why,
            contents.rows,
            contents.size_bytes,
            contents.digest,
            since,
            sighting.first_seen,
        )

    def is_young(self, since: datetime) -> bool:
        """Say whether an id's time is too recent; one from the future is."""
        return self.now - since < self.safety.id_age

    def status_of(self, partition: bytes) -> Status | None:
        """What a repository's partition is; None when nothing is left of it."""
        status = self.statuses.get(partition)
        if status is None and partition in self.references.partitions:
            return self.references.partitions[partition].state  # a bare repository has a record and no rows
        return status

    def _is_settled(self, sighting: Sighting) -> bool:
        return self.now - sighting.first_seen >= self.safety.grace

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
        if not first and all(_known_leftover(key) for key in instance.others):
            return "leftovers"
        return "unclear"

    def _instance(self, partition: bytes, instance: InstanceLook) -> Iterator[Finding]:
        status = self.statuses[partition]
        contents = instance.contents
        if status == "active":
            why = "reachable by id only; retention may still use it"
            for commit in instance.dangling:
                yield Finding(partition, b"commits/" + commit.encode(), "commit-dangling", "report", why, 1)
        elif status in ("in-deletion", "initial"):
            record = self.references.partitions[partition]
            for key, size_bytes in instance.names.items():
                yield Finding(partition, key, first_part(key), "wait", "live repository", 1, size_bytes)
            yield self._unusable(record)
        elif status == "handed-over":
            why = "deleted and handed over to the cleaner"
            yield Finding(
                partition,
                None,
                "deleted-repository",
                "trash",
                why,
                contents.rows,
                contents.size_bytes,
                contents.digest,
            )
        elif status == "lost":
            why = "holds history or staged data but no record names it"
            yield self._report(partition, "lost-repository", why, contents)
        elif status == "unclear":
            why = "no record names it, and it is neither a failed create nor what a delete leaves"
            yield self._report(partition, "repository-unclear", why, contents)
        else:
            yield self._unrecorded(partition, status, contents)

    def _unrecorded(self, partition: bytes, status: Status, contents: Contents) -> Finding:
        life = parse_instance(partition)
        assert life is not None  # only its shape made it an instance
        young = "young: may be a repository being created" if self.is_young(life.created) else ""
        if status == "zombie":
            kind, why = "zombie-create", "first commit and branch only, no record"
        else:
            kind, why = "deleted-repository-leftovers", "no record, no first commit, no usable head"
        return self.settle(partition, None, kind, why, contents, since=life.created, young=young)

    def _report(self, partition: bytes, kind: str, why: str, contents: Contents) -> Finding:
        life = parse_instance(partition)
        since = life.created if life else None
        if since is not None and self.is_young(since):
            return Finding(
                partition,
                None,
                kind,
                "wait",
                "young: may be a repository being created",
                contents.rows,
                contents.size_bytes,
                since=since,
            )
        return Finding(partition, None, kind, "report", why, contents.rows, contents.size_bytes, since=since)

    def _unusable(self, record: RepositoryRecord) -> Finding:
        """A repository that is being deleted or created: the server's business, or a person's."""
        key = REPOSITORY_PREFIX + record.name.encode()
        size = len(key) + len(record.value)
        if record.state == "in-deletion":
            why = "repeat the delete through the API"
            return Finding(REPOSITORIES, key, "repository-in-deletion", "report", why, 1, size)
        if self.is_young(record.created):
            why = "young: may be a repository being created"
            return Finding(REPOSITORIES, key, "repository-initial", "wait", why, 1, size)
        why = "its create failed: ask for it through the API, which marks it, then delete it there"
        return Finding(REPOSITORIES, key, "repository-initial", "report", why, 1, size)

    def _staging(self, partition: bytes, contents: Contents | None) -> Iterator[Finding]:
        queued = partition in self.look.small.get(MARKERS, {})
        naming = self.references.tokens.get(partition)
        if naming is not None:
            statuses = {self.status_of(owner) for owner in naming}
            rows, size = (contents.rows, contents.size_bytes) if contents else (0, 0)
            if "active" in statuses:
                if queued:
                    why = "the server will drop a partition that a branch still names"
                    yield Finding(partition, None, "staging-live-but-queued", "report", why, rows, size)
                return
            verdict: Verdict = "report" if statuses & {"lost", "unclear"} else "wait"
            yield Finding(partition, None, "staging", verdict, "named by a branch record", rows, size)
        elif contents is None:
            return  # emptied while this look went on
        elif queued:
            why = "queued for dropping and named by no branch"
            yield Finding(
                partition,
                None,
                "staging-queued",
                "trash",
                why,
                contents.rows,
                contents.size_bytes,
                contents.digest,
            )
        else:
            yield self.settle(
                partition,
                None,
                "staging-orphan",
                "named by no branch",
                contents,
                when_settled="named by no branch, twice",
            )


def judge(look: Look, before: Sightings, now: datetime, safety: Safety) -> Judgement:
    """Say of everything in a store whether it is trash.

    Args:
        look: what was seen.
        before: what earlier looks saw unused; empty at the first one.
        now: time of the look.
        safety: the margins.

    Returns:
        Findings in order of partition and key, and the sightings to remember.
    """
    from dredge.trash.key_rules import keys

    here = Judge(look, before, now, safety)
    findings = [*here.partitions(), *keys(here)]
    findings.sort(key=lambda finding: (finding.partition, finding.key or b""))
    return Judgement(tuple(findings), Sightings(here.seen, now))


def one_row(key: bytes, value: bytes) -> Contents:
    """Contents of a single row."""
    return Contents(1, len(key) + len(value), value_digest(value))


def _handed_over(look: Look, partition: bytes) -> bool:
    life = parse_instance(partition)
    return life is not None and f"repo/{life.repository}/{life.uid}".encode() in look.small.get(DELETED, {})


def _known_leftover(key: bytes) -> bool:
    return key == REPOSITORY_METADATA_KEY or key.startswith(OTHER_KEYS)
