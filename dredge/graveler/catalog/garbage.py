"""Calls that garbage collection makes."""

from __future__ import annotations

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import PreparedCommits, PreparedUncommitted, PrepareStatus
from dredge.graveler.retention.rules import Rules


class GarbageCalls(CatalogCore):
    """Rules, active commits, uncommitted addresses."""

    def get_gc_rules(self, repository: str) -> Rules:
        """Read the rules.

        Raises:
            RulesNotFoundError: 404.
        """
        raise NotImplementedError

    def set_gc_rules(self, repository: str, rules: Rules) -> None:
        """Replace the rules."""
        raise NotImplementedError

    def delete_gc_rules(self, repository: str) -> None:
        """Remove the rules (an empty file stays)."""
        raise NotImplementedError

    def prepare_commits(self, repository: str) -> PreparedCommits:
        """Write the active commits to a CSV.

        Raises:
            RulesNotFoundError: 404 with the text `get gc rules: not found`.
            CommitNotFoundError: 404, a branch's head has no record.
        """
        raise NotImplementedError

    def prepare_commits_async(self, repository: str) -> str:
        """Begin the same in the background, rules or not.

        Returns:
            Task id, `GCPC` and 20 characters.
        """
        raise NotImplementedError

    def prepare_commits_status(self, repository: str, task_id: str) -> PrepareStatus:
        """How far a task is.

        Raises:
            TaskNotFoundError: 404, never made or older than 24 h.
        """
        raise NotImplementedError

    def prepare_uncommitted(
        self, repository: str, continuation_token: str | None = None
    ) -> PreparedUncommitted:
        """Write one page of the repository's uncommitted addresses.

        Args:
            repository: its name.
            continuation_token: of the page before; None or "" starts a run.

        Raises:
            ContinuationTokenError: 400.
            CommitNotFoundError: 404, a branch's head has no record.
        """
        raise NotImplementedError
