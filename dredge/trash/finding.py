"""What a look found: one partition or key, what it is, and what may be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dredge.kv.rows import show

HELD = "held"
"""Code of what may not go for want of a proof: it waits anew afterwards."""

Verdict = Literal["trash", "wait", "report"]
"""`trash` may be deleted; `wait` may still come into use, or somebody else has to finish first; `report`
is for a person, never deleted. What is live has no finding."""

KINDS: Mapping[str, str] = {
    "zombie-create": "a repository that was never finished: first commit and branch, no record",
    "deleted-repository-leftovers": "what the deletion of a repository left in its partition",
    "deleted-repository": "a repository that `graveler_deleted` hands to the cleaner",
    "staging-orphan": "staged changes that no branch names",
    "staging-queued": "staged changes that are queued for dropping and that no branch names",
    "marker": "a queue entry whose partition is empty",
    "pull-index-of-missing-repository": "index of a pull request of a repository that is gone",
    "pull-index-dangling": "index of a pull request that is gone",
    "actions-of-missing-repository": "hook results under a name that no repository has",
    "actions-of-previous-instance": "hook results of an earlier life of the name",
    "actions-of-missing-run": "parts of a hook run without the run",
    "import-expired": "status of an import without an update for 48 hours",
    "task-expired": "status of a task without an update for 48 hours",
    "heartbeat": "a server instance that stopped long ago",
    "branch-owner-stale": "ownership hint of a branch that is gone",
}
"""Kinds that can become trash."""


@dataclass(frozen=True, slots=True)
class TrashFinding:
    """One partition or key that is not plainly live.

    Args:
        partition: whose.
        key: None: the partition as a whole.
        kind: one of `KINDS`, or a kind that is only waited for or reported.
        verdict: what may be done.
        why: the rule, in words.
        rows: how many rows it is.
        size_bytes: of keys and values.
        digest: of the contents, hex; "" where nothing is to be deleted.
        since: time that its id or record carries (aware UTC); None where it carries none.
        first_seen: since when these bytes wait (aware UTC), where they do.
        waits_until: from when they may be deleted, where they wait.
        code: what holds back what waits, other than its age.
    """

    partition: bytes
    key: bytes | None
    kind: str
    verdict: Verdict
    why: str
    rows: int = 0
    size_bytes: int = 0
    digest: str = ""
    since: datetime | None = None
    first_seen: datetime | None = None
    waits_until: datetime | None = None
    code: str = ""

    @property
    def name(self) -> str:
        """Partition and key as text."""
        return show(self.partition) if self.key is None else f"{show(self.partition)} · {show(self.key)}"

    def age(self, now: datetime) -> timedelta | None:
        """How old it is by its own id or record, or else by the looks that saw it."""
        begun = self.since or self.first_seen
        return None if begun is None else now - begun
