"""The design's promises about overlapping reads, writes and commits, checked on recorded calls.

Operation A happened before B if A ended before B began; all others may have happened in any order. Of one path:

    reads      show a write begun before the end of the read, and not happened before another acknowledged write
               which happened before the read
    commits    have the content visible to a reader begun together with the commit
    failures   a failed write may be visible; it ended when it failed

Every write has another value (the checksum of its entry), deletions have None. This allows the design's non-guarantees:
"1-3-2" and "B-A-N-A-N-A".

Source: design "lakeFS on KV", consistency guarantees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakefs_embedded.catalog import Catalog

NEVER = float("inf")
BEFORE_ALL = -1.0


@dataclass
class Write:
    """A write of one path."""

    path: str
    value: str | None
    began: float
    ended: float = NEVER
    acknowledged: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "value": self.value, "began": self.began, "ended": self.ended} | {
            "acknowledged": self.acknowledged
        }


@dataclass
class History:
    """All writes, of any number of writers."""

    paths: Sequence[str]
    writes: list[Write] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writes += [Write(path, None, BEFORE_ALL, BEFORE_ALL, True) for path in self.paths]

    def begin(self, path: str, value: str | None, now: float) -> Write:
        """Record the call of a write."""
        self.writes.append(Write(path, value, now))
        return self.writes[-1]

    def require_readable(self, seen: Mapping[str, str | None], began: float, ended: float) -> None:
        for path, value in seen.items():
            wrong = self._wrong(path, value, began, ended)
            assert not wrong, f"{path} reads {value}: {wrong}"

    def require_listing(self, seen: Mapping[str, str], began: float, ended: float) -> None:
        """Check a listing of everything: a missing path reads as deleted."""
        assert set(seen) <= set(self.paths)
        self.require_readable({path: seen.get(path) for path in self.paths}, began, ended)

    def _wrong(self, path: str, value: str | None, began: float, ended: float) -> str:
        mine = [write for write in self.writes if write.path == path]
        sources = [write for write in mine if write.value == value and write.began < ended]
        if not sources:
            return "nobody has written that by then"
        known = [write for write in mine if write.acknowledged and write.ended < began]
        for source in sources:
            newer = [write for write in known if source.ended < write.began]
            if not newer:
                return ""
        return f"older than {newer[0].value}, which was acknowledged before the read began"


def stage(catalog: Catalog, repository: str, path: str, value: str, branch: str = "main") -> None:
    """Write a value: an entry with this checksum."""
    catalog.objects.stage_object(
        repository, branch, path, physical_address=f"s3://elsewhere/{value}", checksum=value, size_bytes=1
    )


def listing(catalog: Catalog, repository: str, ref: str = "main") -> dict[str, str]:
    found: dict[str, str] = {}
    after = ""
    while True:
        page = catalog.reading.list_entries(repository, ref, after=after, amount=1000)
        found |= {stats.path: stats.checksum for stats in page.results}
        if not page.has_more:
            return found
        after = page.next_offset


def log_ids(catalog: Catalog, repository: str, ref: str = "main") -> list[str]:
    """Ids of all ancestors of a ref, newest first."""
    found: list[str] = []
    while True:
        page = catalog.commits.log(repository, ref, after=found[-1] if found else "", amount=1000)
        found += [commit.id for commit in page.results]
        if not page.has_more:
            return found
