"""What each range is to a run: to be counted, counted by an earlier run, dropped since, or only expired."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from dredge.gc.index.decoding import RangeHashes
from dredge.gc.index.ranges import Ranges
from dredge.gc.index.store import CommittedIndex
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo

HEAD, ACTIVE = "head", "active"
COUNTED_NEW_HEAD, COUNTED = "counted, new head", "counted"
DROPPED_EXPIRED, DROPPED = "dropped, expired", "dropped"
EXPIRED = "expired"

IN_HEADS = (HEAD, COUNTED_NEW_HEAD)
"""Roles of ranges whose sizes are wanted."""
TO_ADD = (HEAD, ACTIVE)
"""Roles of ranges that are added to the reference counts."""
TO_SUBTRACT = (DROPPED_EXPIRED, DROPPED)
"""Roles of ranges that are subtracted from the reference counts."""
TO_EXPLAIN = (DROPPED_EXPIRED, EXPIRED)
"""Roles of ranges that say why an object is garbage."""


@dataclass(slots=True)
class Roles:
    """What each range is to this run.

    Attributes:
        active: ranges that are active, and that no earlier run has counted.
        expired: ranges of commits of the history that are not active any more; only read to say why an object is
            garbage.
        counted: ranges that are active, and that an earlier run has counted.
        new_heads: ids of those of the counted ones that are in a branch's head now and were in none then; they are
            read for their sizes.
        dropped: ranges that an earlier run has counted, and that are not active any more.
        dropped_expired: ids of those of the dropped ones that a commit of the history names.
    """

    active: Ranges
    expired: Ranges = field(default_factory=dict)
    counted: Ranges = field(default_factory=dict)
    new_heads: Collection[str] = ()
    dropped: Ranges = field(default_factory=dict)
    dropped_expired: Collection[str] = ()

    @classmethod
    def since(cls, then: Ranges, now: Ranges) -> Roles:
        """The roles in a run that builds on an earlier one.

        Args:
            then: the ranges that were active in the earlier run.
            now: the active ones.
        """
        counted = {range_id: facts for range_id, facts in now.items() if range_id in then}
        return cls(
            active={range_id: facts for range_id, facts in now.items() if range_id not in then},
            counted=counted,
            new_heads={
                range_id for range_id, facts in counted.items() if facts.head and not then[range_id].head
            },
            dropped={range_id: facts for range_id, facts in then.items() if range_id not in now},
        )

    def role(self, range_id: str) -> str:
        """One of the roles that are named in this module."""
        if range_id in self.active:
            return HEAD if self.active[range_id].head else ACTIVE
        if range_id in self.counted:
            return COUNTED_NEW_HEAD if range_id in self.new_heads else COUNTED
        if range_id in self.dropped:
            return DROPPED_EXPIRED if range_id in self.dropped_expired else DROPPED
        return EXPIRED

    @property
    def to_read(self) -> Ranges:
        """The ranges that must be decoded or found in the index."""
        return self.active | {range_id: self.counted[range_id] for range_id in self.new_heads}

    def table(self, index: CommittedIndex, new: Collection[str]) -> pa.Table:
        """Rows for `RoleTable`: range ids, roles, and the part of the index that counts for each range.

        Args:
            index: the committed index.
            new: ids of the ranges that are decoded now, so that no part of the index counts for them.
        """
        ids = sorted({*self.active, *self.counted, *self.dropped, *self.expired})
        parts = ["" if item in new else index.part_of(item) or "" for item in ids]
        roles = [self.role(item) for item in ids]
        return pa.table({"range_id": pa.array(ids, pa.string()), "role": roles, "part": parts})


@dataclass(frozen=True, slots=True)
class RoleTable:
    """Roles, as a task looks them up.

    Attributes:
        roles: by range id.
        parts: name of the part of the index that counts, by range id; "" where none does.
    """

    roles: dict[str, str]
    parts: dict[str, str]

    @classmethod
    def read(cls, folder: RunFolder, part: PartInfo) -> RoleTable:
        """Read the rows that `Roles.table` made."""
        table = folder.read_part(part)
        ids, roles, parts = (table[name].to_pylist() for name in ("range_id", "role", "part"))
        return cls(dict(zip(ids, roles, strict=True)), dict(zip(ids, parts, strict=True)))

    def counting(self, part: str, ranges: Iterable[RangeHashes]) -> Iterator[RangeHashes]:
        """The ranges in a part of the index for which no other part counts; never dropped ones, which tasks of their
        own decode."""
        for item in ranges:
            if self.parts.get(item.range_id) == part and self.roles[item.range_id] not in TO_SUBTRACT:
                yield item

    def in_head(self, range_id: str) -> bool:
        """Whether the sizes of a range are wanted."""
        return self.roles.get(range_id) in IN_HEADS
