"""API calls to merge, revert, cherry-pick and compare commits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from dredge.lakefs.files.records import Repository
from lakefs_embedded.catalog.commits import CommitInfo, CommitWriter
from lakefs_embedded.catalog.listing import Changed, committed_diffs, diff_page
from lakefs_embedded.catalog.model import Namespaces, Refs
from lakefs_embedded.catalog.results import CommitOverrides, Diff, MergeBase, Page
from lakefs_embedded.committed import merge as content
from lakefs_embedded.committed.merge import Strategy
from lakefs_embedded.committed.writing import SplitRule
from lakefs_embedded.errors import (
    InvalidValueError,
    MergeConflictError,
    NoChangesError,
    NoMergeBaseError,
    ParentNumberError,
    RevertParentError,
    described,
)
from lakefs_embedded.refs.commits import merge_base
from lakefs_embedded.refs.records import Commit

STRATEGY_KEY = ".lakefs.merge.strategy"
_STRATEGIES = {"": Strategy.DEFAULT} | {strategy.value: strategy for strategy in Strategy}


@dataclass(eq=False)
class MergeService:
    """Merges, reverts, cherry-picks: all need a branch without uncommitted changes. Compares refs."""

    _refs: Refs
    _namespaces: Namespaces
    _commit_writer: CommitWriter
    _rule: SplitRule

    def merge(
        self,
        repository: str,
        source: str,
        destination: str,
        *,
        committer: str,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: str = "",
        squash: bool = False,
        allow_empty: bool = False,
        force: bool = False,
    ) -> Commit:
        """Merge a ref into a branch.

        Args:
            message: commit message; "" for a generated one.
            metadata: user metadata; the strategy is added to it.
            strategy: "" (conflicts fail), "dest-wins" or "source-wins".
            squash: record the destination as the only parent.
            allow_empty: merge also when the source has no change since the merge base.
            force: also in a read-only repository, and as `allow_empty`.

        Raises:
            NoChangesError: 400, the source has the content of the merge base. A merge without effect on the
                destination's content still makes a commit.

        Source: lakeFS pkg/graveler/committed/manager.go (Merge).
        """
        found = self._refs.repositories.writable(repository, force)
        if strategy not in _STRATEGIES:
            raise InvalidValueError(f"unknown merge strategy {strategy!r}: invalid value")
        chosen = _STRATEGIES[strategy]
        doing = f"update branch {destination}"
        with described(f"{doing}: get commit by ref {source}"):
            head = self._refs.resolver.commit(found, source)
        info = CommitInfo(
            committer,
            message or f"Merge '{source}' into '{destination}'",
            {**(metadata or {}), STRATEGY_KEY: chosen.value},
        )

        def build(destination_head: str) -> Commit:
            target = self._refs.commits.get(found, destination_head)
            with described(doing):
                base = self._base(found, head.id, target.id)
                if head.metarange_id == base.metarange_id and not (allow_empty or force):
                    raise NoChangesError
                merged = self._merge_trees(
                    found, base.metarange_id, head.metarange_id, target.metarange_id, chosen
                )
            parents = (target,) if squash else (target, head)
            return self._commit_writer.write(found, self._commit_writer.make(info, merged, parents))

        return self._commit_writer.commit_tree(found, destination, build)

    def find_merge_base(self, repository: str, source: str, destination: str) -> MergeBase:
        """The merge base of a source ref and a destination branch."""
        found = self._refs.repositories.get(repository)
        left = self._refs.resolver.commit(found, source)
        right = self._refs.resolver.commit(found, destination)
        return MergeBase(left.id, right.id, self._base(found, left.id, right.id).id)

    def revert(
        self,
        repository: str,
        branch: str,
        ref: str,
        *,
        committer: str,
        parent_number: int = 0,
        overrides: CommitOverrides | None = None,
        allow_empty: bool = False,
        force: bool = False,
    ) -> Commit:
        """Commit the inverse of a commit; `parent_number`, counted from 1, is required for merges, else 0."""
        found = self._refs.repositories.writable(repository, force)
        self._refs.protection.require_committable(found, branch)
        commit = self._commit_of(found, ref)
        if parent_number <= 0 and len(commit.parents) > 1:
            raise RevertParentError
        parent = self._parent(found, commit, max(parent_number, 1))
        info = _overridden(CommitInfo(committer, f"Revert {commit.id}", {}), overrides)

        def build(head: str) -> Commit:
            target = self._refs.commits.get(found, head)
            with described("update branch"):
                reverted = self._merge_trees(
                    found, commit.metarange_id, parent.metarange_id, target.metarange_id
                )
                if reverted == target.metarange_id and not allow_empty:
                    raise NoChangesError
                made = self._commit_writer.make(info, reverted, (target,))
            return self._commit_writer.write(found, made)

        return self._commit_writer.commit_tree(found, branch, build)

    def cherry_pick(
        self,
        repository: str,
        branch: str,
        ref: str,
        *,
        committer: str,
        parent_number: int | None = None,
        overrides: CommitOverrides | None = None,
        force: bool = False,
    ) -> Commit:
        """Commit the changes of a commit to another branch, even if the branch has them already."""
        found = self._refs.repositories.writable(repository, force)
        self._refs.protection.require_committable(found, branch)
        commit = self._commit_of(found, ref)
        if parent_number is None and len(commit.parents) > 1:
            raise ParentNumberError("must specify 1-based parent number for cherry-picking merge commit")
        parent = self._parent(found, commit, 1 if parent_number is None else parent_number)
        origin = {"cherry-pick-origin": commit.id, "cherry-pick-committer": commit.committer}
        info = _overridden(CommitInfo(committer, commit.message, commit.metadata), overrides)
        info = replace(info, metadata={**info.metadata, **origin})

        def build(head: str) -> Commit:
            target = self._refs.commits.get(found, head)
            with described("update branch"):
                if commit.metarange_id == parent.metarange_id:
                    raise NoChangesError
                picked = self._merge_trees(
                    found, parent.metarange_id, commit.metarange_id, target.metarange_id
                )
                made = self._commit_writer.make(info, picked, (target,))
            return self._commit_writer.write(found, made)

        made = self._commit_writer.commit_tree(found, branch, build)
        self._refs.mistaken_ids.picked(found, commit, origin)
        return made

    def diff_refs(
        self,
        repository: str,
        left: str,
        right: str,
        *,
        two_dot: bool = False,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        amount: int = 100,
    ) -> Page[Diff]:
        """The changes from `left` to `right`; without `two_dot` from the merge base, where both may conflict."""
        found = self._refs.repositories.get(repository)
        ranges = self._namespaces.of(found).ranges
        from_commit = self._refs.resolver.commit(found, left)
        to_commit = self._refs.resolver.commit(found, right)

        def seek(start: bytes) -> Iterator[tuple[bytes, Changed]]:
            if two_dot:
                found_diffs = content.diff(ranges, from_commit.metarange_id, to_commit.metarange_id)
            else:
                base = self._base(found, from_commit.id, to_commit.id)
                found_diffs = content.compare(
                    ranges, base.metarange_id, to_commit.metarange_id, from_commit.metarange_id
                )
            return committed_diffs(found_diffs, start)

        return diff_page(seek, prefix, delimiter, after, amount)

    def _commit_of(self, repository: Repository, ref: str) -> Commit:
        with described(f"get commit from ref {ref}"):
            return self._refs.resolver.commit(repository, ref)

    def _base(self, repository: Repository, left: str, right: str) -> Commit:
        base = merge_base(partial(self._refs.commits.get, repository), left, right)
        if base is None:
            raise NoMergeBaseError
        return base

    def _parent(self, repository: Repository, commit: Commit, number: int) -> Commit:
        if not 1 <= number <= len(commit.parents):
            raise ParentNumberError
        return self._refs.commits.get(repository, commit.parents[number - 1])

    def _merge_trees(
        self,
        repository: Repository,
        base: str,
        source: str,
        destination: str,
        strategy: Strategy = Strategy.DEFAULT,
    ) -> str:
        ranges = self._namespaces.of(repository).ranges
        try:
            return content.merge(ranges, base, source, destination, strategy, self._rule)
        except content.MergeConflictError:
            raise MergeConflictError from None


def _overridden(info: CommitInfo, overrides: CommitOverrides | None) -> CommitInfo:
    if overrides is None:
        return info
    return CommitInfo(
        info.committer,
        info.message if overrides.message is None else overrides.message,
        info.metadata if overrides.metadata is None else overrides.metadata,
    )
