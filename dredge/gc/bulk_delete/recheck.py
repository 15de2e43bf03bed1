"""Re-check: live data since the mark, read right before deleting and in each round of it.

A scan of staging, and newly active commits. Ranges of the mark are not read again: they
are immutable, and their addresses are subtracted already.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pyarrow.compute as pc

from dredge.gc.index.ranges import Metaranges, Ranges, find_range_files, read_ranges, unite_ranges
from dredge.gc.list_committed import (
    REFERRING,
    ActiveCommits,
    ListCommittedOutput,
    Roles,
    collect_paths,
    collect_ranges,
    find_active,
    take_in_heads,
    take_in_tags,
)
from dredge.gc.mark_uncommitted import Before, look_before_scan, scan_staging
from dredge.gc.referring import Referred, look_at_referring
from dredge.gc.retention.kept_sets import find_extra
from dredge.gc.run import Run
from dredge.gc.witness.mark import find_unnamed_now
from dredge.gc.witness.record import Past
from dredge.lakefs import Ref, Rules
from dredge.runs.clock import running_seconds
from dredge.runs.payload import from_json
from dredge.runs.tasks import TaskRunner
from dredge.sets.live import ShardedSet
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")


@dataclass(slots=True)
class Subtracted:
    """The live data subtracted from the candidates so far."""

    commits: dict[str, str]  # metarange id by id of each active commit
    ranges: set[str]  # ids of ranges
    by_path: set[tuple[str, str]]  # kept sets about paths, each with its commits
    live: list[ShardedSet] = field(default_factory=list)  # hashes found live since the mark
    # branches with their heads during the last re-check
    branches: set[tuple[str, str]] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)  # metaranges counted as active commits
    # ids of commits in the history of refs that were expired in the mark
    expired: frozenset[str] = frozenset()
    rules: Rules | None = None  # retention rules during the last re-check
    # repositories that refer to this one, as read by the last re-check
    referring: list[Referred] = field(default_factory=list)

    @classmethod
    def of_mark(cls, run: Run, committed: ListCommittedOutput) -> Subtracted:
        """The live data of the mark."""
        folder = run.folder
        folder.read_ahead(
            [
                committed.commits,
                committed.ranges,
                committed.path_commits,
                committed.history,
                committed.unnamed_metaranges,
            ]
        )
        commits = folder.read_part(committed.commits)
        ranges = folder.read_part(committed.ranges, ["range_id"])
        pairs = zip(commits["commit_id"].to_pylist(), commits["metarange_id"].to_pylist(), strict=True)
        rows = folder.read_part(committed.path_commits)
        by_path = set(zip(rows["set"].to_pylist(), rows["commit_id"].to_pylist(), strict=True))
        history = folder.read_part(committed.history, ["commit_id"])
        rules = None if committed.rules is None else from_json(Rules, committed.rules)
        unnamed = set(folder.read_part(committed.unnamed_metaranges)["metarange_id"].to_pylist())
        expired = pc.invert(pc.is_in(history["commit_id"], commits["commit_id"]))
        return cls(
            dict(pairs),
            set(ranges["range_id"].to_pylist()),
            by_path,
            unnamed=unnamed,
            expired=frozenset(history["commit_id"].filter(expired).to_pylist()),
            rules=rules,
        )

    @classmethod
    def of_referring(cls, run: Run, referred: Referred) -> Subtracted:
        """The live data of a referring repository."""
        ranges = run.folder.read_part(referred.ranges, ["range_id"])
        return cls(referred.heads, set(ranges["range_id"].to_pylist()), set(), branches={*referred.branches})


@dataclass(frozen=True, slots=True)
class Seen:
    """Tags, and the server's branches and counter, since `at` (`running_seconds`)."""

    tags: list[Ref]
    before: Before | None
    at: float


def look_before_recheck(run: Run) -> Seen:
    """Ask the server before a re-check reads staging."""
    at = running_seconds()
    with at_once() as ask:
        before = ask(look_before_scan, run)
        tags = run.client.tags(run.plan.repository) if run.plan.config.keep_tags else []
    return Seen(tags, before.result(), at)


