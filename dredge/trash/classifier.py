"""What the rules share: one look, what earlier looks saw, the margins, and what each repository's partition is.

Source: docs/trash.md, "What is trash", measured on a real server; every rule has its dumps in
tests/fixtures/kv.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from dredge.trash.finding import TrashFinding, Verdict
from dredge.trash.look import Contents, InstanceLook, Look, value_digest
from dredge.trash.margins import TrashMargins
from dredge.trash.names import (
    DELETED,
    OTHER_KEYS,
    REPOSITORY_METADATA_KEY,
    parse_instance,
)
from dredge.trash.noted import Noted
from dredge.trash.sightings import Sighting, Sightings

Status = Literal[
    "active", "in-deletion", "initial", "handed-over", "zombie", "leftovers", "lost", "unclear", "unsure"
]
"""What a repository's partition is. The first three are told by its record; the others have none."""


class Classifier:
    """Classifies what one look saw.

    Args:
        look: what was seen.
        before: what earlier looks saw unused.
        now: time of this look (aware UTC, of the store's clock within `margins.clock_skew`).
        margins: the margins.
        noted: what earlier looks saw named, this look included.
    """

    def __init__(
        self, look: Look, before: Sightings, now: datetime, margins: TrashMargins, noted: Noted | None = None
    ) -> None:
        self.look = look
        self.references = look.references
        self.now = now
        self.margins = margins
        self._before = before
        self._noted = noted or Noted()
        self.seen: list[Sighting] = []
        self.statuses: dict[bytes, Status] = {
            partition: self._status(partition, instance) for partition, instance in look.instances.items()
        } | dict.fromkeys(look.unsure, "unsure")

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
    ) -> TrashFinding:
        """Classify something unused: trash once it is old enough and was seen like this a grace period ago.

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
        return TrashFinding(
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
        return self.now - since < self.margins.id_age

    def was_named_lately(self, token: bytes) -> bool:
        """Say whether an earlier look saw a token named, not long enough ago."""
        since = self._noted.missed_since(token)
        return since is not None and self.now - since < self.margins.unnamed

    def status_of(self, partition: bytes) -> Status | None:
        """What a repository's partition is; None when nothing is left of it."""
        record = self.references.partitions.get(partition)  # a bare repository has a record and no rows
        return self.statuses.get(partition) if record is None else record.state

    def _is_settled(self, sighting: Sighting) -> bool:
        return self.now - sighting.first_seen >= self.margins.grace

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
        # A delete takes branches and tags first: where one stands, a commit was lost in another way.
        if not (heads or first) and all(_known_leftover(key) for key in instance.others):
            return "leftovers"
        return "unclear"


def one_row(key: bytes, value: bytes) -> Contents:
    """Contents of a single row."""
    return Contents(1, len(key) + len(value), value_digest(value))


def _handed_over(look: Look, partition: bytes) -> bool:
    life = parse_instance(partition)
    return life is not None and f"repo/{life.repository}/{life.uid}".encode() in look.small.get(DELETED, {})


def _known_leftover(key: bytes) -> bool:
    return key == REPOSITORY_METADATA_KEY or key.startswith(OTHER_KEYS)
