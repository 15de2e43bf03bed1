"""Calls that bring changes of one line to another, and comparisons of commits."""

from __future__ import annotations

from collections.abc import Mapping

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import CommitOverrides, Diff, MergeBase, Page
from dredge.graveler.refs.records import Commit


class MergeCalls(CatalogCore):
    """Merge, revert, cherry-pick, diff. All need a branch without uncommitted changes."""

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
            repository: its name.
            source: ref expression.
            destination: branch.
            committer: who.
            message: "" for a generated one.
            metadata: kept with the commit, beside the strategy.
            strategy: "" (conflicts fail), "dest-wins" or "source-wins".
            squash: record the destination as the only parent.
            allow_empty: merge also when nothing changes.
            force: also in a read-only repository.

        Raises:
            MergeConflictError: 409.
            DirtyBranchError: 400.
            NoChangesError: 400.
        """
        raise NotImplementedError

    def find_merge_base(self, repository: str, source: str, destination: str) -> MergeBase:
        """Where a source ref and a destination branch parted."""
        raise NotImplementedError

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
        """Commit the opposite of a commit.

        Args:
            repository: its name.
            branch: where.
            ref: the commit to undo.
            committer: who.
            parent_number: towards which parent, counted from 1; needed for merges, 0 otherwise.
            overrides: message and metadata instead of the generated ones.
            allow_empty: commit also when nothing changes.
            force: also in a read-only repository.

        Raises:
            RevertParentError: 409, a merge and no parent number.
            MergeConflictError: 409.
        """
        raise NotImplementedError

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
        """Commit a copy of a commit's changes on a branch.

        Raises:
            ParentNumberError: 400, a merge and no parent number, or no such parent.
            MergeConflictError: 409.
        """
        raise NotImplementedError

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
        """What changed from `left` to `right`.

        Args:
            repository: its name.
            left: ref expression.
            right: ref expression.
            two_dot: compare the two directly; otherwise `right` with its merge base with `left`, paths that
                changed on both sides being conflicts.
            prefix: only paths that begin with it.
            delimiter: fold paths after it into one `prefix_changed`.
            after: last path of the page before.
            amount: results a page, at most 1000.
        """
        raise NotImplementedError
