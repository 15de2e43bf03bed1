"""What one run may remove: a value to print, store, compare, approve, and execute later.

A plan is not a licence. The run that executes it looks again, and removes only what is trash in both looks
with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import ConfigError, RefusedError
from dredge.trash.finding import KINDS, TrashFinding
from dredge.trash.margins import TrashLimits

_SMALL_STORE = 100


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
