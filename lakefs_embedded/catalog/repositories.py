"""API calls on repositories."""

from collections.abc import Iterator, Mapping, Sequence

from dredge.errors import ConflictError, NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from lakefs_embedded.catalog.listing import named_page
from lakefs_embedded.catalog.model import Namespaces, Refs
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.errors import LostRaceError, NamespaceInUseError, ReadOnlyError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.refs.records import check_branch, check_namespace, check_repository
from lakefs_embedded.refs.repositories import METADATA_KEY

CLAIM_KEY = "_lakefs/dummy"
_CLAIM_KEYS = ("dummy", CLAIM_KEY)  # the first is where very old servers wrote it
_CLAIM = b"This object says that the storage namespace belongs to a repository."


class RepositoryService:
    """Creates, gets, lists and deletes repositories; their metadata and branch protection."""

    def __init__(self, kv: Store, refs: Refs, namespaces: Namespaces) -> None:
        self._kv = kv
        self._refs = refs
        self._namespaces = namespaces

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
        """Create a repository in a folder without another one; a `bare` one is a record only, for a restore of refs.

        Raises RepositoryInDeletionError (410) while one of the same name is being deleted.
        """
        self._refs.repositories.refuse_early(repository)
        check_repository(repository)
        check_branch(default_branch)
        check_namespace(storage_namespace)
        if not bare and not read_only:
            _claim(self._namespaces.open(storage_namespace))
        return self._refs.repositories.create(
            repository,
            storage_namespace,
            default_branch,
            bare=bare,
            read_only=read_only,
            storage_id=storage_id,
        )

    def get_repository(self, repository: str) -> Repository:
        """Look up a repository."""
        return self._refs.repositories.get(repository)

    def list_repositories(
        self, *, prefix: str = "", search: str = "", after: str = "", amount: int = 100
    ) -> Page[Repository]:
        """List in name order. The design's steps leave out repositories in deletion, a real server does not."""

        def scan(start: str) -> Iterator[Repository]:
            return (found for found in self._refs.repositories.listed(start) if search in found.name)

        return named_page(scan, prefix, after, amount, lambda found: found.name)

    def delete_repository(self, repository: str, *, force: bool = False) -> None:
        """Delete the records of a repository; staged entries and all objects stay. Can be retried.

        In step 2 of the design the records stay too, unreachable, for the trash cleaner.
        """
        found = self._refs.repositories.peek(repository)
        if found is not None and found.read_only and not force:
            raise ReadOnlyError
        self._refs.repositories.delete(repository)

    def get_repository_metadata(self, repository: str) -> Mapping[str, str]:
        """The metadata of a repository."""
        partition = self._refs.repositories.get(repository).partition
        try:
            raw = self._kv.get(partition, METADATA_KEY)
        except KeyNotFoundError:
            return {}
        return dict(messages.decode(messages.RepoMetadata, raw, "repository metadata").metadata)

    def update_repository_metadata(
        self, repository: str, *, put: Mapping[str, str] | None = None, remove: Sequence[str] = ()
    ) -> None:
        """Change some of the metadata and remove keys, also of a read-only repository; the rest stays."""
        partition = self._refs.repositories.get(repository).partition
        try:
            raw = self._kv.get(partition, METADATA_KEY)
            kept = dict(messages.decode(messages.RepoMetadata, raw, "repository metadata").metadata)
        except KeyNotFoundError:
            raw, kept = None, {}
        for key in remove:
            kept.pop(key, None)
        changed = messages.encode(messages.RepoMetadata(metadata={**kept, **(put or {})}))
        try:
            self._kv.set_if(partition, METADATA_KEY, changed, raw)
        except PredicateFailedError:
            raise LostRaceError from None

    def get_branch_protection(self, repository: str) -> tuple[list[str], str]:
        """The patterns of protected branches, and their ETag."""
        return self._refs.protection.patterns(self._refs.repositories.get(repository))

    def set_branch_protection(
        self, repository: str, patterns: Sequence[str], *, if_match: str | None = None
    ) -> None:
        """Replace the patterns. Raises PreconditionError (412): `if_match` is not the current ETag."""
        self._refs.protection.replace(self._refs.repositories.writable(repository), patterns, if_match)


def _claim(objects: ObjectWriter) -> None:
    for key in _CLAIM_KEYS:
        try:
            objects.get(key)
        except NotFoundError:
            continue
        raise NamespaceInUseError
    try:
        objects.put_if_absent(CLAIM_KEY, _CLAIM)
    except ConflictError:
        raise NamespaceInUseError from None
    objects.get(CLAIM_KEY)
