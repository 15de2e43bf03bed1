"""What the rules share: one look, what earlier looks saw named, the margins, and what each repository's partition is.

Source: docs/trash.md, "What is trash", measured on a real server; every rule has its dumps in
tests/fixtures/kv.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from dredge.trash.finding import HELD, TrashFinding
from dredge.trash.look import Contents, InstanceLook, Look, value_digest
from dredge.trash.margins import TrashMargins
from dredge.trash.names import (
    DELETED,
    OTHER_KEYS,
    REPOSITORY_METADATA_KEY,
    parse_instance,
)
from dredge.trash.noted import Noted

Status = Literal[
    "active", "in-deletion", "initial", "handed-over", "zombie", "leftovers", "lost", "unclear", "unsure"
]
"""What a repository's partition is. The first three are told by its record; the others have none."""


class Classifier:
    """Classifies what one look saw.

    Args:
        look: what was seen.
        now: time of this look (aware UTC, of the store's clock within `margins.clock_skew`).
        margins: the margins.
        noted: what earlier looks saw named, this look included.
    """

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
        """Say that something is unused: trash, as soon as it has waited.

        Args:
            partition: whose.
            key: or None for the whole partition.
            kind: what it would be.
            why: the rule in words.
            contents: its rows.
            since: time of its id, where it has one.
            young: why it is too young by that time; "" when it is not.
            held: why nobody may say yet that it is unused; "" when one may.
        """
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
