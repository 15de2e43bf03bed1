"""Findings of a look, and the plan of a run with its limits.

A run with a plan reads the store again, and removes only rows classified as trash both times, with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from dredge.errors import ConfigError, RefusedError
from dredge.kv.rows import name_of, show, show_key
from dredge.settings import HOURS_MAX, SECONDS_MAX, Settings, check_finite, check_settings, setting

# Code of a finding that is held, because it cannot be proved unreferenced; its wait begins again afterwards.
HELD = "held"
# `trash` may be deleted; `wait`: it may come into use, or another operation comes first; `report`: for a person, never
# deleted. Live rows have no finding.
Verdict = Literal["trash", "wait", "report"]
# Kind of repositories that the design's step 2 hands to the cleaner, and of their entries.
HANDED_OVER = "deleted-repository"
# Kinds of trash.
KINDS: Mapping[str, str] = {
    "zombie-create": "a repository that was never finished: first commit and branch, no record",
    "deleted-repository-leftovers": "rows left in its partition by the deletion of a repository",
    HANDED_OVER: "a repository that `graveler_deleted` hands to the cleaner",
    "staging-orphan": "staged changes that no branch references",
    "staging-queued": "staged changes that are queued for dropping and that no branch references",
    "marker": "a queue entry whose partition is empty",
    "pull-index-of-missing-repository": "index of a pull request of a missing repository",
    "pull-index-dangling": "index of a missing pull request",
    "actions-of-missing-repository": "hook results under a name that no repository has",
    "actions-of-previous-instance": "hook results of an earlier life of the name",
    "actions-of-missing-run": "parts of a hook run without the run",
    "import-expired": "status of an import without an update for 48 hours",
    "task-expired": "status of a task without an update for 48 hours",
    "heartbeat": "a server instance that stopped long ago",
    "branch-owner-stale": "ownership hint of a missing branch",
}
# Below this number of partitions the limit in percent does not apply.
_SMALL_STORE = 100


class TrashFinding(Struct, frozen=True):
    """A partition or key that is not plainly live."""

    partition: bytes
    key: bytes | None  # None for the whole partition
    kind: str  # a key of `KINDS`, or a kind that is never removed
    verdict: Verdict
    why: str
    rows: int = 0
    size_bytes: int = 0
    digest: str = ""  # of the contents, hex; "" if it is never deleted
    since: datetime | None = None  # time in its id or record (aware UTC); None if there is none
    first_seen: datetime | None = None
    waits_until: datetime | None = None
    code: str = ""  # reason of the wait, other than age

    @property
    def name(self) -> str:
        """Partition and key as text."""
        return show(self.partition) if self.key is None else show_key(self.partition, self.key)

    def age(self, now: datetime) -> timedelta | None:
        """Its age by its id or record, else since the first look that found it."""
        begun = self.since or self.first_seen
        return None if begun is None else now - begun


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashLimits:
    """Maximum of one run; a plan beyond one of these is refused whole."""

    partitions: int = 10_000
    rows: int = 1_000_000
    size_bytes: int = 10 << 30
    # of all partitions of the store; stores with less than 100 partitions are exempt
    partition_percent: float = 50.0

    def __post_init__(self) -> None:
        check_finite(self)
        if min(self.partitions, self.rows, self.size_bytes, self.partition_percent) < 0:
            raise ConfigError("a limit cannot be negative")


class TrashPlan(Struct, frozen=True):
    """Trash for removal."""

    run_id: str
    location: str
    made: datetime
    findings: tuple[TrashFinding, ...]  # trash of the requested kinds, in order of partition and key
    partitions: int
    attempt: int = 0  # number of the try; 0 without a state folder

    @property
    def rows(self) -> int:
        """Number of rows to remove."""
        return sum(finding.rows for finding in self.findings)

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values to remove."""
        return sum(finding.size_bytes for finding in self.findings)

    @property
    def digest(self) -> str:
        """SHA-256 over all findings with the digests of their rows; an approval is bound to it."""
        total = hashlib.sha256()
        for finding in self.findings:
            key = b"-" if finding.key is None else b"+" + finding.key
            for part in (finding.partition, key, finding.kind.encode(), finding.digest.encode()):
                total.update(b"%d:" % len(part) + part)
        return total.hexdigest()


