"""What a look found: one partition or key, what it is, and what may be done about it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dredge.errors import ConfigError, RefusedError
from dredge.kv.rows import show
from dredge.settings import check_finite

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


_SMALL_STORE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashLimits:
    """What one run may remove at most: a plan beyond one of these is refused whole.

    Args:
        partitions: most partitions one run removes.
        rows: most rows one run removes.
        size_bytes: most bytes of keys and values one run removes.
        partition_percent: largest part of all partitions of the store; small stores (below 100
            partitions) are exempt.
    """

    partitions: int = 10_000
    rows: int = 1_000_000
    size_bytes: int = 10 << 30
    partition_percent: float = 50.0

    def __post_init__(self) -> None:
        check_finite(self)
        if min(self.partitions, self.rows, self.size_bytes, self.partition_percent) < 0:
            raise ConfigError("a limit cannot be negative")


@dataclass(frozen=True, slots=True)
class TrashPlan:
    """Trash that may be removed.

    Args:
        run_id: whose plan it is.
        location: the store, without credentials.
        made: time of the look (aware UTC).
        findings: each `trash`, of the asked kinds, in order of partition and key.
        partitions: how many partitions the store has.
        attempt: number of the try that made it; 0 where no state folder was used.
    """

    run_id: str
    location: str
    made: datetime
    findings: tuple[TrashFinding, ...]
    partitions: int
    attempt: int = 0

    @property
    def rows(self) -> int:
        """Rows that would go."""
        return sum(finding.rows for finding in self.findings)

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values that would go."""
        return sum(finding.size_bytes for finding in self.findings)

    @property
    def digest(self) -> str:
        """SHA-256 over what is to be removed, byte for byte; an approval is bound to it."""
        total = hashlib.sha256()
        for finding in self.findings:
            key = b"-" if finding.key is None else b"+" + finding.key
            for part in (finding.partition, key, finding.kind.encode(), finding.digest.encode()):
                total.update(b"%d:" % len(part) + part)
        return total.hexdigest()


def check_kinds(kinds: Iterable[str] | None) -> frozenset[str]:
    """Take the kinds that a user asked for; None is all of them.

    Raises:
        ConfigError: there is no such kind.
    """
    if kinds is None:
        return frozenset(KINDS)
    asked = frozenset(kinds)
    if asked - set(KINDS):
        unknown = ", ".join(sorted(asked - set(KINDS)))
        raise ConfigError(f"no such kind of trash: {unknown}. There are: {', '.join(KINDS)}")
    return asked


def choose(findings: Iterable[TrashFinding], kinds: Collection[str]) -> tuple[TrashFinding, ...]:
    """Pick the trash of the asked kinds."""
    return tuple(finding for finding in findings if finding.verdict == "trash" and finding.kind in kinds)


def in_both(plan: Iterable[TrashFinding], again: Iterable[TrashFinding]) -> tuple[TrashFinding, ...]:
    """Keep of a plan what a second look calls trash too, as the same thing with the same bytes."""
    still = {(f.partition, f.key, f.kind, f.digest) for f in again if f.verdict == "trash"}
    return tuple(f for f in plan if (f.partition, f.key, f.kind, f.digest) in still)


def check_limits(plan: TrashPlan, limits: TrashLimits, repositories: int) -> None:
    """Refuse a plan that would do more damage than a person expects.

    Args:
        plan: what is to be removed.
        limits: what a run may remove at most.
        repositories: how many repository records the store has.

    Raises:
        RefusedError: it goes beyond a limit. Nothing was removed.
    """
    whole = sum(finding.key is None for finding in plan.findings)
    share = 100 * whole / plan.partitions if plan.partitions else 0.0
    found = [
        f"{figure:,} {what}, the limit is {limit:,}"
        for figure, what, limit in (
            (whole, "partitions", limits.partitions),
            (plan.rows, "rows", limits.rows),
            (plan.size_bytes, "bytes", limits.size_bytes),
        )
        if figure > limit
    ]
    if plan.partitions >= _SMALL_STORE and share > limits.partition_percent:
        found.append(f"{share:.1f} % of all partitions, the limit is {limits.partition_percent:g} %")
    if whole and not repositories:
        found.append("partitions of a store without a single repository record: were the records lost?")
    if found:
        raise RefusedError(
            f"run {plan.run_id} would remove {'; '.join(found)}. Nothing was removed. Look at the plan, and"
            " raise the limit if it is right."
        )


def by_kind(findings: Iterable[TrashFinding]) -> dict[str, dict[str, int]]:
    """Add findings up: for each kind and verdict how many, and how many rows and bytes."""
    count: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for finding in findings:
        name = f"{finding.kind} ({finding.verdict})"
        count[name] += 1
        rows[name] += finding.rows
        size[name] += finding.size_bytes
    return {
        name: {"count": count[name], "rows": rows[name], "size_bytes": size[name]} for name in sorted(count)
    }
