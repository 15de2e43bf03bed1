"""List committed: the active commits, their ranges, and the set of everything that is live."""

from __future__ import annotations

import logging

import pyarrow as pa

from dredge.gc.index.ranges import (
    Ranges,
    find_range_files,
    read_metaranges,
    table_of,
    unite_ranges,
)
from dredge.gc.list_committed.active import ActiveCommits, find_active, take_in_heads, write_path_commits
from dredge.gc.list_committed.collect import Roles, collect
from dredge.gc.list_committed.collect_tasks import LIVE, SIZES
from dredge.gc.list_committed.expired import find_expired
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.retention.kept_sets import Extra, count_kept, find_extra
from dredge.gc.retention.path_rules import collect_paths
from dredge.gc.run import Run
from dredge.gc.sets.live import LiveSet, LocatedSet
from dredge.gc.sets.sharded import CountedSet, ShardedSet
from dredge.gc.state.base import Base, base_of
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner

log = logging.getLogger("dredge")

STEP = "list_committed"
COMMITS, RANGES, BRANCHES = "commits", "ranges", "branches"
NAMED_RANGES, METARANGES, FILES, DROPPED = "named-ranges", "metaranges", "files", "dropped"
PATH_RANGES = "path-ranges"


def list_committed(run: Run, runner: TaskRunner) -> StepSummary:
    """Find the active commits and the addresses they name, and unite them with what is staged.

    Raises:
        RefusedError: an answer or a file is missing, so live objects could be taken for garbage.
        FormatError: a file is damaged.
    """
    return run.step_by_name(
        STEP, ["slice_listing", "mark_uncommitted"], lambda record: _list(run, runner, record)
    )


