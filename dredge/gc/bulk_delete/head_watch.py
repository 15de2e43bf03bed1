"""What the driver looks at while workers delete: branches and tags, retention rules, namespaces of repositories, pins,
a person's rejection, and how long the round lasts. New commits are followed (`NewCommits`); everything else that
changed ends the round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.index.ranges import Ranges, decode, read_files
from dredge.gc.namespaces import METADATA, refuse_sharing
from dredge.gc.referring import Referred, find_referring, open_referring
from dredge.gc.retention.policy import main_parent
from dredge.gc.run import Run
from dredge.lakefs import Commit, Ref
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.gate import publish
from dredge.runs.summary import PartInfo
from dredge.runs.watch import Watch, watching
from dredge.sets.hashes import NONE, Hashes, contains, unite, write_hashes
from dredge.storage.parallel import at_once
from dredge.undo.pins import names_of_pins

ROUND_OVER = "the round lasted as long as one may"
"""Why a round ends that nothing else has ended; the next one follows, however many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchKeys:
    """Where a round's looks and publications are written, relative to the run folder."""

    looks: str
    published: str


def watching_refs(
    run: Run,
    subtracted: Subtracted,
    keys: WatchKeys,
    kept: frozenset[str] = frozenset(),
    pins: frozenset[str] = frozenset(),
    veto: Callable[[], str] = lambda: "",
) -> AbstractContextManager[Watch]:
    """Look at refs, rules, namespaces and pins while workers delete: at once, and then every few seconds.

    Args:
        run: this run.
        subtracted: what the mark and the re-checks subtracted.
        keys: of this round; no two drivers may share them.
        kept: folders in which workers delete nothing, because other repositories lie there.
        pins: names of those that workers respect.
        veto: looked at as well: says who forbids to go on, "" for nobody.
    """
    safety, began = run.plan.config.safety, running_seconds()
    published = Published(run.folder, keys.published)
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
    return watching(run.folder, run.state, keys.looks, look, every_seconds, lambda: published.number)


def _of_referring(run: Run, subtracted: Subtracted, published: Published) -> Iterator[NewCommits]:
    for item in subtracted.referring:
        view = open_referring(run, item.repository, item.namespace)
        yield NewCommits(view, Subtracted.of_referring(run, item), published)


def check_sharing(run: Run) -> frozenset[str]:
    """Refuse to delete in a namespace that another repository shares since the guards looked: what it needs is in none
    of the commits that were read.

    Returns:
        Folders below `data/` in which other repositories lie, and in which nothing is deleted.

    Raises:
        RefusedError: one shares it.
    """
    return refuse_sharing(run.plan.repository, run.plan.namespace, _namespaces(run))


def _namespaces(run: Run) -> dict[str, str]:
    return {found.name: found.namespace for found in run.client.repositories()}


def look_at_namespaces(run: Run, kept: frozenset[str], referring: Collection[Referred] = ()) -> str | None:
    """Tell why the sweep must stop, or None.

    Args:
        run: this run.
        kept: folders in which workers delete nothing.
        referring: repositories that refer to this one, as they were read.
    """
    namespaces = _namespaces(run)
    try:
        new = refuse_sharing(run.plan.repository, run.plan.namespace, namespaces) - kept
        refer = find_referring(run.plan.config, namespaces)
    except (ConfigError, RefusedError) as error:
        return str(error)
    if changed := refer.items() ^ {(item.repository, item.namespace) for item in referring}:
        return f"repository {min(changed)[0]}, which may refer to this one, was made or deleted"
    return f"another repository was made in {min(new)}" if new else None


def look_at_pins(run: Run, known: frozenset[str]) -> str | None:
    """Tell why the sweep must stop, or None: somebody brings objects back, and the next round respects the pin.

    Args:
        run: this run.
        known: names of the pins that workers respect.
    """
    new = names_of_pins(run.state) - known
    return f"objects were brought back ({min(new)})" if new else None


def look_at_rules(run: Run, subtracted: Subtracted) -> str | None:
    """Tell why the sweep must stop, or None: other retention rules may keep what was not subtracted.

    Raises:
        UnavailableError: the server does not answer.
    """
    is_changed = run.client.rules(run.plan.repository) != subtracted.rules
    return "the retention rules were changed" if is_changed else None


def look_at_refs(new: NewCommits) -> str | None:
    """Tell why the sweep must stop, or None; publishes what new commits of a repository name.

    Raises:
        UnavailableError: branches and tags could not be looked at.
    """
    client, plan = new.run.client, new.run.plan
    try:
        with at_once() as ask:
            tags = ask(client.tags, plan.repository) if plan.config.keep_tags else None
            branches = client.branches(plan.repository)
        return new.follow(branches, [] if tags is None else tags.result())
    except Exception as error:
        # Without a look no worker may delete, whatever the error is.
        raise UnavailableError(f"branch heads could not be looked at: {error}") from error


