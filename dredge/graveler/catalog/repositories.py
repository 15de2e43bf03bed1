"""Calls on repositories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import Page
from dredge.graveler.refs.records import Repository


class RepositoryCalls(CatalogCore):
    """Create, get, list, delete; metadata and branch protection."""

    def create_repository(
        self,
        repository: str,
        storage_namespace: str,
        *,
        default_branch: str = "main",
        bare: bool = False,
        read_only: bool = False,
        storage_id: str = "",
    ) -> Repository:
        """Create a repository.

        Args:
            repository: its name.
            storage_namespace: URI of a folder that no other repository uses.
            default_branch: made with it, unless bare.
            bare: make the record only; to be filled by a restore of refs.
            read_only: refuse writes from then on.
            storage_id: kept as given.

        Raises:
            NotUniqueError: 409, the name is taken.
            RepositoryInDeletionError: 410, a deletion of that name has not ended.
            NamespaceInUseError: 400.
            InvalidValueError: 400, a malformed name.
        """
        raise NotImplementedError

    def get_repository(self, repository: str) -> Repository:
        """Look a repository up.

        Raises:
            RepositoryNotFoundError: 404.
            RepositoryInDeletionError: 410.
        """
        raise NotImplementedError

    def list_repositories(
        self, *, prefix: str = "", search: str = "", after: str = "", amount: int = 100
    ) -> Page[Repository]:
        """List in name order, those in deletion too (a real server does not filter them)."""
        raise NotImplementedError

    def delete_repository(self, repository: str, *, force: bool = False) -> None:
        """Delete the records of a repository; staged entries and all objects stay. Can be retried.

        Args:
            repository: its name.
            force: also when it is read only.
        """
        raise NotImplementedError

    def get_repository_metadata(self, repository: str) -> Mapping[str, str]:
        """Metadata of the repository itself."""
        raise NotImplementedError

    def get_branch_protection(self, repository: str) -> tuple[list[str], str]:
        """Patterns of protected branches, and an ETag of them."""
        raise NotImplementedError

    def set_branch_protection(
        self, repository: str, patterns: Sequence[str], *, if_match: str | None = None
    ) -> None:
        """Replace the patterns.

        Raises:
            PreconditionError: 412, `if_match` is not the present ETag.
        """
        raise NotImplementedError
