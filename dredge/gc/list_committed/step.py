"""Expired ranges: what those commits of the history name that are not active any more. They say why an object is
garbage, and serve nothing else.

The same ranges are read whatever runs came before: those of expired commits that branches and tags lead to, the newest
first, as many as the limits allow. What only dangling commits named counts as garbage whose history is gone, because
only earlier runs, if any, could still tell of them.

List committed: the active commits, their ranges, and the set of everything that is live.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from dredge.errors import DredgeError
from dredge.gc.index import store as index
from dredge.gc.index.ranges import (
    Metaranges,
    RangeFacts,
    Ranges,
    find_range_files,
    read_metaranges,
    unite_ranges,
)
from dredge.gc.list_committed import tables
from dredge.gc.list_committed.active import ActiveCommits, find_active, take_in_heads
from dredge.gc.list_committed.collect import Collected, collect_ranges
from dredge.gc.list_committed.read_ranges import Roles
from dredge.gc.list_committed.tables import DROPPED, PATH_RANGES, REFERRING, SIZES, ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.referring import Referred, look_at_referring
from dredge.gc.retention.kept_figures import count_kept
from dredge.gc.retention.kept_sets import Extra, collect_paths, find_extra
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state import Base, base_of
from dredge.gc.witness.mark import Witnessed, pass_witnesses
from dredge.lakefs import Commit
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.sets.live import CountedSet, LiveSet, LocatedSet, ShardedSet

log = logging.getLogger("dredge")

_COMMITS_MAX = 64
_WHERE = f"{ListCommittedOutput.STEP}/expired"


@dataclass(frozen=True, slots=True)
class Expired:
    """What expired commits name.

    Attributes:
        ranges: of the newest of them, as many as may be read.
        named: ids of these, and of all others whose metarange was read already.
        complete: whether `ranges` is all.
    """

    ranges: Ranges
    named: Collection[str]
    complete: bool


def find_expired(run: Run, commits: Sequence[Commit], named: Metaranges, active: Collection[str]) -> Expired:
    """Find the ranges that only expired commits name.

    They are for the report alone, so a file that cannot be read is left out.

    Args:
        run: the run.
        commits: the expired ones that refs lead to, newest first.
        named: metaranges that were read already: of active commits, and of those that an earlier run found active.
        active: ids of the active ranges.
    """
    most = run.plan.config.tuning.explain_ranges_max
    metaranges = list(dict.fromkeys(commit.metarange_id for commit in commits if commit.metarange_id))
    find = _finder(named, active)
    ids = {item for metarange in metaranges if metarange in named.named for item, _ in find(metarange)}
    looked_into = metaranges[: _COMMITS_MAX if most else 0]
    read = _read(run, [item for item in looked_into if item not in named.named])
    finders = [(named.named, _finder(named, active)), (read.named, _finder(read, active))]
    found: Ranges = {}
    for metarange in looked_into:
        for names, find in finders:
            found.update(find(metarange) if metarange in names else ())
        if len(found) > most:
            break
    complete = len(looked_into) == len(metaranges) and len(found) <= most
    return Expired(dict(list(found.items())[:most]), ids | found.keys(), complete)


def _finder(read: Metaranges, active: Collection[str]) -> Callable[[str], list[tuple[str, RangeFacts]]]:
    """A function that gives the ranges of a metarange that are not active and that it has not given before.

    Successive commits name mostly the same ranges, so the rest is found by row numbers, without a look at each range.
    """
    ids, facts = list(read.ranges), list(read.ranges.values())
    seen = np.fromiter((item in active for item in ids), bool, len(ids))

    def find(metarange: str) -> list[tuple[str, RangeFacts]]:
        rows = read.named[metarange]
        new = rows[~seen[rows]]
        seen[new] = True
        return [(ids[row], facts[row]) for row in new.tolist()]

    return find


def _read(run: Run, metaranges: Sequence[str]) -> Metaranges:
    """Read metaranges, all at once, or one by one when some cannot be read."""
    try:
        return read_metaranges(run, LocalRunner(), _WHERE, metaranges)
    except DredgeError:
        read = Metaranges()
    for item in metaranges:
        try:
            read.add(read_metaranges(run, LocalRunner(), _WHERE, [item]))
        except DredgeError as error:
            log.info("metarange %s of an expired commit cannot be read: %s", item, error)
    return read


STEP = ListCommittedOutput.STEP


def list_committed(run: Run, runner: TaskRunner) -> StepSummary:
    """Find the active commits and the addresses they name, and unite them with what is staged.

    Raises:
        RefusedError: an answer or a file is missing, so live objects could be taken for garbage.
        FormatError: a file is damaged.
    """
    return run.step(ListCommittedOutput, lambda record: _list(run, runner, record))


@dataclass(slots=True)
class _History:
    """What was read of commits and metaranges.

    Attributes:
        active: the active commits.
        heads: every branch with each commit that was seen to be its head.
        named: the metaranges of the active commits, unnamed ones, and those that an earlier run read.
        witnessed: what the witnesses add.
        ranges: the active ones.
        files: names of files below `_lakefs/` that need not be looked at again.
    """

    active: ActiveCommits
    heads: list[tuple[str, str]]
    named: Metaranges
    witnessed: Witnessed
    ranges: Ranges
    files: set[str] = field(default_factory=set)

    @property
    def metaranges(self) -> set[str]:
        """Those that count: of active commits, and unnamed ones."""
        return {*self.active.metaranges.values(), *self.witnessed.metaranges}


def _list(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    base = base_of(run)
    history = _read_history(run, runner, record, base)
    active, ranges, named = history.active, history.ranges, history.named
    expired_commits = active.expired
    expired = find_expired(run, expired_commits, named, ranges.keys())
    roles = Roles(ranges) if base is None else Roles.since(base.ranges(), ranges)
    roles.expired, roles.dropped_expired = expired.ranges, roles.dropped.keys() & expired.named
    record.parts.append(tables.write_ranges(run.folder, roles.dropped, DROPPED))
    if base is not None and len(base.state.counted.layers) >= run.plan.config.tuning.counted_layers_max:
        roles, base = _afresh(roles, ranges), None
    extras = _find_extra(run, runner, history)
    by_path = dict(item for extra in extras if extra.kept.paths for item in extra.ranges.items())
    record.parts.append(tables.write_ranges(run.folder, by_path, PATH_RANGES))
    referred = look_at_referring(run, runner, f"{STEP}/{REFERRING}", record.parts.extend)
    undropped = _collect(run, runner, record, roles, base, extras, referred)
    record.parts += [
        tables.write_commits(run.folder, active),
        tables.write_ranges(run.folder, ranges | undropped),
        tables.write_branches(run.folder, history.heads, active.metaranges),
        tables.write_path_commits(run.folder, active),
        *tables.write_history(run.folder, active),
        *tables.write_metaranges(run.folder, named, history.metaranges),
        tables.write_files(run.folder, history.files),
        *history.witnessed.parts,
    ]
    record.counts.update(
        active_commits=len(active.metaranges),
        reachable_commits=len(active.graph),
        expired_commits=len(expired_commits),
        dangling_commits=len(active.dangling),
        branches=len(active.branches),
        tags=len(active.tags),
        metaranges=len({metarange for metarange in active.metaranges.values() if metarange}),
        range_rows=sum(facts.count for facts in (ranges | undropped).values()),
        referring_repositories=len(referred),
        referring_addresses=sum(item.live.values for item in referred),
    )
    record.details.update(
        sources=active.sources,
        all_commits=active.all_commits,
        rules=None if active.rules is None else to_json(active.rules),
        expired_explained=expired.complete,
        referring=[to_json(item) for item in referred],
    )


def _read_history(run: Run, runner: TaskRunner, record: StepRecord, base: Base | None) -> _History:
    """Find the active commits and their ranges."""
    active = find_active(run)
    for warning in active.warnings:
        record.warn(warning)
    heads = _take_in_heads_of_the_scan(run, record, active)
    passed = pass_witnesses(run, record, active)
    earlier = None if base is None else base.metaranges()
    named = read_metaranges(run, runner, f"{STEP}/active", active.metaranges.values(), earlier)
    witnessed = passed.count_unnamed(run, record, named)
    named = read_metaranges(run, runner, f"{STEP}/unnamed", witnessed.metaranges, named)
    in_heads = {active.metaranges[commit] for _, commit in heads}
    ranges = named.select({*active.metaranges.values(), *witnessed.metaranges}, in_heads)
    looked_at = set() if base is None else base.looked_at()
    history = _History(active, heads, named, witnessed, ranges, looked_at)
    if active.all_commits:
        _take_in_all_files(run, record, history, base)
    return history


def _take_in_heads_of_the_scan(run: Run, record: StepRecord, active: ActiveCommits) -> list[tuple[str, str]]:
    """Count the heads that branches had while staging was read as active, too.

    Returns:
        Each branch with each commit that was seen to be its head, by now.
    """
    table = run.folder.read_part(record.input(MarkUncommittedOutput).heads)
    seen = set(zip(table["branch"].to_pylist(), table["commit_id"].to_pylist(), strict=True))
    take_in_heads(run, active, seen)
    return sorted(seen | {(branch.id, branch.commit_id) for branch in active.branches})


def _take_in_all_files(run: Run, record: StepRecord, history: _History, base: Base | None) -> None:
    """Count every range file of the namespace as active: without rules no commit ever expires, so what a dangling
    commit names stays as well."""
    ranges = history.ranges
    if base is not None and base.state.all_commits:
        then = base.ranges()
        unite_ranges(ranges, ((item, facts) for item, facts in then.items() if item not in ranges))
    read_before = [*history.metaranges, *ranges, *history.files]
    files, names = find_range_files(run.reader, read_before)
    unite_ranges(ranges, files.items())
    history.files.update(name for name in names if name not in files)
    record.counts["range_files_looked_at"] = len(names)
    record.warn(
        "the repository has no garbage collection rules: every commit counts as active, and every range"
        " file in the namespace as well"
    )


def _afresh(roles: Roles, ranges: Ranges) -> Roles:
    """The roles when everything is counted again, because the earlier runs' counts have too many layers."""
    dropped = {range_id: roles.dropped[range_id] for range_id in roles.dropped_expired}
    return Roles(ranges, roles.expired | dropped)


