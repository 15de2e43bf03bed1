"""What a complete run leaves for the next one.

Everything that exists in a repository after such a run is at least one of these, so the next run needs to look
at nothing else:

    staged when the run looked · named by a range that was active then · in a slice that is not covered ·
    in the pending list (`dredge.gc.pending`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.gc.index import store as index
from dredge.runs.coverage import Coverage
from dredge.runs.summary import PartInfo
from dredge.sets.live import LocatedSet
from dredge.sets.sharded import CountedSet

FORMAT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state after a run. Files are named, with their digests, not copied.

    Attributes:
        repository: name in lakeFS.
        namespace: URI of its storage namespace.
        run_id: the run it came from.
        run_uri: that run's folder, where all parts are that name no other place.
        previous: run whose state this one built on; "" for a clean run.
        mode: "clean" or "optimized".
        started_at: the store's time when the run was planned.
        cutoff: only objects last modified strictly before it were candidates.
        clean_run_id: the last clean run.
        clean_at: when that one was planned.
        optimized_runs: runs since then.
        all_commits: the repository had no rules, so that every range file counted as active.
        first_slice: newest slice that the listing saw.
        objects: objects in the namespace, as the last clean run counted them.
        staged: files with the addresses that were staged.
        commits: file of the active commits.
        ranges: file of the active ranges.
        named_ranges: file of the ranges that metaranges name.
        named: file that says which metarange names which of them.
        path_ranges: file of ranges that are not active, but of which the policy kept single paths.
        looked_at: file with names of files below `_lakefs/` that need no further look.
        gone: files with sorted hashes of what the run deleted, or found gone when it was to delete it.
        covered: slices that need not be listed again.
        counted: how many active ranges name each address, in the folder of lease and index.
        index_format: of the index that this was counted by. By another one a range would take away, when it is
            dropped, counts of addresses to which it never added.
        sizes: sizes of the entries of branch heads, or more.
    """

    repository: str
    namespace: str
    run_id: str
    run_uri: str
    previous: str
    mode: str
    started_at: datetime
    cutoff: datetime
    clean_run_id: str
    clean_at: datetime
    optimized_runs: int
    all_commits: bool
    first_slice: str
    objects: int
    staged: tuple[PartInfo, ...]
    commits: PartInfo
    ranges: PartInfo
    named_ranges: PartInfo
    named: PartInfo
    path_ranges: PartInfo
    looked_at: PartInfo
    gone: tuple[PartInfo, ...]
    covered: Coverage
    counted: CountedSet
    index_format: int
    sizes: tuple[LocatedSet, ...]

    @property
    def parts(self) -> list[PartInfo]:
        """Every file in the run's own folder."""
        single = [getattr(self, name) for name in _FILES]
        return [*self.staged, *single, *self.gone]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _TEXTS},
            **{name: getattr(self, name).isoformat() for name in _TIMES},
            **{name: getattr(self, name).to_json() for name in _FILES},
            **{name: [part.to_json() for part in getattr(self, name)] for name in _LISTS},
            "covered": self.covered.to_json(),
            "counted": self.counted.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunState:
        """From the object that `to_json` made; raises KeyError, TypeError or ValueError when it is none."""
        if value["format"] != FORMAT:
            raise ValueError(f"format {value['format']}")
        if value["index_format"] != index.FORMAT:
            raise ValueError(f"counts by an index of format {value['index_format']}")
        fields: dict[str, Any] = {name: value[name] for name in _TEXTS}
        fields |= {name: datetime.fromisoformat(value[name]) for name in _TIMES}
        fields |= {name: PartInfo.from_json(value[name]) for name in _FILES}
        for name in ("staged", "gone"):
            fields[name] = tuple(PartInfo.from_json(part) for part in value[name])
        fields["sizes"] = tuple(LocatedSet.from_json(found) for found in value["sizes"])
        fields["covered"] = Coverage.from_json(value["covered"])
        fields["counted"] = CountedSet.from_json(value["counted"])
        return cls(**fields)


_TEXTS = (
    "repository",
    "namespace",
    "run_id",
    "run_uri",
    "previous",
    "mode",
    "clean_run_id",
    "optimized_runs",
    "all_commits",
    "first_slice",
    "objects",
    "index_format",
)
_TIMES = ("started_at", "cutoff", "clean_at")
_FILES = ("commits", "ranges", "named_ranges", "named", "path_ranges", "looked_at")
_LISTS = ("staged", "gone", "sizes")
