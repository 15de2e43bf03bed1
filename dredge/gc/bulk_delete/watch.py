"""Re-check: live data since the mark, read right before deleting and in each round of it.

A scan of staging, and newly active commits. Ranges of the mark are not read again: they
are immutable, and their addresses are subtracted already.

While workers delete, the driver checks branches and tags, retention rules, namespaces, pins, a rejection, and the
length of the round. New commits are followed (`NewCommits`); any other change ends the round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import islice

import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.index.ranges import (
    Metaranges,
    Ranges,
    decode,
    find_extra,
    find_range_files,
    read_files,
    read_ranges,
    unite_ranges,
)
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
from dredge.gc.namespaces import METADATA, refuse_sharing
from dredge.gc.referring import Referred, find_referring, open_referring, read_referring
from dredge.gc.retention import main_parent
from dredge.gc.run import Run
from dredge.gc.witness.mark import Witnesses
from dredge.gc.witness.record import Past
from dredge.lakefs import Commit, LakeFSClient, Ref, Rules
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig, Watch, publish, watching
from dredge.runs.payload import PartInfo, from_json
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite, write_hashes
from dredge.sets.live import ShardedSet
from dredge.storage.parallel import at_once
from dredge.undo.pins import names_of_pins

log = logging.getLogger("dredge")


class Subtracted(Struct):
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


class Seen(Struct, frozen=True):
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
    # so heads and tags of the time of the scan count too. This machine may have been suspended since these reads, while
    # a tag was made and deleted.
    if seen is None or running_seconds() - seen.at > run.plan.config.safety.heads_every_seconds:
        seen = look_before_recheck(run)
    with at_once() as ask:
        witnesses = Witnesses(run, ask(Past.read, run.state, run.plan.namespace))
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
    found = witnesses.find_unnamed_now(active, subtracted.ranges | ranges.keys())
    unnamed = found - subtracted.unnamed
    unite_ranges(ranges, read_ranges(run, runner, f"{where}/unnamed", unnamed).items())
    if active.all_commits:
        # Without rules every range file of the namespace counts, as in the mark.
        metaranges = [*subtracted.commits.values(), *subtracted.unnamed, *active.metaranges.values()]
        ranges.update(find_range_files(run.reader, [*subtracted.ranges, *metaranges])[0])
    new_ranges = {range_id: facts for range_id, facts in ranges.items() if range_id not in subtracted.ranges}
    collected = collect_ranges(run, runner, where, Roles(new_ranges), scan.files.hashes)
    subtracted.live.append(collected.live)
    subtracted.commits.update(new_commits)
    subtracted.unnamed.update(unnamed)
    subtracted.ranges.update(new_ranges)
    _find_new_paths(run, runner, subtracted, where, active)
    # Completely: the index has the ranges of the mark, so this is cheap.
    subtracted.referring = read_referring(run, runner, f"{where}/{REFERRING}")
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


# The normal end of a round; the next one follows.
ROUND_OVER = "the round reached its limit (round_seconds_max)"


def watching_refs(
    run: Run,
    subtracted: Subtracted,
    gate: GateConfig,
    kept: frozenset[str] = frozenset(),
    pins: frozenset[str] = frozenset(),
    veto: Callable[[], str] = lambda: "",
    at: datetime | None = None,
) -> AbstractContextManager[Watch]:
    """Check refs, rules, namespaces and pins at once, and every few seconds while workers delete. `gate`: of the
    workers; two drivers never share its keys. `kept`: folders of other repositories, where workers delete nothing.
    `pins`: names of the pins known to the workers. `veto`: returns why the run was rejected, else "". `at`: the store's
    time, read before, for the first look."""
    safety, began = run.plan.config.safety, running_seconds()
    published = Published(run.folder, gate.published)
    followed = [NewCommits(run, subtracted, published), *_of_referring(run, subtracted, published)]

    def look() -> str | None:
        with at_once() as ask:
            looks = [
                ask(lambda: veto() or None),
                *(ask(look_at_refs, new) for new in followed),
                ask(lambda: look_at_rules(run, subtracted)),
                ask(lambda: look_at_namespaces(run, kept, subtracted.referring)),
                ask(lambda: look_at_pins(run, pins)),
            ]
        found = next(filter(None, (answer.result() for answer in looks)), None)
        is_over = running_seconds() - began >= safety.round_seconds_max
        return found or (ROUND_OVER if is_over else None)

    every_seconds = safety.heads_every_seconds
    return watching(run.folder, run.state, gate.watch, look, every_seconds, lambda: published.number, at)


def _of_referring(run: Run, subtracted: Subtracted, published: Published) -> Iterator[NewCommits]:
    for item in subtracted.referring:
        view = open_referring(run, item.repository, item.namespace)
        yield NewCommits(view, Subtracted.of_referring(run, item), published)


def check_sharing(run: Run) -> frozenset[str]:
    """The folders below `data/` of other repositories; no object is deleted there."""
    return refuse_sharing(run.plan.repository, run.plan.namespace, _namespaces(run.client))


def _namespaces(client: LakeFSClient) -> dict[str, str]:
    return {found.name: found.namespace for found in client.repositories()}


def look_at_namespaces(run: Run, kept: frozenset[str], referring: Collection[Referred] = ()) -> str | None:
    """Check the namespaces of all repositories against the folders known to the workers and the repositories read by
    the re-check; returns the reason to stop the round, or None."""
    namespaces = _namespaces(run.client)
    try:
        new = refuse_sharing(run.plan.repository, run.plan.namespace, namespaces) - kept
        refer = find_referring(run.plan.config, namespaces)
    except (ConfigError, RefusedError) as error:
        return str(error)
    if changed := refer.items() ^ {(item.repository, item.namespace) for item in referring}:
        return f"repository {min(changed)[0]}, which may refer to this one, was created or deleted"
    return f"another repository was created in {min(new)}" if new else None


def look_at_pins(run: Run, known: frozenset[str]) -> str | None:
    """Check for new pins; returns the reason to stop the round, or None. The next round respects the pin."""
    new = names_of_pins(run.state) - known
    return f"a restore has pinned objects ({min(new)})" if new else None


def look_at_rules(run: Run, subtracted: Subtracted) -> str | None:
    """Check the retention rules; returns the reason to stop the round, or None: other rules may keep more commits."""
    is_changed = run.client.rules(run.plan.repository) != subtracted.rules
    return "the retention rules were changed" if is_changed else None


def look_at_refs(new: NewCommits) -> str | None:
    """Follow the refs of a repository; returns the reason to stop the round, or None."""
    client, plan = new.run.client, new.run.plan
    try:
        with at_once() as ask:
            tags = ask(client.tags, plan.repository) if plan.config.keep_tags else None
            branches = client.branches(plan.repository)
        return new.follow(branches, [] if tags is None else tags.result())
    except Exception as error:
        # Without a check no worker may delete, after any error.
        raise UnavailableError(f"branch heads could not be checked: {error}") from error


# Limits of one check: new commits, and records of new ranges. The re-check spreads more over tasks.
_COMMITS_MAX = 500
_RECORDS_MAX = 2_000_000
# One file replaces more published files.
_FILES_MAX = 16


class _StopError(Exception):
    """The reason to stop the round."""


class Published:
    """Hashes of newly live addresses, published by the driver to the workers of a round."""

    def __init__(self, folder: RunFolder, where: str) -> None:
        self.number = 0  # of the newest publication; 0 for none
        self._folder = folder
        self._where = where
        self._hashes = NONE
        self.parts: list[PartInfo] = []  # its files of hashes

    def add(self, found: Hashes) -> None:
        """Publish new hashes."""
        new = found[~contains(self._hashes, found)]
        if not len(new):
            return
        everything = unite([self._hashes, new])
        number = self.number + 1
        if len(self.parts) >= _FILES_MAX:
            self.parts, new = [], everything
        part = write_hashes(self._folder, f"{self._where}/{number:06d}.u64", new)
        publish(self._folder, self._where, number, [*self.parts, part])
        self.parts.append(part)
        self._hashes, self.number = everything, number


class NewCommits:
    """Follows refs to new commits while workers delete: their addresses leave the candidates, and the sweep continues.

        a ref at an unknown commit
          → its parents, down to known active commits                expired, missing, or too far: stop
          → the ranges of each new commit outside all active metaranges    too many: stop
          → hashes of the addresses in these ranges, published to the workers

    "Stop" ends the round; the next round begins with a re-check. Parents alone prove nothing: a revert, a cherry-pick
    and a commit from a metarange have a known parent and bring back entries of expired commits (L25). A range is known
    only if an active metarange had it. The committed index is not used: it has ranges of expired commits too.

    Args:
        run: this run, or its view of a repository that refers to this one; all its commits are active.
        subtracted: of that repository; not changed, so the next re-check reads the new commits again.
    """

    def __init__(self, run: Run, subtracted: Subtracted, published: Published) -> None:
        self.run = run
        self._subtracted = subtracted
        self.published = published
        self._commits: set[str] = set()
        self._ranges: set[str] = set()
        self._heads = set(subtracted.branches)

    def follow(self, branches: Iterable[Ref], tags: Iterable[Ref]) -> str | None:
        """Publish the addresses of new commits; returns the reason to stop the round, or None."""
        moved = [ref for ref in branches if not self._is_known(ref.commit_id)]
        tagged = [ref for ref in tags if not self._is_known(ref.commit_id)]
        try:
            found: dict[str, Commit] = {}
            for ref in (*moved, *tagged):
                self._find_new(ref, found)
            for ref in moved:
                self._check_line(ref, found)
            self._publish(self._new_ranges(found.values()))
        except _StopError as error:
            return str(error)
        self._commits.update(found)
        self._heads.update((ref.id, ref.commit_id) for ref in moved)
        return None

    def _is_known(self, commit_id: str) -> bool:
        return commit_id in self._subtracted.commits or commit_id in self._commits

    def _find_new(self, ref: Ref, found: dict[str, Commit]) -> None:
        waiting: set[str] = set()
        self._wait_for(ref, [ref.commit_id], waiting, found)
        if not waiting:
            return
        try:
            for commit in islice(self.run.client.log(self.run.plan.repository, ref.commit_id), _COMMITS_MAX):
                if commit.id in waiting:
                    self._take(ref, commit, waiting, found)
                if not waiting:
                    return
        except NotFoundError:
            pass  # the server's commit cache may deny a commit that exists (L42); ids are looked up without it
        while waiting:
            commit_id = next(iter(waiting))
            try:
                commit = self.run.client.commit(self.run.plan.repository, commit_id)
            except NotFoundError:
                raise _StopError(
                    f"{ref.id} leads to commit {commit_id}, which lakeFS does not know"
                ) from None
            self._take(ref, commit, waiting, found)

    def _take(self, ref: Ref, commit: Commit, waiting: set[str], found: dict[str, Commit]) -> None:
        waiting.remove(commit.id)
        found[commit.id] = commit
        if len(found) > _COMMITS_MAX:
            raise _StopError(f"{ref.id} is more than {_COMMITS_MAX} commits from those that were checked")
        self._wait_for(ref, commit.parents, waiting, found)

    def _wait_for(self, ref: Ref, commits: Iterable[str], waiting: set[str], found: Collection[str]) -> None:
        for commit_id in commits:
            if self._is_known(commit_id) or commit_id in found:
                continue
            if commit_id in self._subtracted.expired:
                raise _StopError(f"{ref.id} is at a commit that was not checked: expired commit {commit_id}")
            waiting.add(commit_id)

    def _check_line(self, branch: Ref, found: dict[str, Commit]) -> None:
        """Stop if a branch may keep more of the known history than was subtracted.

        A branch on its own line has the rules of the mark. A new branch, or a branch on another line, may have a longer
        rule, or a rule of the retention policy.
        """
        commit_id: str | None = branch.commit_id
        while commit_id is not None and commit_id in found:
            commit_id = main_parent(found[commit_id])
        if commit_id is None or (branch.id, commit_id) in self._heads:
            return
        others = {name for name, head in self._heads if head == commit_id}
        if not any(self._keeps_as_much(other, branch.id) for other in others) and self._may_keep_more(
            branch.id
        ):
            raise _StopError(
                f"{branch.id} moved to another line of commits, and its rules may keep more of them"
            )

    def _keeps_as_much(self, other: str, branch: str) -> bool:
        policy = self.run.plan.config.policy
        return self._days(other) >= self._days(branch) and all(
            rule.names_branch(other) or not rule.names_branch(branch)
            for rule in (policy.rules if policy is not None else ())
        )

    def _may_keep_more(self, branch: str) -> bool:
        rules, policy = self._subtracted.rules, self.run.plan.config.policy
        shortest = 0 if rules is None else min((rules.default_retention_days, *rules.branches.values()))
        named = policy is not None and any(rule.names_branch(branch) for rule in policy.rules)
        return named or self._days(branch) > shortest

    def _days(self, branch: str) -> int:
        rules = self._subtracted.rules
        return 0 if rules is None else rules.branches.get(branch, rules.default_retention_days)

    def _new_ranges(self, commits: Iterable[Commit]) -> Ranges:
        metaranges = {commit.metarange_id for commit in commits} - {""}
        try:
            named = read_files(self.run.reader, sorted(metaranges)).select(metaranges)
        except (RefusedError, FormatError) as error:
            raise _StopError(f"a new commit cannot be read: {error}") from None
        return {
            range_id: facts
            for range_id, facts in named.items()
            if range_id not in self._subtracted.ranges and range_id not in self._ranges
        }

    def _publish(self, ranges: Ranges) -> None:
        if not ranges:
            return
        records = sum(facts.count for facts in ranges.values())
        if records > _RECORDS_MAX:
            raise _StopError(f"new commits have {records:,} entries in new ranges")
        ordered = dict(sorted(ranges.items(), key=lambda item: item[1].min_key))
        files = self.run.reader.get_many([METADATA + range_id for range_id in ordered])
        try:
            decoded = list(decode(files, ordered, self.run.keys))
        except (NotFoundError, FormatError) as error:
            raise _StopError(f"a new commit cannot be read: {error}") from None
        self.published.add(unite([item.addresses for item in decoded]))
        self._ranges.update(ranges)