def _find_extra(run: Run, runner: TaskRunner, history: _History) -> list[Extra]:
    active, named = history.active, history.named
    kept = active.kept_beyond_base()
    base_ranges = named.select(active.metaranges[commit] for commit in active.base) if kept else {}
    return find_extra(run, runner, STEP, kept, active.metarange_of, named, base_ranges)


def _collect(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    roles: Roles,
    base: Base | None,
    extras: list[Extra],
    referred: list[Referred],
) -> Ranges:
    """Unite what ranges, staging and other repositories name, and note where later steps and later runs find it.

    Returns:
        Ranges that are not active any more but still count, because they could not be read.
    """
    staged = record.input(MarkUncommittedOutput).hashes
    keep_counts = base is not None or not run.plan.dry_run
    count_here = not keep_counts and any(extra.ranges for extra in extras)
    collected = collect_ranges(
        run,
        runner,
        STEP,
        roles,
        staged,
        counted_bits=None if base is None else base.state.counted.bits,
        keep_counts=keep_counts,
        count_here=count_here,
    )
    record.parts.extend(collected.parts)
    record.counts.update(collected.counts)
    counted = _count(record, roles, base, collected)
    path_files = collect_paths(run, runner, STEP, extras)
    record.parts.extend(path_files)
    more = [*(ShardedSet(0, {0: part}) for part in path_files), *(item.live for item in referred)]
    _note_sets(run, record, base, collected, counted, more)
    listed = record.input(SliceListingOutput).listed
    counted_uri = run.plan.run_uri if count_here else run.state.uri
    record.details["kept"] = count_kept(run, runner, STEP, extras, listed, staged, counted, counted_uri)
    if collected.undropped:
        record.warn(
            f"{len(collected.undropped):,} ranges that are not active any more cannot be read; what they name"
            " stays until the next clean run"
        )
    return {range_id: roles.dropped[range_id] for range_id in collected.undropped}


