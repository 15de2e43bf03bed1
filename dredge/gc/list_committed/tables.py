"""The files of list_committed, for later steps."""

from __future__ import annotations

from typing import Any

from dredge.errors import RefusedError
from dredge.gc.index import store as index
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.runs.payload import Detail, NamedPart, StepOutput
from dredge.sets.live import CountedSet, LiveSet, LocatedSet, ShardedSet

# Files of hashes: live addresses; sizes of the entries of branch heads; addresses of ranges of expired commits only.
LIVE, SIZES, EXPIRED = "live", "sizes", "expired"
# Files with the number of active ranges that name each address.
COUNTS = "counts"
# Folder of counts for later runs, beside the committed index.
COUNTED = "counted"
COMMITS, PATH_COMMITS, BRANCHES = "commits", "path-commits", "branches"
RANGES, DROPPED, PATH_RANGES = "ranges", "dropped", "path-ranges"
NAMED_RANGES, METARANGES, FILES = "named-ranges", "metaranges", "files"
HISTORY, REFS = "history", "refs"
UNNAMED, CARRIED, OPENED = "unnamed-metaranges", "carried-commits", "opened-tables"
# Folder of the addresses of other repositories.
REFERRING = "referring"


def _table(kind: str) -> NamedPart:
    return NamedPart(f"{kind}-00000.parquet")


class ListCommittedOutput(StepOutput):
    """The active commits, their ranges, and the live set."""

    STEP = "list_committed"
    INPUTS = (SliceListingOutput, MarkUncommittedOutput)

    # Active commits: `commit_id`, `metarange_id`, `head` (of a branch).
    commits = _table(COMMITS)
    # Commits of which a policy keeps only some paths: `set`, `commit_id`.
    path_commits = _table(PATH_COMMITS)
    # Branches with each head seen: `branch`, `commit_id`, `metarange_id`.
    branches = _table(BRANCHES)
    # Active ranges; ranges active in the run before, not now; ranges of which only some paths are kept.
    ranges = _table(RANGES)
    dropped = _table(DROPPED)
    path_ranges = _table(PATH_RANGES)
    # Ranges of any metarange of the history, and metaranges with their ranges.
    named_ranges = _table(NAMED_RANGES)
    metaranges = _table(METARANGES)
    # Metaranges counted as active commits without an active commit: `metarange_id`, `lost` (written before the cutoff,
    # without a known commit).
    unnamed_metaranges = _table(UNNAMED)
    # Commits of earlier marks that this mark's record keeps.
    carried_commits = _table(CARRIED)
    # Files below `_lakefs/` opened for their type: `name`, `kind`.
    opened_tables = _table(OPENED)
    # Commits reachable from refs: `commit_id`, `parents`, `created_at`, `metarange_id`, `version`, `committer`,
    # `message`, `metadata` (JSON), `generation`; the last four are null if unread.
    history = _table(HISTORY)
    # Branches and tags: `kind` ("branch" or "tag"), `name`, `commit_id`.
    refs = _table(REFS)
    # Files below `_lakefs/` that later runs need not open: `name`.
    files = _table(FILES)

    # The repository's rules: `default_retention_days`, `branches`; None without rules.
    rules: Detail[dict[str, Any] | None] = Detail("rules")
    # Hashes of every live address.
    live = Detail("live", LiveSet)
    # Addresses of other repositories, also in `live`: payloads of `dredge.gc.referring.Referred`.
    referring: Detail[list[dict[str, Any]]] = Detail(REFERRING)
    # Sizes of the entries of branch heads; an optimized run also has those that earlier runs noted.
    sizes = Detail("sizes", tuple[LocatedSet, ...])
    # The number of active ranges with each address, and the format of the committed index behind it.
    counted = Detail("counted", CountedSet)
    index_format: Detail[int] = Detail("index_format")
    # Whether every commit counts as active, because the repository has no rules.
    all_commits: Detail[bool] = Detail("all_commits")
    # Figures of each kept set, for the report.
    kept: Detail[list[dict[str, Any]]] = Detail("kept", default=[])

    @property
    def is_what_if(self) -> bool:
        """Whether the settings keep less than the repository's own, so later marks must not use it."""
        return bool(self.detail("witness").get("what_if"))

    @property
    def sizes_there(self) -> list[Any]:
        """Sizes of the entries of branch heads of other repositories, as payloads of sets in the run folder."""
        return [item["sizes"] for item in self.referring if "sizes" in item]

    @property
    def expired(self) -> ShardedSet:
        """Hashes of the addresses named only by ranges of expired commits."""
        return ShardedSet.of(self.parts(f"{EXPIRED}-"), self.detail("bits"))

    def refuse_other_readings(self) -> None:
        """Refuse to delete by a live set of a version that reads addresses differently. Raises RefusedError: Dredge
        was replaced by another version during the run."""
        if self.index_format != index.FORMAT:
            raise RefusedError(
                f"run {self.summary.run_id}: the live set is from another version of Dredge, which reads addresses"
                " differently. Nothing more was deleted. Start a new run."
            )
