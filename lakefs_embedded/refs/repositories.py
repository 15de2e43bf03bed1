"""Creation and deletion of repositories: as by today's server, and by the two steps of the design.

Today    creating   initial commit → default branch → repository record (must be absent)
                    A record always has its branch; a create leaves an unreferenced partition if it fails or loses a
                    race.
         deleting   record says "in deletion" → branches, tags, commits, metadata removed → record removed
                    After an interrupted deletion the name answers 410 until it is deleted again. Staging partitions,
                    settings, tasks and all objects stay. The record is marked and removed unconditionally: a stalled
                    deletion may destroy a later repository of the same name.

Step 1   creating   initial commit → default branch → record `active` (must be absent)
         deleting   record `in-deletion` → every row of the partition removed → record removed
                    An interrupted deletion blocks the name until it is repeated.

Step 2   creating   record `initial` (must be absent) → initial commit → default branch → record `active`
         deleting   record `in-deletion` → entry in `graveler_deleted` → record removed
                    The name is free at once; the trash cleaner empties the entry's partition. A record still `initial`
                    two minutes after its creation belongs to a failed create: the next reader marks it `in-deletion`,
                    and it can be deleted like any other.

In both steps a repository is found only while its record says `active`, and all its rows are in the record's
partition. A record is changed and removed only if unchanged, so a stalled deletion does not touch a later repository
of the same name. A create leaves its rows to the cleaner if its record was changed meanwhile.

Source: design "Repository operations error handling"; lakeFS pkg/graveler/ref/manager.go;
docs/decisions/embedded-lakefs.md.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from dredge.errors import DredgeError
from dredge.lakefs.files.records import (
    REPOSITORIES_PARTITION,
    Branch,
    Repository,
    RepositoryState,
    repository_key,
)
from dredge.xid import new_xid
from lakefs_embedded.errors import (
    NotUniqueError,
    ReadOnlyError,
    RepositoryInDeletionError,
    RepositoryNotFoundError,
)
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.refs.commits import new_commit
from lakefs_embedded.refs.records import (
    DELETED_PARTITION,
    branch_key,
    branch_record,
    commit_key,
    deleted_key,
    new_staging_token,
    repository_record,
)

_PREFIX = b"repos/"
METADATA_KEY = b"repo-metadata"
_DELETED_PREFIXES = (b"branches/", b"tags/", b"commits/")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A repository and its stored bytes, the condition of a change."""

    repository: Repository
    raw: bytes


