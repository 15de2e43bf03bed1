"""The rows that list_committed writes; `output` names the files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from dredge.gc.index.metaranges import Metaranges
from dredge.gc.index.ranges import Ranges, table_of
from dredge.gc.list_committed import output
from dredge.gc.list_committed.active import ActiveCommits
from dredge.lakefs import CommitText
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo

_STEP = output.ListCommittedOutput.STEP


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
    return folder.write_table(_STEP, 0, table, output.COMMITS)


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
        folder.write_table(_STEP, 0, history, output.HISTORY),
        folder.write_table(_STEP, 0, refs, output.REFS),
    ]


def write_path_commits(folder: RunFolder, active: ActiveCommits) -> PartInfo:
    """Write the commits of which a policy keeps only some entries."""
    rows = sorted(active.path_commits)
    table = _texts({"set": [name for name, _ in rows], "commit_id": [commit for _, commit in rows]})
    return folder.write_table(_STEP, 0, table, output.PATH_COMMITS)


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
    return folder.write_table(_STEP, 0, table, output.BRANCHES)


def write_ranges(folder: RunFolder, ranges: Ranges, kind: str = output.RANGES) -> PartInfo:
    """Write ranges; without a kind those that are active."""
    return folder.write_table(_STEP, 0, table_of(ranges), kind)


def write_metaranges(folder: RunFolder, named: Metaranges, metaranges: Iterable[str]) -> list[PartInfo]:
    """Write some metaranges, and the ranges that they name."""
    ranges, rows = named.to_tables(metaranges)
    return [
        folder.write_table(_STEP, 0, ranges, output.NAMED_RANGES),
        folder.write_table(_STEP, 0, rows, output.METARANGES),
    ]


def write_files(folder: RunFolder, names: Iterable[str]) -> PartInfo:
    """Write the names of files that need not be looked at again."""
    return folder.write_table(_STEP, 0, _texts({"name": sorted(names)}), output.FILES)


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
