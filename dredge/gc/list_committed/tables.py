"""What list_committed hands to later steps.

The rows that list_committed writes; `output` names the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dredge.errors import RefusedError
from dredge.gc.index import store as index
from dredge.gc.index.ranges import Metaranges, Ranges, table_of
from dredge.gc.list_committed.active import ActiveCommits
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.lakefs import CommitText
from dredge.runs.folder import RunFolder
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


_STEP = ListCommittedOutput.STEP


def write_commits(folder: RunFolder, active: ActiveCommits) -> PartInfo:
    """Write the active commits."""
    ids, heads = sorted(active.metaranges), active.heads
    table = pa.table(
        {
            "commit_id": pa.array(ids, pa.string()),
            "metarange_id": pa.array([active.metaranges[commit] for commit in ids], pa.string()),
            "head": pa.array([commit in heads for commit in ids], pa.bool_()),
        }
    )
    return folder.write_table(_STEP, 0, table, COMMITS)


def write_history(folder: RunFolder, active: ActiveCommits) -> list[PartInfo]:
    """Write every commit that refs lead to, and the refs; nothing of this run reads them, but who asks afterwards what
    keeps an object, or what other rules would free, needs no server."""
    commits = sorted(active.graph.values(), key=lambda commit: commit.id)
    history = pa.table(
        {
            "commit_id": pa.array([commit.id for commit in commits], pa.string()),
            "parents": pa.array([list(commit.parents) for commit in commits], pa.list_(pa.string())),
            "created_at": pa.array([commit.created_at for commit in commits], pa.timestamp("us", tz="UTC")),
            "metarange_id": pa.array([commit.metarange_id for commit in commits], pa.string()),
            "version": pa.array([commit.version for commit in commits], pa.int32()),
            **_text_columns([commit.text for commit in commits]),
        }
    )
    named = [("branch", ref) for ref in active.branches] + [("tag", ref) for ref in active.tags]
    refs = _texts(
        {
            "kind": [kind for kind, _ in named],
            "name": [ref.id for _, ref in named],
            "commit_id": [ref.commit_id for _, ref in named],
        }
    )
    return [
        folder.write_table(_STEP, 0, history, HISTORY),
        folder.write_table(_STEP, 0, refs, REFS),
    ]


def write_path_commits(folder: RunFolder, active: ActiveCommits) -> PartInfo:
    """Write the commits of which a policy keeps only some entries."""
    rows = sorted(active.path_commits)
    table = _texts({"set": [name for name, _ in rows], "commit_id": [commit for _, commit in rows]})
    return folder.write_table(_STEP, 0, table, PATH_COMMITS)


def write_branches(
    folder: RunFolder, heads: Sequence[tuple[str, str]], metaranges: Mapping[str, str]
) -> PartInfo:
    """Write branches, each with every head that was seen and its content.

    Args:
        folder: the run folder.
        heads: branches, each with a commit that was its head.
        metaranges: metarange id by commit id.
    """
    table = _texts(
        {
            "branch": [branch for branch, _ in heads],
            "commit_id": [commit for _, commit in heads],
            "metarange_id": [metaranges[commit] for _, commit in heads],
        }
    )
    return folder.write_table(_STEP, 0, table, BRANCHES)


def write_ranges(folder: RunFolder, ranges: Ranges, kind: str = RANGES) -> PartInfo:
    """Write ranges; without a kind those that are active."""
    return folder.write_table(_STEP, 0, table_of(ranges), kind)


def write_metaranges(folder: RunFolder, named: Metaranges, metaranges: Iterable[str]) -> list[PartInfo]:
    """Write some metaranges, and the ranges that they name."""
    ranges, rows = named.to_tables(metaranges)
    return [
        folder.write_table(_STEP, 0, ranges, NAMED_RANGES),
        folder.write_table(_STEP, 0, rows, METARANGES),
    ]


def write_files(folder: RunFolder, names: Iterable[str]) -> PartInfo:
    """Write the names of files that need not be looked at again."""
    return folder.write_table(_STEP, 0, _texts({"name": sorted(names)}), FILES)


def _text_columns(texts: Sequence[CommitText | None]) -> dict[str, pa.Array]:
    """The fields of commits that only their ids depend on; null where they were not read."""
    return {
        "committer": pa.array([text and text.committer for text in texts], pa.string()),
        "message": pa.array([text and text.message for text in texts], pa.string()),
        "metadata": pa.array(
            [text and json.dumps(dict(text.metadata), sort_keys=True) for text in texts], pa.string()
        ),
        "generation": pa.array([text and text.generation for text in texts], pa.int64()),
    }


def _texts(columns: Mapping[str, Sequence[str]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