def check_kinds(kinds: Iterable[str] | None) -> frozenset[str]:
    """The requested kinds; None is all."""
    asked = frozenset(KINDS if kinds is None else kinds)
    if unknown := asked - set(KINDS):
        raise ConfigError(
            f"no such kind of trash: {', '.join(sorted(unknown))}. Choose from {', '.join(KINDS)}"
        )
    return asked


def choose(findings: Iterable[TrashFinding], kinds: Collection[str]) -> tuple[TrashFinding, ...]:
    """The trash of some kinds."""
    return tuple(finding for finding in findings if finding.verdict == "trash" and finding.kind in kinds)


def in_both(plan: Iterable[TrashFinding], again: Iterable[TrashFinding]) -> tuple[TrashFinding, ...]:
    """The findings of a plan with the same kind and bytes as trash of a second look."""
    still = {(f.partition, f.key, f.kind, f.digest) for f in again if f.verdict == "trash"}
    return tuple(f for f in plan if (f.partition, f.key, f.kind, f.digest) in still)


def check_limits(plan: TrashPlan, limits: TrashLimits, repositories: int) -> None:
    """Refuse a plan beyond a limit."""
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
        found.append("partitions of a store without a repository record; the records may be lost")
    if found:
        raise RefusedError(
            f"run {plan.run_id} would remove {'; '.join(found)}. Nothing was removed. Check the plan; raise the"
            " limit if it is right."
        )


def by_kind(findings: Iterable[TrashFinding]) -> dict[str, dict[str, int]]:
    """Number, rows and bytes of findings by kind and verdict."""
    sums: dict[str, Counter[str]] = {}
    for finding in findings:
        total = sums.setdefault(f"{finding.kind} ({finding.verdict})", Counter())
        total.update(count=1, rows=finding.rows, size_bytes=finding.size_bytes)
    return {name: {key: sums[name][key] for key in ("count", "rows", "size_bytes")} for name in sorted(sums)}


SAFE_GRACE = timedelta(hours=24)
UNNAMED = timedelta(days=30)
# Assumed difference between the clocks of servers.
INSTANCE_MARGIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashMargins:
    """Margins of time. The defaults are those of the measured rules; shorter margins lose data under load."""

    # wait of unreferenced bytes for another run. Tokens and their rows have no usable time, so only the wait
    # separates an orphan from a reset that will reference its token later.
    grace: timedelta = SAFE_GRACE
    # minimum age of the time in the id of a partition or record. lakeFS writes the commit and branch of a new
    # repository before its record, and does not check them again.
    id_age: timedelta = SAFE_GRACE
    # age of imports, tasks and heartbeats since their last update. A running server removes them after 24
    # hours.
    expiry: timedelta = timedelta(hours=48)
    ownership_expiry: timedelta = SAFE_GRACE  # time since the expiry of a branch ownership hint
    # age of an open multipart upload in reports. It is never trash: only the object store knows whether the
    # upload is open.
    multipart_report: timedelta = timedelta(days=7)
    # wait of a token that an earlier look saw referenced, and that has neither a reference nor a place in the
    # drop queue now: its branch record may be lost with a part of the database
    unnamed: timedelta = UNNAMED
    # an action run belongs to an earlier life of a repository name if it began this long before the creation
    # of the repository
    instance_margin: timedelta = INSTANCE_MARGIN
    # maximum difference between this machine's clock and the store's
    clock_skew: timedelta = timedelta(minutes=5)
    unsafe_short_grace: bool = False  # allow margins below 24 hours

    def __post_init__(self) -> None:
        margins = (self.grace, self.id_age, self.expiry, self.ownership_expiry)
        if min(*margins, self.multipart_report, self.unnamed, self.instance_margin) < timedelta(0):
            raise ConfigError("a margin of time cannot be negative")
        if min(margins) < SAFE_GRACE and not self.unsafe_short_grace:
            raise ConfigError(
                "a grace below 24 hours removes data of operations in progress; on a store without writers, use"
                " unsafe_grace_seconds"
            )

    @property
    def ages(self) -> timedelta:
        """The sum of all margins of age. A wait that began under a smaller sum does not count."""
        return self.id_age + self.expiry + self.ownership_expiry + self.unnamed

    @classmethod
    def with_grace(cls, grace: timedelta, unsafe_short_grace: bool = False) -> TrashMargins:
        """The default margins with another grace; a shorter grace also shortens `id_age`."""
        found = replace(
            cls(), grace=grace, id_age=min(SAFE_GRACE, grace), unsafe_short_grace=unsafe_short_grace
        )
        return replace(found, unnamed=grace) if unsafe_short_grace else found


