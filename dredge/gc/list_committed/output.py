"""What list_committed hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.errors import RefusedError
from dredge.gc.index import store as index
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.runs.payload import from_json
from dredge.runs.summary import PartInfo, StepOutput
from dredge.sets.live import CountedSet, LiveSet, LocatedSet, ShardedSet

LIVE, SIZES, EXPIRED = "live", "sizes", "expired"
"""Files of hashes begin with these names: addresses of active ranges and of staging; sizes of the entries of branch
heads; addresses of ranges that only expired commits of the history name."""
COUNTS = "counts"
"""Files that tell how many active ranges name each address begin with this name."""
COUNTED = "counted"
"""Folder of files of counts that later runs build on, beside the committed index."""

COMMITS, PATH_COMMITS, BRANCHES = "commits", "path-commits", "branches"
RANGES, DROPPED, PATH_RANGES = "ranges", "dropped", "path-ranges"
NAMED_RANGES, METARANGES, FILES = "named-ranges", "metaranges", "files"
HISTORY, REFS = "history", "refs"
UNNAMED, CARRIED, OPENED = "unnamed-metaranges", "carried-commits", "opened-tables"
REFERRING = "referring"
"""Folder of what other repositories name below the namespace."""


class ListCommittedOutput(StepOutput):
    """The active commits, their ranges, and the set of everything that is live."""

    STEP = "list_committed"
    INPUTS = (SliceListingOutput, MarkUncommittedOutput)

    @property
    def commits(self) -> PartInfo:
        """Rows of the active commits: `commit_id`, `metarange_id`, `head` (of a branch)."""
        return self._table(COMMITS)

    @property
    def path_commits(self) -> PartInfo:
        """Rows of the commits of which only some paths are kept: `set`, `commit_id`."""
        return self._table(PATH_COMMITS)

    @property
    def branches(self) -> PartInfo:
        """Rows of branches with every head that was seen: `branch`, `commit_id`, `metarange_id`."""
        return self._table(BRANCHES)

    @property
    def ranges(self) -> PartInfo:
        """Rows of the active ranges."""
        return self._table(RANGES)

    @property
    def dropped(self) -> PartInfo:
        """Rows of the ranges that were active in the run before and are not now."""
        return self._table(DROPPED)

    @property
    def path_ranges(self) -> PartInfo:
        """Rows of the ranges of which only some paths are kept."""
        return self._table(PATH_RANGES)

    @property
    def named_ranges(self) -> PartInfo:
        """Rows of the ranges that any metarange of the history names."""
        return self._table(NAMED_RANGES)

    @property
    def metaranges(self) -> PartInfo:
        """Rows of metaranges with the ranges that each names."""
        return self._table(METARANGES)

    @property
    def unnamed_metaranges(self) -> PartInfo:
        """Rows of the metaranges that count as active commits, whatever names them: `metarange_id`, `lost` (written
        before the cutoff, and no known commit names it)."""
        return self._table(UNNAMED)

    @property
    def carried_commits(self) -> PartInfo:
        """Rows of commits of earlier marks that the record of this mark carries on."""
        return self._table(CARRIED)

    @property
    def is_what_if(self) -> bool:
        """Whether settings keep less than the repository's own, so that the mark leaves nothing for later ones."""
        return bool(self.detail("witness").get("what_if"))

    @property
    def opened_tables(self) -> PartInfo:
        """Rows of files below `_lakefs/` that were opened to see what they are: `name`, `kind`."""
        return self._table(OPENED)

    @property
    def history(self) -> PartInfo:
        """Rows of the commits that refs lead to, active or not: `commit_id`, `parents`, `created_at`, `metarange_id`,
        `version`, `committer`, `message`, `metadata` (JSON), `generation`; the last four are null where they were not
        read."""
        return self._table(HISTORY)

    @property
    def refs(self) -> PartInfo:
        """Rows of branches and tags: `kind` ("branch" or "tag"), `name`, `commit_id`."""
        return self._table(REFS)

    @property
    def rules(self) -> dict[str, Any] | None:
        """The repository's rules as the run read them: `default_retention_days`, `branches`; None where it had none."""
        found: dict[str, Any] | None = self.detail("rules")
        return found

    @property
    def files(self) -> PartInfo:
        """Rows of the files below `_lakefs/` that need not be looked at again: `name`."""
        return self._table(FILES)

    @property
    def live(self) -> LiveSet:
        """Hashes of every address that is live."""
        return from_json(LiveSet, self.detail("live"))

    @property
    def referring(self) -> list[dict[str, Any]]:
        """What other repositories name, which `live` has: payloads of `dredge.gc.referring.Referred`."""
        found: list[dict[str, Any]] = self.detail(REFERRING)
        return found

    @property
    def sizes(self) -> tuple[LocatedSet, ...]:
        """Sizes of the entries of branch heads, or more."""
        return tuple(from_json(LocatedSet, value) for value in self.detail("sizes"))

    @property
    def counted(self) -> CountedSet:
        """How many active ranges name each address."""
        return from_json(CountedSet, self.detail("counted"))

    @property
    def index_format(self) -> int:
        """Format of the index by which that was counted."""
        found: int = self.detail("index_format")
        return found

    def refuse_other_readings(self) -> None:
        """Refuse to take for garbage what a version found not live that reads addresses in another way: the sweep reads
        no range again that the mark has read.

        Raises:
            RefusedError: Dredge was replaced by another version while the run went on.
        """
        if self.index_format != index.FORMAT:
            raise RefusedError(
                f"run {self.summary.run_id}: another version of Dredge, which reads addresses in another way, found"
                " what is live. Nothing more was deleted. Start a new run."
            )

    @property
    def expired(self) -> ShardedSet:
        """Hashes of the addresses that only ranges of expired commits name."""
        return ShardedSet.of(self.parts(f"{EXPIRED}-"), self.detail("bits"))

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

    def _table(self, kind: str) -> PartInfo:
        return self.part(f"{kind}-00000.parquet")
