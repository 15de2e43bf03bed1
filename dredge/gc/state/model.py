"""What a complete run leaves for the next one.

Everything that exists in a repository after such a run is at least one of these, so the next run needs to look
at nothing else:

    staged when the run looked · named by a range that was active then · in a slice that is not covered ·
    in the pending list (`dredge.gc.pending`)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dredge.errors import FormatError
from dredge.gc.index import store as index
from dredge.runs.clock import Coverage
from dredge.runs.summary import PartInfo
from dredge.sets.live import CountedSet, LocatedSet

FORMAT = 5


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
        staged: files with the addresses that were staged, also in repositories that refer to this one.
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
        format: number of the format of states.
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
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.index_format != index.FORMAT:
            raise FormatError(f"counts by an index of format {self.index_format}")

    @property
    def parts(self) -> list[PartInfo]:
        """Every file in the run's own folder."""
        single = [getattr(self, name) for name in _FILES]
        return [*self.staged, *single, *self.gone]


_FILES = ("commits", "ranges", "named_ranges", "named", "path_ranges", "looked_at")
