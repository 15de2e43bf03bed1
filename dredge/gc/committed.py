"""List committed: the active commits, their ranges, and the set of everything that is live."""

from __future__ import annotations

import logging

import pyarrow as pa

from dredge.errors import DredgeError
from dredge.gc.active import ActiveCommits, find_active
from dredge.gc.collect import LIVE, Roles, collect
from dredge.gc.context import Context
from dredge.gc.ranges import Ranges, find_range_files, read_ranges, table_of, unite_ranges
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner

log = logging.getLogger("dredge")

STEP = "committed"
COMMITS, RANGES, BRANCHES = "commits", "ranges", "branches"
_EXPLAIN_COMMITS_MAX = 64


def list_committed(context: Context, runner: TaskRunner) -> StepSummary:
    """Find the active commits and the addresses they name, and unite them with what is staged.

    Raises:
        RefusedError: an answer or a file is missing, so live objects could be taken for garbage.
        FormatError: a file is damaged.
    """
    return context.step(STEP, ["listing", "staged"], lambda record: _list(context, runner, record))


def _list(context: Context, runner: TaskRunner, record: StepRecord) -> None:
    active = find_active(context)
    for warning in active.warnings:
        record.warn(warning)
    roles = _roles(context, runner, active)
    if active.all_commits:
        files, looked_at = find_range_files(context, [*active.metaranges.values(), *roles.active])
        unite_ranges(roles.active, files.items())
        record.counts["range_files_looked_at"] = looked_at
        record.warn(
            "the repository has no garbage collection rules: every commit counts as active, and every range"
            " file in the namespace as well"
        )
    staged = record.inputs["staged"].parts_below("staged/hashes-")
    collected = collect(context, runner, STEP, roles, staged)
    record.parts.append(write_commits(context, STEP, active))
    record.parts.append(write_ranges(context, STEP, roles.active))
    record.parts.append(write_branches(context, STEP, active))
    record.parts.extend(collected.parts)
    record.counts.update(
        active_commits=len(active.metaranges),
        known_commits=len(active.graph),
        branches=len(active.branches),
        tags=len(active.tags),
        metaranges=len({metarange for metarange in active.metaranges.values() if metarange}),
        **collected.counts,
    )
    record.details.update(bits=collected.bits, sources=active.sources, all_commits=active.all_commits)


def _roles(context: Context, runner: TaskRunner, active: ActiveCommits) -> Roles:
    heads = {active.metaranges[commit] for commit in active.heads}
    ranges = read_ranges(context, runner, f"{STEP}/active", active.metaranges.values(), heads)
    return Roles(ranges, _expired(context, active, ranges))


def _expired(context: Context, active: ActiveCommits, ranges: Ranges) -> Ranges:
    """Ranges that only expired commits name, as many as may be read to explain garbage; the newest commits
    first.

    They are for the report alone, so a file that cannot be read is left out.
    """
    most = context.plan.config.tuning.explain_ranges_max
    gone = [commit for commit_id, commit in active.graph.items() if commit_id not in active.metaranges]
    gone.sort(key=lambda commit: commit.created_at, reverse=True)
    found: Ranges = {}
    for commit in gone[:_EXPLAIN_COMMITS_MAX]:
        try:
            named = read_ranges(context, LocalRunner(), f"{STEP}/expired", [commit.metarange_id])
        except DredgeError as error:
            log.info("expired commit %s cannot be read: %s", commit.id, error)
            continue
        found.update((range_id, facts) for range_id, facts in named.items() if range_id not in ranges)
        if len(found) >= most:
            break
    return dict(list(found.items())[:most])


def write_commits(context: Context, where: str, active: ActiveCommits) -> PartInfo:
    """Write the active commits as `<where>/commits-00000.parquet`."""
    ids = sorted(active.metaranges)
    heads = active.heads
    table = pa.table(
        {
            "commit_id": pa.array(ids, pa.string()),
            "metarange_id": pa.array([active.metaranges[commit] for commit in ids], pa.string()),
            "head": pa.array([commit in heads for commit in ids], pa.bool_()),
        }
    )
    return context.folder.write_table(where, 0, table, COMMITS)


def write_ranges(context: Context, where: str, ranges: Ranges) -> PartInfo:
    """Write the active ranges as `<where>/ranges-00000.parquet`."""
    return context.folder.write_table(where, 0, table_of(ranges), RANGES)


def write_branches(context: Context, where: str, active: ActiveCommits) -> PartInfo:
    """Write branches with their heads' content as `<where>/branches-00000.parquet`."""
    table = pa.table(
        {
            "branch": pa.array([branch.id for branch in active.branches], pa.string()),
            "commit_id": pa.array([branch.commit_id for branch in active.branches], pa.string()),
            "metarange_id": pa.array(
                [active.metaranges[branch.commit_id] for branch in active.branches], pa.string()
            ),
        }
    )
    return context.folder.write_table(where, 0, table, BRANCHES)


def live_parts(summary: StepSummary) -> list[PartInfo]:
    """The shards of the live set, in order of their number."""
    return summary.parts_below(f"{summary.step}/{LIVE}-")