_COMMITS_MAX = 500
"""New commits that are followed in one look."""
_RECORDS_MAX = 2_000_000
"""Records of new ranges that are read in one look; the re-check spreads more over tasks."""
_FILES_MAX = 16
"""More published files than this are replaced by one with everything."""


class _StopError(Exception):
    """Why the round of deleting must end."""


class Published:
    """What the driver publishes to the workers of one round of deleting: hashes of addresses that came alive.

    Args:
        folder: the run folder.
        where: folder of the publications, relative to the run folder.

    Attributes:
        number: of the newest publication; 0 for none.
        parts: files of hashes that it names.
    """

    def __init__(self, folder: RunFolder, where: str) -> None:
        self.number = 0
        self._folder = folder
        self._where = where
        self._hashes = NONE
        self.parts: list[PartInfo] = []

    def add(self, found: Hashes) -> None:
        """Publish hashes, except those that are published already."""
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
    """Follows refs to new commits during one round of deleting.

    Args:
        run: this run, or its view of a repository that refers to this one.
        subtracted: what the mark and the re-checks subtracted of that repository; is not changed, so the next re-check
            reads everything that is found here once more.
        published: takes what the new commits name.
    """

    def __init__(self, run: Run, subtracted: Subtracted, published: Published) -> None:
        self.run = run
        self._subtracted = subtracted
        self.published = published
        self._commits: set[str] = set()
        self._ranges: set[str] = set()
        self._heads = set(subtracted.branches)

    def follow(self, branches: Iterable[Ref], tags: Iterable[Ref]) -> str | None:
        """Publish what the new commits of refs name; gives why the round must end instead, or None.

        Args:
            branches: as they are now.
            tags: as they are now.

        Raises:
            UnavailableError: the server or the store does not answer.
        """
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
        """Add the commits between a ref and commits that are known."""
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
        """Demand that a branch keeps no more of the known history than was subtracted.

        A branch that goes on from its own head has the rules by which that history was judged. One that is new, or
        came to another line, may have a longer rule, or one of the retention policy.
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
            raise _StopError(f"{branch.id} is at a commit that was not checked, on another line than before")

    def _keeps_as_much(self, other: str, branch: str) -> bool:
        """Whether rules keep as much of the history of another branch."""
        policy = self.run.plan.config.policy
        return self._days(other) >= self._days(branch) and all(
            rule.names_branch(other) or not rule.names_branch(branch)
            for rule in (policy.rules if policy is not None else ())
        )

    def _may_keep_more(self, branch: str) -> bool:
        """Whether rules keep more of the history of a branch than they keep of some others."""
        rules, policy = self._subtracted.rules, self.run.plan.config.policy
        shortest = 0 if rules is None else min((rules.default_retention_days, *rules.branches.values()))
        named = policy is not None and any(rule.names_branch(branch) for rule in policy.rules)
        return named or self._days(branch) > shortest

    def _days(self, branch: str) -> int:
        rules = self._subtracted.rules
        return 0 if rules is None else rules.branches.get(branch, rules.default_retention_days)

    def _new_ranges(self, commits: Iterable[Commit]) -> Ranges:
        """The ranges of commits that no active metarange had."""
        metaranges = {commit.metarange_id for commit in commits} - {""}
        try:
            named = read_files(self.run.reader, sorted(metaranges)).select(metaranges)
        except (RefusedError, FormatError) as error:
            raise _StopError(f"what a new commit names cannot be read: {error}") from None
        return {
            range_id: facts
            for range_id, facts in named.items()
            if range_id not in self._subtracted.ranges and range_id not in self._ranges
        }

    def _publish(self, ranges: Ranges) -> None:
        """Publish the addresses that ranges name, except those that are published already."""
        if not ranges:
            return
        records = sum(facts.count for facts in ranges.values())
        if records > _RECORDS_MAX:
            raise _StopError(f"new commits name {records:,} entries in new ranges")
        ordered = dict(sorted(ranges.items(), key=lambda item: item[1].min_key))
        files = self.run.reader.get_many([METADATA + range_id for range_id in ordered])
        keys = self.run.keys
        try:
            decoded = list(decode(files, ordered, keys.namespace, keys.own))
        except (NotFoundError, FormatError) as error:
            raise _StopError(f"what a new commit names cannot be read: {error}") from None
        self.published.add(unite([item.addresses for item in decoded]))
        self._ranges.update(ranges)