def _count(record: StepRecord, roles: Roles, base: Base | None, collected: Collected) -> CountedSet:
    """The reference counts after this run: those collected, on top of those of the run before."""
    if base is None:
        return CountedSet.of(collected.counted, collected.bits)
    counted = base.state.counted.then(collected.counted)
    summary = base.folder.read_summary(STEP)
    before = {} if summary is None else summary.counts
    record.counts["outside_rows"] += before.get("outside_rows", 0)
    if "named_addresses" in before:
        # Layers have what was dropped since as well: where nothing is live any more, their rows are many.
        record.counts["named_addresses"] += before["named_addresses"]
        record.counts["live_addresses"] += record.counts["named_addresses"]
    else:  # that run's result is gone
        del record.counts["named_addresses"]
        record.counts["live_addresses"] += sum(part.rows for part in counted.parts)
    record.counts["dropped_ranges"] = len(roles.dropped)
    return counted


def _note_sets(
    run: Run,
    record: StepRecord,
    base: Base | None,
    collected: Collected,
    counted: CountedSet,
    more: list[ShardedSet],
) -> None:
    """Note where later steps find what is live, and later runs the counts."""

    def located(found: ShardedSet) -> LocatedSet:
        return LocatedSet(run.plan.run_uri, found)

    # In a run that builds on an earlier one, these are only what is staged and what other repositories name.
    live = LiveSet(
        tuple(located(found) for found in (collected.live, *more)),
        None if base is None else counted,
        run.state.uri,
    )
    sizes = [*(() if base is None else base.state.sizes), located(collected.set_of(SIZES))]
    record.details.update(
        bits=collected.bits,
        live=to_json(live),
        sizes=[to_json(found) for found in sizes],
        counted=to_json(counted),
        index_format=index.FORMAT,
    )
