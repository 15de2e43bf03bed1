"""Calls on commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import Page
from dredge.graveler.refs.records import Commit


class CommitCalls(CatalogCore):
    """Commit, look up, log."""

    def commit(
        self,
        repository: str,
        branch: str,
        *,
        committer: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        date: datetime | None = None,
        source_metarange: str | None = None,
        allow_empty: bool = False,
        force: bool = False,
    ) -> Commit:
        """Commit everything staged on a branch.

        Args:
            repository: its name.
            branch: its name.
            committer: who.
            message: why.
            metadata: kept with the commit.
            date: creation date instead of now (aware; past and future alike).
            source_metarange: commit this metarange instead of what is staged; nothing may be staged then.
            allow_empty: commit also when nothing changed.
            force: also in a read-only repository.

        Raises:
            NoChangesError: 400; the staging token stays sealed on the branch.
            TooManyTriesError: 429; nothing is lost, the changes stay on the branch.
        """
        raise NotImplementedError

    def get_commit(self, repository: str, ref: str) -> Commit:
        """Look up the commit that an expression names.

        Raises:
            CommitNotFoundError: 404.
        """
        raise NotImplementedError

    def create_commit_record(self, repository: str, commit: Commit, *, force: bool = False) -> None:
        """Write a commit record as it is (any date, any version); its id must be its hash.

        Raises:
            InvalidValueError: 400, the id is not the hash.
            NotUniqueError: 409, another record has the id.
        """
        raise NotImplementedError

    def log(
        self,
        repository: str,
        ref: str,
        *,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: bool = False,
        first_parent: bool = False,
        since: datetime | None = None,
        stop_at: str | None = None,
        after: str = "",
        amount: int = 100,
    ) -> Page[Commit]:
        """Commits that a ref leads to, newest first along the graph.

        Args:
            repository: its name.
            ref: where to start.
            objects: only commits that changed one of these paths.
            prefixes: only commits that changed something below one of these.
            limit: `amount` bounds the whole answer; there is no next page.
            first_parent: follow first parents only.
            since: leave out commits older than this.
            stop_at: ref of the last commit to show.
            after: commit id of the last result of the page before.
            amount: results a page, at most 1000.
        """
        raise NotImplementedError

    def read_metadata_object(self, repository: str, object_id: str) -> bytes:
        """Bytes of a range or metarange file.

        Raises:
            DataNotFoundError: 410.
        """
        raise NotImplementedError