def _list(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    active = find_active(run)
    for warning in active.warnings:
        record.warn(warning)
    heads_seen = _take_in_heads_of_the_scan(run, record, active)
    base = base_of(run)
    named = read_metaranges(
        run,
        runner,
        f"{STEP}/active",
        active.metaranges.values(),
        None if base is None else base.metaranges(),
    )
    heads = {active.metaranges[commit] for _, commit in heads_seen}
    ranges = named.select(active.metaranges.values(), heads)
    looked_at = set[str]() if base is None else base.looked_at()
    if active.all_commits:
        _take_in_all_files(run, record, active, ranges, base, looked_at)
    expired_commits = active.expired
    expired = find_expired(run, expired_commits, named, ranges.keys())
    roles = Roles(ranges) if base is None else base.difference(ranges)
    roles.expired, roles.let_go = expired.ranges, roles.dropped.keys() & expired.known
    dropped = run.folder.write_table(STEP, 0, table_of(roles.dropped), DROPPED)
    record.parts.append(dropped)
    layers_max = run.plan.config.tuning.counted_layers_max
    if base is not None and len(base.state.counted.layers) >= layers_max:
        let_go = {range_id: roles.dropped[range_id] for range_id in roles.let_go}
        roles, base = Roles(ranges, roles.expired | let_go), None
    extras = find_extra(run, runner, STEP, active, named)
    by_path = dict(item for extra in extras if extra.found.paths for item in extra.ranges.items())
    record.parts.append(run.folder.write_table(STEP, 0, table_of(by_path), PATH_RANGES))
    undropped = _collect(run, runner, record, roles, base, extras)
    record.parts.append(write_commits(run, STEP, active))
    record.parts.append(write_ranges(run, STEP, ranges | undropped))
    record.parts.append(write_branches(run, STEP, active, heads_seen))
    record.parts.append(write_path_commits(run, STEP, active))
    named_ranges, rows = named.to_table(active.metaranges.values())
    record.parts.append(run.folder.write_table(STEP, 0, named_ranges, NAMED_RANGES))
    record.parts.append(run.folder.write_table(STEP, 0, rows, METARANGES))
    files = pa.table({"name": pa.array(sorted(looked_at), pa.string())})
    record.parts.append(run.folder.write_table(STEP, 0, files, FILES))
    record.counts.update(
        active_commits=len(active.metaranges),
        reachable_commits=len(active.graph),
        expired_commits=len(expired_commits),
        dangling_commits=len(active.metaranges.keys() - active.graph.keys()),
        branches=len(active.branches),
        tags=len(active.tags),
        metaranges=len({metarange for metarange in active.metaranges.values() if metarange}),
        range_rows=sum(facts.count for facts in ranges.values()),
    )
    record.details.update(
        sources=active.sources, all_commits=active.all_commits, expired_explained=expired.complete
    )


def _take_in_heads_of_the_scan(run: Run, record: StepRecord, active: ActiveCommits) -> list[tuple[str, str]]:
    """Take the heads that branches had while staging was read for active, too.

    Returns:
        Each branch and commit that it was seen at, by now.
    """
    table = run.folder.read_part(record.input(MarkUncommittedOutput).heads)
    seen = set(zip(table["branch"].to_pylist(), table["commit_id"].to_pylist(), strict=True))
    take_in_heads(run, active, seen)
    return sorted(seen | {(branch.id, branch.commit_id) for branch in active.branches})


def _take_in_all_files(
    run: Run,
    record: StepRecord,
    active: ActiveCommits,
    ranges: Ranges,
    base: Base | None,
    looked_at: set[str],
) -> None:
    """Without rules no commit ever expires, so what a dangling commit names stays as well: take every range
    file of the namespace for active."""
    if base is not None and base.state.all_commits:
        then = base.ranges()
        unite_ranges(ranges, ((item, facts) for item, facts in then.items() if item not in ranges))
    seen = [*active.metaranges.values(), *ranges, *looked_at]
    files, names = find_range_files(run, seen)
    unite_ranges(ranges, files.items())
    looked_at.update(name for name in names if name not in files)
    record.counts["range_files_looked_at"] = len(names)
    record.warn(
        "the repository has no garbage collection rules: every commit counts as active, and every range"
        " file in the namespace as well"
    )


def _collect(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    roles: Roles,
    base: Base | None,
    extras: list[Extra],
) -> Ranges:
    """Unite what ranges and staging name, and say where later steps and later runs find it.

    Returns:
        Ranges that are not active any more but still count, because they could not be read.
    """
    staged = record.inputs["mark_uncommitted"].parts_below("mark_uncommitted/hashes-")
    before = None if base is None else base.state
    keep_counts = before is not None or not run.plan.dry_run
    count_here = not keep_counts and any(extra.ranges for extra in extras)
    collected = collect(
        run,
        runner,
        STEP,
        roles,
        staged,
        counted_bits=None if before is None else before.counted.bits,
        keep_counts=keep_counts,
        count_here=count_here,
    )
    record.parts.extend(collected.parts)
    record.counts.update(collected.counts)

    def located(kind: str) -> LocatedSet:
        parts = [part for part in collected.parts if part.name.startswith(f"{STEP}/{kind}-")]
        return LocatedSet(run.plan.run_uri, ShardedSet.of(parts, collected.bits))

    sizes, counted = [located(SIZES)], None
    if before is None:
        whole = CountedSet.of(collected.counted, collected.bits)
    else:
        sizes = [*before.sizes, *sizes]
        whole = counted = before.counted.then(collected.counted)
        record.counts["live_addresses"] += sum(part.rows for part in counted.parts)
        record.counts["dropped_ranges"] = len(roles.dropped)
    paths = collect_paths(run, runner, STEP, extras)
    record.parts.extend(paths)
    by_path = [LocatedSet(run.plan.run_uri, ShardedSet(0, {0: part})) for part in paths]
    live = LiveSet((located(LIVE), *by_path), counted, run.state.uri)
    listed = record.inputs["slice_listing"].parts_below("slice_listing/part-")
    whole_uri = run.plan.run_uri if count_here else run.state.uri
    record.details["kept"] = count_kept(run, runner, STEP, extras, listed, staged, whole, whole_uri)
    record.details.update(
        bits=collected.bits,
        live=live.to_json(),
        sizes=[found.to_json() for found in sizes],
        counted=whole.to_json(),
    )
    if collected.undropped:
        record.warn(
            f"{len(collected.undropped):,} ranges that are not active any more cannot be read; what they name"
            " stays until the next clean run"
        )
    return {range_id: roles.dropped[range_id] for range_id in collected.undropped}


def write_commits(run: Run, where: str, active: ActiveCommits) -> PartInfo:
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
    return run.folder.write_table(where, 0, table, COMMITS)


def write_ranges(run: Run, where: str, ranges: Ranges) -> PartInfo:
    """Write the active ranges as `<where>/ranges-00000.parquet`."""
    return run.folder.write_table(where, 0, table_of(ranges), RANGES)


def write_branches(run: Run, where: str, active: ActiveCommits, heads: list[tuple[str, str]]) -> PartInfo:
    """Write branches, each with every head that was seen and its content, as `<where>/branches-00000.parquet`."""
    table = pa.table(
        {
            "branch": pa.array([branch for branch, _ in heads], pa.string()),
            "commit_id": pa.array([commit for _, commit in heads], pa.string()),
            "metarange_id": pa.array([active.metaranges[commit] for _, commit in heads], pa.string()),
        }
    )
    return run.folder.write_table(where, 0, table, BRANCHES)
