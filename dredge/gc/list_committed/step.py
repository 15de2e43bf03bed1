"""Step list_committed: the active commits, their ranges, and the live set."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import pyarrow as pa
from msgspec import Struct, field

from dredge.errors import DredgeError, UnavailableError
from dredge.gc.index import store as index
from dredge.gc.index.ranges import (
    Extra,
    Metaranges,
    Ranges,
    find_extra,
    find_range_files,
    ranges_table,
    read_leniently,
    read_metaranges,
    unite_ranges,
    with_metaranges,
)
from dredge.gc.index.store import CommittedIndex
from dredge.gc.list_committed.active import ActiveCommits, find_active, take_in_heads
from dredge.gc.list_committed.collect import Collected, Roles, collect_paths, collect_ranges
from dredge.gc.list_committed.tables import (
    BRANCHES,
    COMMITS,
    DROPPED,
    FILES,
    HISTORY,
    METARANGES,
    NAMED_RANGES,
    PATH_COMMITS,
    PATH_RANGES,
    RANGES,
    REFERRING,
    REFS,
    SIZES,
    ListCommittedOutput,
)
from dredge.gc.mark_uncommitted import MarkUncommittedOutput, ReadCommits
from dredge.gc.referring import Referred, read_referring
from dredge.gc.run import Run
from dredge.gc.state import Base, base_of
from dredge.gc.witness.mark import Witnesses
from dredge.gc.witness.record import Past
from dredge.lakefs import Commit, CommitText, Rules
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo, StepSummary
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.sets.live import CountedSet, LiveSet, LocatedSet
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

STEP = ListCommittedOutput.STEP
# Metaranges of expired commits to read. They only give reasons in reports.
_EXPIRED_MAX = 64


def list_committed(run: Run, runner: TaskRunner) -> StepSummary:
    """Find the active commits and their addresses, and unite them with the staged addresses. Raises RefusedError: a
    missing answer or file, so live objects could look like garbage; FormatError: a damaged file."""

    def read(_: Mapping[str, StepSummary]) -> _Read:
        with at_once() as ask:
            base = ask(base_of, run)
            past = ask(Past.read, run.state, run.plan.namespace)
            # Without a key-value store, lakeFS's own list of active commits comes before the rules.
            rules = ask(run.client.rules, run.plan.repository) if run.plan.config.read_kv else None
        return _Read(base.result(), Witnesses(run, past), rules)

    ahead = Ahead(read)
    return run.step(
        ListCommittedOutput,
        lambda record: _list(run, runner, record, ahead.result(record.inputs)),
        ahead=ahead,
    )


class _Read(Struct, frozen=True):
    """What earlier runs left, and the rules."""

    base: Base | None
    witnesses: Witnesses
    rules: Future[Rules | None] | None


class _History(Struct):
    active: ActiveCommits
    heads: list[tuple[str, str]]  # (branch, commit) pairs, each a head seen during the run
    named: Metaranges  # metaranges of the active commits, unnamed metaranges, and those of an earlier run
    unnamed: set[str]  # metaranges counted as active commits without one
    ranges: Ranges  # the active ranges
    index: CommittedIndex
    expired: Metaranges  # those of the newest expired commits
    # names of files below `_lakefs/` that need not be opened again
    files: set[str] = field(default_factory=set)

    @property
    def metaranges(self) -> set[str]:
        """Metaranges of active commits, and unnamed ones."""
        return {*self.active.metaranges.values(), *self.unnamed}


def _list(run: Run, runner: TaskRunner, record: StepRecord, read: _Read) -> None:
    base, tuning = read.base, run.plan.config.tuning
    history = _read_history(run, runner, record, read)
    active, ranges, named = history.active, history.ranges, history.named
    if base is None:
        from dredge.gc.check_limits import canaries  # needs this package

        # The mark has read its inputs. Branches that move later are read by the re-check.
        known = dict(active.metaranges)
        run.begin("check_limits", partial(canaries.sample, run, "check_limits", metaranges=known))
    expired_commits = active.expired
    expired = find_expired(expired_commits, named, ranges.keys(), history.expired, tuning.explain_ranges_max)
    roles = Roles(ranges) if base is None else Roles.since(base.ranges(), ranges)
    roles.expired, roles.dropped_expired = expired.ranges, roles.dropped.keys() & expired.named
    record.parts.append(write_ranges(run.folder, roles.dropped, DROPPED))
    if base is not None and len(base.state.counted.layers) >= tuning.counted_layers_max:
        # Everything is counted again: the counts of earlier runs have too many layers.
        dropped = {range_id: roles.dropped[range_id] for range_id in roles.dropped_expired}
        roles, base = Roles(ranges, roles.expired | dropped), None
    kept = active.kept_beyond_base()
    of_base = named.select(active.metaranges[commit] for commit in active.base) if kept else {}
    extras = find_extra(run, runner, STEP, kept, active.metarange_of, named, of_base)
    by_path = dict(item for extra in extras if extra.kept.paths for item in extra.ranges.items())
    record.parts.append(write_ranges(run.folder, by_path, PATH_RANGES))
    referred = read_referring(run, runner, f"{STEP}/{REFERRING}", record.parts.extend)
    undropped = _collect(run, runner, record, history.index, roles, base, extras, referred)
    heads = [(branch, commit, active.metaranges[commit]) for branch, commit in history.heads]
    record.parts += [
        *write_commits(run.folder, active),
        write_ranges(run.folder, ranges | undropped),
        write_texts(run.folder, BRANCHES, ("branch", "commit_id", "metarange_id"), heads),
        *write_metaranges(run.folder, named, history.metaranges),
        write_texts(run.folder, FILES, ("name",), [(name,) for name in sorted(history.files)]),
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
        rules=active.rules,
        expired_explained=expired.complete,
        referring=referred,
    )


def _read_history(run: Run, runner: TaskRunner, record: StepRecord, read: _Read) -> _History:
    base, witnesses, staged = read.base, read.witnesses, record.input(MarkUncommittedOutput)
    begun = run.begun(STEP)  # beside the scan of staging
    grown = begun.result() if begun else None
    table = run.folder.read_part(staged.heads)
    seen = set(zip(table["branch"].to_pylist(), table["commit_id"].to_pylist(), strict=True))
    with at_once() as ask:
        index_read = ask(CommittedIndex.load, run.state, run.keys.namespace)
        # Commits are read after staging: those that another try of the mark read may be older.
        commits = run.commits_of_try.pop(staged.summary.try_number, None)
        active_read = ask(_find_active, run, commits, read.rules, seen)
        if base is not None:
            ask(base.summary, STEP)
        earlier, looked_at = (grown, set[str]()) if base is None else (base.metaranges(), base.looked_at())
    active = active_read.result()
    for warning in active.warnings:
        record.warn(warning)
    heads = sorted(seen | {(branch.id, branch.commit_id) for branch in active.branches})
    with at_once() as ask:
        expired_read = ask(read_expired, run, active.expired, earlier)
        ahead = ask(_read_ahead, run, runner, active.metaranges.values(), earlier)
        witnesses.compare(record, active)  # brings missing metaranges back
        named = read_metaranges(
            run, runner, f"{STEP}/active", active.metaranges.values(), ahead.result() or earlier
        )
        unnamed = witnesses.count_unnamed(record, named)
        named = read_metaranges(run, runner, f"{STEP}/unnamed", unnamed, named)
    in_heads = {active.metaranges[commit] for _, commit in heads}
    ranges = named.select({*active.metaranges.values(), *unnamed}, in_heads)
    history = _History(
        active, heads, named, unnamed, ranges, index_read.result(), expired_read.result(), looked_at
    )
    if active.all_commits:
        _take_in_all_files(run.reader, record, history, base)
    return history


def _find_active(
    run: Run, read: ReadCommits | None, rules: Future[Rules | None] | None, seen: Iterable[tuple[str, str]]
) -> ActiveCommits:
    active = find_active(run, read=read, rules=rules)
    take_in_heads(run, active, seen)  # those of the time when staging was read count as well
    return active


def _read_ahead(
    run: Run, runner: TaskRunner, metaranges: Iterable[str], earlier: Metaranges | None
) -> Metaranges | None:
    """Read metaranges that the driver would read itself; None if other processes read them, or one is unreadable."""
    found = earlier or Metaranges()
    ids = found.lacking(metaranges)
    if not isinstance(runner, LocalRunner) or runner.processes:
        return None
    if runner.rows_max is not None and len(ids) > runner.rows_max:
        return None
    try:
        return with_metaranges(run.reader, found, ids)
    except DredgeError as error:
        log.info("metaranges are read again after the witnesses: %s", error)
        return None


def _take_in_all_files(
    reader: ObjectReader, record: StepRecord, history: _History, base: Base | None
) -> None:
    """Count every range file as active: without rules no commit expires, and that includes dangling commits."""
    ranges = history.ranges
    if base is not None and base.state.all_commits:
        then = base.ranges()
        unite_ranges(ranges, ((item, facts) for item, facts in then.items() if item not in ranges))
    read_before = [*history.metaranges, *ranges, *history.files]
    files, names = find_range_files(reader, read_before)
    unite_ranges(ranges, files.items())
    history.files.update(name for name in names if name not in files)
    record.counts["range_files_looked_at"] = len(names)
    record.warn(
        "the repository has no garbage collection rules: every commit and every range file in the namespace counts as"
        " active"
    )


def _collect(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    index_read: CommittedIndex,
    roles: Roles,
    base: Base | None,
    extras: list[Extra],
    referred: list[Referred],
) -> Ranges:
    """Unite the addresses of ranges, staging and other repositories; return unreadable dropped ranges, which still
    count."""
    collected = collect_ranges(
        run,
        runner,
        STEP,
        roles,
        record.input(MarkUncommittedOutput).hashes,
        counted_bits=None if base is None else base.state.counted.bits,
        keep_counts=base is not None or not run.plan.dry_run,
        index=index_read,
    )
    record.parts.extend(collected.parts)
    record.counts.update(collected.counts)
    counted = _count(record, roles, base, collected)
    by_paths = collect_paths(run, runner, STEP, extras)
    record.parts.extend(part for item in by_paths for part in item.parts)
    # In an optimized run, `collected.live` has the staged addresses only; `counted` has the rest.
    live = [collected.live, *(item.live for item in by_paths), *(item.live for item in referred)]
    *sets, sizes = (LocatedSet(run.plan.run_uri, found) for found in (*live, collected.set_of(SIZES)))
    record.details.update(
        bits=collected.bits,
        live=LiveSet(tuple(sets), None if base is None else counted, run.state.uri),
        sizes=[*(() if base is None else base.state.sizes), sizes],
        counted=counted,
        index_format=index.FORMAT,
        kept=[extra.to_details() for extra in extras],
    )
    if collected.undropped:
        record.warn(
            f"{len(collected.undropped):,} ranges that are no longer active cannot be read; their objects stay until"
            " the next clean run"
        )
    return {range_id: roles.dropped[range_id] for range_id in collected.undropped}


def _count(record: StepRecord, roles: Roles, base: Base | None, collected: Collected) -> CountedSet:
    """The reference counts after this run: the new counts on top of the run before."""
    if base is None:
        return CountedSet.of(collected.counted, collected.bits)
    counted = base.state.counted.then(collected.counted)
    summary = base.summary(STEP)
    before = {} if summary is None else summary.counts
    record.counts["outside_rows"] += before.get("outside_rows", 0)
    if "named_addresses" in before:
        # Rows of layers would be too many: they include addresses dropped since.
        record.counts["named_addresses"] += before["named_addresses"]
        record.counts["live_addresses"] += record.counts["named_addresses"]
    else:  # the result of that run was removed
        del record.counts["named_addresses"]
        record.counts["live_addresses"] += sum(part.rows for part in counted.parts)
    record.counts["dropped_ranges"] = len(roles.dropped)
    return counted


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
        folder.write_table(STEP, 0, commits, COMMITS),
        folder.write_table(STEP, 0, history, HISTORY),
        write_texts(folder, REFS, ("kind", "name", "commit_id"), rows),
        write_texts(folder, PATH_COMMITS, ("set", "commit_id"), paths),
    ]


def write_ranges(folder: RunFolder, ranges: Ranges, kind: str = RANGES) -> PartInfo:
    """Write ranges, by default active ranges."""
    return folder.write_table(STEP, 0, ranges_table(ranges), kind)


def write_metaranges(folder: RunFolder, named: Metaranges, metaranges: Iterable[str]) -> list[PartInfo]:
    """Write metaranges and their ranges."""
    ranges, rows = named.to_tables(metaranges)
    return [
        folder.write_table(STEP, 0, ranges, NAMED_RANGES),
        folder.write_table(STEP, 0, rows, METARANGES),
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
    return folder.write_table(STEP, 0, table, kind)


class Expired(Struct, frozen=True):
    """Ranges of expired commits: the reason why an object is garbage."""

    ranges: Ranges  # of the newest commits, up to the limit
    named: Collection[str]  # ids of `ranges`, and of the ranges of all other known metaranges
    complete: bool  # whether `ranges` has all ranges


def find_expired(
    commits: Sequence[Commit], named: Metaranges, active: Collection[str], read: Metaranges, most: int
) -> Expired:
    """Find the ranges named only by expired commits reachable from refs, the newest first, at most `most`. Earlier runs
    do not change them. `read`: from `read_expired`.

    They only give reasons in reports, so an unreadable file is skipped.
    """
    metaranges = _metaranges_of(commits)
    ids = named.select(item for item in metaranges if item in named.named).keys() - set(active)
    chosen = metaranges[: _EXPIRED_MAX if most else 0]
    found: Ranges = {}
    for metarange in chosen:
        for source in (named, read):
            if metarange in source.named:
                ranges = source.select([metarange])
                found |= {item: ranges[item] for item in ranges if item not in active and item not in found}
        if len(found) > most:
            break
    complete = len(chosen) == len(metaranges) and len(found) <= most
    return Expired(dict(list(found.items())[:most]), ids | found.keys(), complete)


def _metaranges_of(commits: Sequence[Commit]) -> list[str]:
    return list(dict.fromkeys(commit.metarange_id for commit in commits if commit.metarange_id))


def read_expired(run: Run, commits: Sequence[Commit], known: Metaranges | None) -> Metaranges:
    """Read the unknown metaranges of the newest expired commits."""
    most = _EXPIRED_MAX if run.plan.config.tuning.explain_ranges_max else 0
    before = {} if known is None else known.named
    try:
        unknown = [item for item in _metaranges_of(commits)[:most] if item not in before]
        read, errors = read_leniently(run.reader, unknown)
    except UnavailableError as unavailable:
        log.info("metaranges of expired commits cannot be read: %s", unavailable)
        return Metaranges()
    for item, error in errors.items():
        log.info("metarange %s of an expired commit cannot be read: %s", item, error)
    return read