class Repositories:
    """All repositories of a key-value store."""

    def __init__(self, kv: Store, clock: Callable[[], datetime]) -> None:
        self._kv = kv
        self._clock = clock

    def get(self, name: str) -> Repository:
        """Look up an active repository."""
        repository = self.peek(name)
        if repository is None:
            raise RepositoryNotFoundError
        if repository.state != "active":
            raise RepositoryInDeletionError
        return repository

    def writable(self, name: str, force: bool = False) -> Repository:
        """Look up an active repository to change it."""
        repository = self.get(name)
        if repository.read_only and not force:
            raise ReadOnlyError
        return repository

    def peek(self, name: str) -> Repository | None:
        """Look up a repository in any state."""
        found = self._read(name)
        return None if found is None else found.repository

    def listed(self, start: str = "") -> Iterator[Repository]:
        """Repositories of a listing, in name order from a name on, including those in deletion."""
        return self.scan(start)

    def scan(self, start: str = "") -> Iterator[Repository]:
        """Repositories in any state, in name order from a name on."""
        for entry in self._kv.scan(REPOSITORIES_PARTITION, repository_key(start)):
            if not entry.key.startswith(_PREFIX):
                return
            yield Repository.decode(entry.value)

    def create(
        self,
        name: str,
        storage_namespace: str,
        default_branch: str,
        *,
        bare: bool = False,
        read_only: bool = False,
        storage_id: str = "",
    ) -> Repository:
        """Create a repository; the caller checks arguments. Raises NotUniqueError also after a lost race."""
        self._require_free(name)
        now = self._clock()
        repository = Repository(
            name=name,
            storage_namespace=storage_namespace,
            default_branch=default_branch,
            creation_date=now,
            instance_uid=new_xid(now),
            read_only=read_only,
            storage_id=storage_id,
        )
        self._begin(repository, bare)
        return repository

    def refuse_early(self, name: str) -> None:
        """Refuse an existing name before a create begins.

        A name in deletion is refused later, after the check of its namespace.
        """
        present = self.peek(name)
        if present is not None and not present.in_deletion:
            raise NotUniqueError

    def delete(self, name: str) -> None:
        """Delete a repository's records, or continue an interrupted deletion."""
        repository = self.peek(name)
        if repository is None:
            raise RepositoryNotFoundError
        self._kv.set(
            REPOSITORIES_PARTITION,
            repository_key(name),
            repository_record(in_state(repository, "in-deletion")),
        )
        for prefix in _DELETED_PREFIXES:
            for key in self._keys(repository.partition, prefix):
                self._kv.delete(repository.partition, key)
        self._kv.delete(repository.partition, METADATA_KEY)
        self._kv.delete(REPOSITORIES_PARTITION, repository_key(name))

    def settle(self) -> None:
        """Finish creates and deletions left unfinished by other processes. A real server does not."""

    def _require_free(self, name: str) -> None:
        present = self.peek(name)
        if present is not None:
            raise RepositoryInDeletionError if present.in_deletion else NotUniqueError

    def _begin(self, repository: Repository, bare: bool) -> None:
        if not bare:
            self._write_contents(repository)
        self._record(repository)

    def _record(self, repository: Repository) -> None:
        try:
            self._kv.set_if(
                REPOSITORIES_PARTITION, repository_key(repository.name), repository_record(repository), None
            )
        except PredicateFailedError:
            raise NotUniqueError from None

    def _write_contents(self, repository: Repository) -> None:
        commit = new_commit(
            committer="",
            message="Repository created",
            creation_date=repository.creation_date,
            metarange_id="",
            metadata={},
            parents=(),
        )
        branch = Branch(
            repository.default_branch,
            commit.id,
            new_staging_token(repository.name, repository.default_branch),
        )
        self._kv.set(repository.partition, commit_key(commit.id), commit.encode())
        self._kv.set_if(repository.partition, branch_key(branch.name), branch_record(branch), None)

    def _read(self, name: str) -> Recorded | None:
        try:
            raw = self._kv.get(REPOSITORIES_PARTITION, repository_key(name))
        except KeyNotFoundError:
            return None
        return Recorded(Repository.decode(raw), raw)

    def _keys(self, partition: bytes, prefix: bytes) -> list[bytes]:
        keys = (entry.key for entry in self._kv.scan(partition, prefix))
        return list(itertools.takewhile(lambda key: key.startswith(prefix), keys))


def in_state(repository: Repository, state: RepositoryState) -> Repository:
    """The same repository in another state."""
    return replace(repository, state=state)


LifeCycle = Literal["lakefs", "step-1", "step-2"]
CREATION_TIME_MAX = timedelta(minutes=2)
"""An unfinished create has failed after this time."""

log = logging.getLogger(__name__)


def open_repositories(life_cycle: LifeCycle, kv: Store, clock: Callable[[], datetime]) -> Repositories:
    """The repositories of a store, with a life-cycle."""
    kinds = {"lakefs": Repositories, "step-1": StepOneRepositories, "step-2": StepTwoRepositories}
    return kinds[life_cycle](kv, clock)