_GRACE_HOURS = SAFE_GRACE / timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashConfig(Settings):
    """Settings of a scan or a clean. Each field is a Param, a key of an operator's `config` and a row in the docs."""

    state_uri: str = setting(
        "State folder",
        "URI of a folder for the pending list, undo files and reports; the same one every time.",
    )
    dry_run: bool = setting("Dry run", "Find and report trash, **remove nothing**.", default=True)
    grace_hours: float = setting(
        "Grace in hours",
        "A run removes only rows that an earlier run found and that have waited for this long since, with"
        " the same bytes. At least 24.",
        default=_GRACE_HOURS,
        minimum=_GRACE_HOURS,
        maximum=HOURS_MAX,
        because="a shorter one removes data of operations in progress. In tests, on a store without writers,"
        " use unsafe_grace_seconds",
    )
    unsafe_grace_seconds: float | None = setting(
        "Unsafe grace in seconds",
        "Replaces the grace and **can remove rows of operations in progress**. 0: a run removes rows that it found"
        " itself. For tests, on a store without writers. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )
    kinds: tuple[str, ...] = setting(
        "Kinds", "Only these kinds of trash. Empty: all.", default=(), kind="array", choices=tuple(KINDS)
    )
    max_partitions: int | None = setting(
        "Most partitions to remove",
        f"A run that would remove more removes nothing. Empty: {TrashLimits().partitions:,}.",
        default=None,
        minimum=0,
    )
    max_rows: int | None = setting(
        "Most rows to remove",
        f"A run that would remove more removes nothing. Empty: {TrashLimits().rows:,}.",
        default=None,
        minimum=0,
    )
    max_bytes: int | None = setting(
        "Most bytes to remove",
        f"A run that would remove more removes nothing. Empty: {TrashLimits().size_bytes:,}.",
        default=None,
        minimum=0,
    )
    max_percent: float | None = setting(
        "Largest share of partitions to remove",
        f"A run that would remove a larger share removes nothing. Empty: {TrashLimits().partition_percent:g}.",
        default=None,
        minimum=0,
        maximum=100,
    )
    read_rate: float | None = setting(
        "Read rate", "DynamoDB: most read capacity units a second. Empty: no bound.", default=None, above=0
    )

    def __post_init__(self) -> None:
        check_settings(self, without=() if self.unsafe_grace_seconds is None else ("grace_hours",))

    @property
    def margins(self) -> TrashMargins:
        """The margins in force."""
        if self.unsafe_grace_seconds is not None:
            return TrashMargins.with_grace(
                timedelta(seconds=self.unsafe_grace_seconds), unsafe_short_grace=True
            )
        return TrashMargins.with_grace(timedelta(hours=self.grace_hours))

    @property
    def limits(self) -> TrashLimits:
        """The limits of a run."""
        asked = {
            "partitions": self.max_partitions,
            "rows": self.max_rows,
            "size_bytes": self.max_bytes,
            "partition_percent": self.max_percent,
        }
        found: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        return TrashLimits(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashRestoreConfig(Settings):
    """Settings of a restore; like `TrashConfig`."""

    state_uri: str = setting("State folder", "URI of the cleaner's folder, which has the undo files.")
    run: str = setting("Run", "Id of the run of the cleaner that removed the rows.")
    partition: str | None = setting(
        "Partition",
        r"Only rows of this partition, written as in the report (`\xNN` for bytes that are not text). Empty: all.",
        default=None,
    )
    dry_run: bool = setting("Dry run", "Only count the rows, **restore nothing**.", default=True)

    @property
    def partitions(self) -> list[bytes] | None:
        """The requested partitions; None is all."""
        return None if self.partition is None else [name_of(self.partition)]
