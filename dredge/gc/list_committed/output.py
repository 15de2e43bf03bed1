"""What list_committed hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.sets.live import LiveSet, LocatedSet
from dredge.gc.sets.sharded import CountedSet, ShardedSet
from dredge.gc.slice_listing import SliceListingOutput
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo


class ListCommittedOutput(StepOutput):
    """The active commits, their ranges, and the set of everything that is live."""

    STEP = "list_committed"
    INPUTS = (SliceListingOutput, MarkUncommittedOutput)

    @property
    def commits(self) -> PartInfo:
        """Rows of the active commits: commit, metarange, whether it is a head."""
        return self.part("commits-00000.parquet")

    @property
    def path_commits(self) -> PartInfo:
        """Rows of the commits of which only some paths are kept."""
        return self.part("path-commits-00000.parquet")

    @property
    def branches(self) -> PartInfo:
        """Rows of branches with every head that was seen."""
        return self.part("branches-00000.parquet")

    @property
    def ranges(self) -> PartInfo:
        """Rows of the active ranges."""
        return self.part("ranges-00000.parquet")

    @property
    def dropped(self) -> PartInfo:
        """Rows of the ranges that were active in the run before and are not now."""
        return self.part("dropped-00000.parquet")

    @property
    def path_ranges(self) -> PartInfo:
        """Rows of the ranges of which only some paths are kept."""
        return self.part("path-ranges-00000.parquet")

    @property
    def named_ranges(self) -> PartInfo:
        """Rows of the ranges that any metarange of the history names."""
        return self.part("named-ranges-00000.parquet")

    @property
    def metaranges(self) -> PartInfo:
        """Rows of metaranges with the ranges that each names."""
        return self.part("metaranges-00000.parquet")

    @property
    def files(self) -> PartInfo:
        """Rows of the range files that were looked at because no commit names them."""
        return self.part("files-00000.parquet")

    @property
    def live(self) -> LiveSet:
        """Hashes of every address that is live."""
        return LiveSet.from_json(self.detail("live"))

    @property
    def sizes(self) -> tuple[LocatedSet, ...]:
        """Sizes of the entries of branch heads, or more."""
        return tuple(LocatedSet.from_json(value) for value in self.detail("sizes"))

    @property
    def counted(self) -> CountedSet:
        """How many active ranges name each address."""
        return CountedSet.from_json(self.detail("counted"))

    @property
    def expired(self) -> ShardedSet:
        """Hashes of the addresses that only ranges of expired commits name."""
        return ShardedSet.of(self.parts("expired-"), self.detail("bits"))

    @property
    def all_commits(self) -> bool:
        """Whether every commit counts as active, because the repository has no rules."""
        found: bool = self.detail("all_commits")
        return found

    @property
    def kept(self) -> list[dict[str, Any]]:
        """What each kept set amounts to, for the report."""
        found: list[dict[str, Any]] = self.summary.details.get("kept", [])
        return found