def recheck(
    run: Run, runner: TaskRunner, subtracted: Subtracted, where: str, seen: Seen | None = None
) -> dict[str, int]:
    """Read new live data, write it to the folder `where` of the run, and add it to `subtracted`; returns figures by
    name. `seen`: from `look_before_recheck`, if it was asked before; an old one is asked for again."""
    # The same order as in the mark: objects move from staging to commits. An object can move back from a head or a tag,
    # so heads and tags of the time of the scan count too.
    # This machine may have slept since they were asked for, and a tag have come and gone.
    if seen is None or running_seconds() - seen.at > run.plan.config.safety.heads_every_seconds:
        seen = look_before_recheck(run)
    with at_once() as ask:
        past = ask(Past.read, run.state, run.plan.namespace)
        # Rules that change meanwhile differ from these in the watch.
        rules = ask(run.client.rules, run.plan.repository) if run.plan.config.read_kv else None
        # With the key-value store one proof that it is the server's own covers both reads.
        scan = scan_staging(run, where, with_commits=True, seen=seen.before)
        active = find_active(run, ask_dangling=False, read=scan.commits, rules=rules)
    take_in_heads(run, active, scan.heads)
    take_in_tags(run, active, seen.tags)
    subtracted.rules = active.rules
    subtracted.branches = scan.heads | {(branch.id, branch.commit_id) for branch in active.branches}
    new_commits = {
        commit: metarange
        for commit, metarange in active.metaranges.items()
        if commit not in subtracted.commits
    }
    ranges = read_ranges(run, runner, f"{where}/active", new_commits.values())
    found = find_unnamed_now(run, active, subtracted.ranges | ranges.keys(), past.result())
    unnamed = found - subtracted.unnamed
    unite_ranges(ranges, read_ranges(run, runner, f"{where}/unnamed", unnamed).items())
    if active.all_commits:
        ranges.update(_all_files(run, subtracted, active))
    new_ranges = {range_id: facts for range_id, facts in ranges.items() if range_id not in subtracted.ranges}
    collected = collect_ranges(run, runner, where, Roles(new_ranges), scan.files.hashes)
    subtracted.live.append(collected.live)
    subtracted.commits.update(new_commits)
    subtracted.unnamed.update(unnamed)
    subtracted.ranges.update(new_ranges)
    _find_new_paths(run, runner, subtracted, where, active)
    # Completely: the index has the ranges of the mark, so this is cheap.
    subtracted.referring = look_at_referring(run, runner, f"{where}/{REFERRING}")
    live_addresses = subtracted.live[-1].values
    subtracted.live += [item.live for item in subtracted.referring]
    counts = {
        "staged_rows": scan.rows,
        "new_commits": len(new_commits),
        "new_ranges": len(new_ranges),
        "unnamed_metaranges": len(unnamed),
        "live_addresses": live_addresses,
        "referring_addresses": sum(item.live.values for item in subtracted.referring),
    }
    log.info("run %s: re-check: %s", run.plan.run_id, counts)
    return counts


def _find_new_paths(
    run: Run, runner: TaskRunner, subtracted: Subtracted, where: str, active: ActiveCommits
) -> None:
    """Add paths kept by the policy in new commits, such as commits of a new branch."""
    new = active.path_commits - subtracted.by_path
    if new:
        kept = active.kept_beyond_base(new)
        extras = find_extra(run, runner, where, kept, active.metarange_of, Metaranges(), subtracted.ranges)
        subtracted.live += [item.live for item in collect_paths(run, runner, where, extras)]
    subtracted.by_path |= new


def _all_files(run: Run, subtracted: Subtracted, active: ActiveCommits) -> Ranges:
    """Every range file of the namespace: without rules all count, as in the mark."""
    metaranges = [*subtracted.commits.values(), *subtracted.unnamed, *active.metaranges.values()]
    read = [*subtracted.ranges, *metaranges]
    return find_range_files(run.reader, read)[0]
