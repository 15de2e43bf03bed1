"""Calls on branches."""

from __future__ import annotations

from typing import Literal

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import Diff, Page
from dredge.graveler.refs.records import Branch

ResetKind = Literal["reset", "object", "common_prefix"]


class BranchCalls(CatalogCore):
    """Create, get, list, delete, reset; what a branch has uncommitted."""

    def create_branch(
        self, repository: str, branch: str, source: str, *, hidden: bool = False, force: bool = False
    ) -> str:
        """Make a branch at a commit; nothing staged is taken over.

        Args:
            repository: its name.
            branch: name of the new branch.
            source: ref expression of a commit.
            hidden: leave it out of the default listing.
            force: also in a read-only repository.

        Returns:
            The head's commit id.

        Raises:
            BranchExistsError: 409; also for the name of a tag or a commit.
        """
        raise NotImplementedError

    def get_branch(self, repository: str, branch: str) -> Branch:
        """Look a branch up.

        Raises:
            BranchNotFoundError: 404.
        """
        raise NotImplementedError

    def list_branches(
        self,
        repository: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        show_hidden: bool = False,
    ) -> Page[Branch]:
        """List in name order. Without `show_hidden` some live branches are missing (trap 22)."""
        raise NotImplementedError

    def delete_branch(self, repository: str, branch: str, *, force: bool = False) -> None:
        """Remove a branch and queue its staged changes for dropping.

        Raises:
            DefaultBranchError: 403.
        """
        raise NotImplementedError

    def reset_branch(
        self,
        repository: str,
        branch: str,
        *,
        kind: ResetKind = "reset",
        path: str = "",
        force: bool = False,
    ) -> None:
        """Throw uncommitted changes away: all, those of one path, or those below a prefix.

        Resetting an object whose staged identity equals the committed one does nothing, as on a real server: the
        branch keeps reading the newer address (trap 45).
        """
        raise NotImplementedError

    def hard_reset(self, repository: str, branch: str, ref: str, *, force: bool = False) -> None:
        """Move the head to another commit. What is staged stays staged, on top of the new head (trap 46).

        Raises:
            DirtyBranchError: 400, a sealed token holds changes.
        """
        raise NotImplementedError

    def diff_branch(
        self,
        repository: str,
        branch: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        amount: int = 100,
    ) -> Page[Diff]:
        """What is staged, compared with the head. Entries of equal identity are no difference."""
        raise NotImplementedError
