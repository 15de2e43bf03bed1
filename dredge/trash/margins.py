"""Every margin of time and every limit of the trash cleaner, in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from dredge.errors import ConfigError
from dredge.settings import check_finite

SAFE_GRACE = timedelta(hours=24)
UNNAMED = timedelta(days=30)
INSTANCE_MARGIN = timedelta(seconds=60)
"""Servers' clocks differ by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashMargins:
    """Margins. The defaults are those of the measured rules; shorter ones lose data under load.

    Args:
        grace: how long the same unused bytes wait for another run. Neither a staging
            token nor its rows carry a usable time, so nothing else tells an orphan from a reset that has
            not named its token yet.
        id_age: how old the time in a partition's or record's own id must be. A repository being created
            writes its commit and branch before its record, and never looks back.
        expiry: after which imports, tasks and heartbeats without an update are trash; the server removes
            them at 24 hours where it lives that long.
        ownership_expiry: how long ago a branch ownership hint must have expired.
        multipart_report: age at which an open multipart upload is reported. It is never trash: only the
            object store knows whether the upload is open.
        unnamed: how long a token waits that an earlier look saw named and that nothing names or queues now: the record
            of its branch may have been lost with a part of the database.
        instance_margin: how long before its repository's creation an action run must have begun to
            belong to an earlier life of the name.
        clock_skew: largest difference between this machine's clock and the store's.
        unsafe_short_grace: accept margins below 24 hours.
    """

    grace: timedelta = SAFE_GRACE
    id_age: timedelta = SAFE_GRACE
    expiry: timedelta = timedelta(hours=48)
    ownership_expiry: timedelta = SAFE_GRACE
    multipart_report: timedelta = timedelta(days=7)
    unnamed: timedelta = UNNAMED
    instance_margin: timedelta = INSTANCE_MARGIN
    clock_skew: timedelta = timedelta(minutes=5)
    unsafe_short_grace: bool = False

    def __post_init__(self) -> None:
        margins = (self.grace, self.id_age, self.expiry, self.ownership_expiry)
        if min(*margins, self.multipart_report, self.unnamed, self.instance_margin) < timedelta(0):
            raise ConfigError("a margin of time cannot be negative")
        if min(margins) < SAFE_GRACE and not self.unsafe_short_grace:
            raise ConfigError(
                "a grace below 24 hours removes data of operations that are still under way: only a store"
                " that nobody writes to can be cleaned so, and only with the option that calls it unsafe"
            )

    @property
    def ages(self) -> timedelta:
        """Every age by which something is found, together: with any of them shorter, a wait that a run begins is none
        for a run that asks for more."""
        return self.id_age + self.expiry + self.ownership_expiry + self.unnamed

    @classmethod
    def with_grace(cls, grace: timedelta, unsafe_short_grace: bool = False) -> TrashMargins:
        """The usual margins with another grace; a shorter one shortens the age of ids too."""
        found = replace(
            cls(), grace=grace, id_age=min(SAFE_GRACE, grace), unsafe_short_grace=unsafe_short_grace
        )
        return replace(found, unnamed=grace) if unsafe_short_grace else found


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
