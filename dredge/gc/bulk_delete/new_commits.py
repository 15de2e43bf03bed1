"""Commits that refs moved to while workers delete: what they name leaves the candidates, and the sweep goes on.

    a ref at an unknown commit
      → its parents, down to commits that this run knows as active     an expired one, none, or too far: stop
      → the ranges of each new commit that no active metarange had      too many: stop
      → hashes of the addresses that these name, published to the workers

Refs of repositories that refer to this one are followed in the same way; of them, all commits are known as active.
"Stop" means that the round ends and everything is checked again. Parents alone prove nothing: a revert, a cherry-pick
and a commit from a metarange have a known parent and bring back entries of expired commits (L25). A range counts as
known only if an active metarange had it. The committed index is not asked, since it has ranges of expired commits too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.index.ranges import Ranges, decode, read_files
from dredge.gc.namespaces import METADATA
from dredge.gc.retention.policy import main_parent
from dredge.gc.run import Run
from dredge.lakefs import Commit, Ref
from dredge.runs.folder import RunFolder
from dredge.runs.gate import publish
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import NONE, Hashes, contains, unite, write_hashes

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
