"""The files of list_committed: their readers for later steps, and their writers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dredge.errors import RefusedError
from dredge.gc.index import store as index
from dredge.gc.index.ranges import Metaranges, Ranges, ranges_table
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.lakefs import CommitText
from dredge.runs.folder import RunFolder
from dredge.runs.payload import Detail, NamedPart, PartInfo, StepOutput
from dredge.sets.live import CountedSet, LiveSet, LocatedSet, ShardedSet

if TYPE_CHECKING:
    from dredge.gc.list_committed.active import ActiveCommits


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


_STEP = ListCommittedOutput.STEP


def write_commits(folder: RunFolder, active: ActiveCommits) -> list[PartInfo]:
    """Write the active commits, the history and the refs.

    The history answers later questions (reasons, other rules) without a server; no step reads it.
    """
    ids, heads = sorted(active.metaranges), active.heads
    commits = pa.table(
        {
            "commit_id": pa.array(ids, pa.string()),
            "metarange_id": pa.array([active.metaranges[commit] for commit in ids], pa.string()),
            "head": pa.array([commit in heads for commit in ids], pa.bool_()),
        }
    )
    graph = sorted(active.graph.values(), key=lambda commit: commit.id)
    history = pa.table(
        {
            "commit_id": pa.array([commit.id for commit in graph], pa.string()),
            "parents": pa.array([list(commit.parents) for commit in graph], pa.list_(pa.string())),
            "created_at": pa.array([commit.created_at for commit in graph], pa.timestamp("us", tz="UTC")),
            "metarange_id": pa.array([commit.metarange_id for commit in graph], pa.string()),
            "version": pa.array([commit.version for commit in graph], pa.int32()),
            **_text_columns([commit.text for commit in graph]),
        }
    )
    refs = [("branch", ref) for ref in active.branches] + [("tag", ref) for ref in active.tags]
    rows = [(kind, ref.id, ref.commit_id) for kind, ref in refs]
    paths = sorted(active.path_commits)
    return [
        folder.write_table(_STEP, 0, commits, COMMITS),
        folder.write_table(_STEP, 0, history, HISTORY),
        write_texts(folder, REFS, ("kind", "name", "commit_id"), rows),
        write_texts(folder, PATH_COMMITS, ("set", "commit_id"), paths),
    ]


def write_ranges(folder: RunFolder, ranges: Ranges, kind: str = RANGES) -> PartInfo:
    """Write ranges, by default active ranges."""
    return folder.write_table(_STEP, 0, ranges_table(ranges), kind)


def write_metaranges(folder: RunFolder, named: Metaranges, metaranges: Iterable[str]) -> list[PartInfo]:
    """Write metaranges and their ranges."""
    ranges, rows = named.to_tables(metaranges)
    return [
        folder.write_table(_STEP, 0, ranges, NAMED_RANGES),
        folder.write_table(_STEP, 0, rows, METARANGES),
    ]


def _text_columns(texts: Sequence[CommitText | None]) -> dict[str, pa.Array]:
    metadata = [text and json.dumps(dict(text.metadata), sort_keys=True) for text in texts]
    return {
        "committer": pa.array([text and text.committer for text in texts], pa.string()),
        "message": pa.array([text and text.message for text in texts], pa.string()),
        "metadata": pa.array(metadata, pa.string()),
        "generation": pa.array([text and text.generation for text in texts], pa.int64()),
    }


def write_texts(
    folder: RunFolder, kind: str, names: Sequence[str], rows: Sequence[tuple[str, ...]]
) -> PartInfo:
    """Write rows of texts; `names` are the columns."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    table = pa.table(
        {name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)}
    )
    return folder.write_table(_STEP, 0, table, kind)