class StepOneRepositories(Repositories):
    """Repositories by the design's step 1."""

    def listed(self, start: str = "") -> Iterator[Repository]:
        """Repositories in use, in name order, from a name on."""
        return (repository for repository in self.scan(start) if repository.state == "active")

    def refuse_early(self, name: str) -> None:
        """Refuse an existing name."""
        self._require_free(name)

    def delete(self, name: str) -> None:
        """Delete a repository's records, or continue an interrupted deletion."""
        found = self._read(name)
        if found is None:
            raise RepositoryNotFoundError
        self._finish(self._marked(found))

    def _finish(self, marked: Recorded) -> None:
        partition = marked.repository.partition
        for entry in self._kv.scan(partition):
            self._kv.delete(partition, entry.key)
        self._remove_record(marked)

    def _marked(self, found: Recorded) -> Recorded:
        current: Recorded | None = found
        while current is not None and current.repository.instance_uid == found.repository.instance_uid:
            if current.repository.in_deletion:
                return current
            changed = self._changed(current, "in-deletion")
            if changed is not None:
                return changed
            current = self._read(found.repository.name)
        raise RepositoryNotFoundError

    def _changed(self, found: Recorded, state: RepositoryState) -> Recorded | None:
        new = in_state(found.repository, state)
        raw = repository_record(new)
        try:
            self._kv.set_if(REPOSITORIES_PARTITION, repository_key(new.name), raw, found.raw)
        except PredicateFailedError:
            return None
        return Recorded(new, raw)

    def _remove_record(self, marked: Recorded) -> None:
        try:
            self._kv.delete_if(REPOSITORIES_PARTITION, repository_key(marked.repository.name), marked.raw)
        except PredicateFailedError:
            return  # another deletion of the same instance removed it; any record there now is of a later one


class StepTwoRepositories(StepOneRepositories):
    """Repositories by the design's step 2."""

    def get(self, name: str) -> Repository:
        """Look up an active repository. An unfinished create is not found, a failed one is in deletion (410)."""
        found = self._looked_up(name)
        if found is None or found.repository.state == "initial":
            raise RepositoryNotFoundError
        if found.repository.in_deletion:
            raise RepositoryInDeletionError
        return found.repository

    def delete(self, name: str) -> None:
        """Delete a repository, or continue an interrupted deletion; the trash cleaner removes its rows."""
        found = self._looked_up(name)
        if found is None or found.repository.state == "initial":
            raise RepositoryNotFoundError
        self._finish(self._marked(found))

    def settle(self) -> None:
        """Mark failed creates, and finish interrupted deletions; called at start-up."""
        for name in [repository.name for repository in self.scan() if repository.state != "active"]:
            try:
                found = self._looked_up(name)
                if found is not None and found.repository.in_deletion:
                    self._finish(found)
            except DredgeError as error:
                log.warning("repository %s is left as it is until the next start: %s", name, error)

    def _begin(self, repository: Repository, bare: bool) -> None:
        if bare:
            self._record(repository)
            return
        initial = in_state(repository, "initial")
        self._record(initial)
        self._write_contents(repository)
        if self._changed(Recorded(initial, repository_record(initial)), "active") is None:
            self._lost(repository)

    def _require_free(self, name: str) -> None:
        if self._looked_up(name) is not None:
            raise NotUniqueError

    def _lost(self, repository: Repository) -> None:
        found = self._read(repository.name)
        if found is not None and found.repository.instance_uid == repository.instance_uid:
            raise RepositoryInDeletionError  # its deletion queues the present rows
        entry = repository_record(in_state(repository, "initial"))
        self._kv.set(DELETED_PARTITION, deleted_key(repository), entry)
        raise RepositoryNotFoundError if found is None else NotUniqueError

    def _finish(self, marked: Recorded) -> None:
        self._hand_over(marked.repository)
        self._remove_record(marked)

    def _hand_over(self, repository: Repository) -> None:
        entry = repository_record(in_state(repository, "in-deletion"))
        try:
            self._kv.set_if(DELETED_PARTITION, deleted_key(repository), entry, None)
        except PredicateFailedError:
            return  # it has been queued before

    def _looked_up(self, name: str) -> Recorded | None:
        found = self._read(name)
        return None if found is None else self._expired(found)

    def _expired(self, found: Recorded) -> Recorded | None:
        current: Recorded | None = found
        while current is not None and self._is_expired(current.repository):
            changed = self._changed(current, "in-deletion")
            if changed is not None:
                return changed
            current = self._read(found.repository.name)
        return current

    def _is_expired(self, repository: Repository) -> bool:
        return repository.state == "initial" and self._clock() - repository.creation_date >= CREATION_TIME_MAX
