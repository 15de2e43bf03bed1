"""Contents of a repository, committed or with staged changes on top; changes safe with concurrent commits."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.catalog.entries import decode_entry
from lakefs_embedded.catalog.model import Namespaces, Refs
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import PathNotFoundError, PreconditionError, TooManyTriesError
from lakefs_embedded.kv import PredicateFailedError
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.staging.area import Staged, StagingAreas, overlay, staged_changes, staged_value
from lakefs_embedded.staging.protocol import READ_TRIES, read_branch, write_staged
from lakefs_embedded.staging.reset import same_identity


class Contents:
    """Looks paths up, and lists them."""

    def __init__(self, refs: Refs, areas: StagingAreas, namespaces: Namespaces) -> None:
        self._refs = refs
        self._areas = areas
        self._namespaces = namespaces

    def committed_value(self, repository: Repository, commit_id: str, path: bytes) -> Value | None:
        """The value of a path in a commit."""
        metarange_id = self._refs.commits.get(repository, commit_id).metarange_id
        return self._namespaces.of(repository).ranges.get_entry(metarange_id, path)

    def staged_value(self, branch: Branch, path: bytes) -> Value | None:
        """The staged value of a path; None also for a tombstone."""
        staged = staged_value(self._areas, branch.tokens, path)
        return None if staged is None else staged.value

    def value_on(self, repository: Repository, branch: Branch, path: bytes) -> Value | None:
        """The value of a path on a branch, staged or committed."""
        staged = staged_value(self._areas, branch.tokens, path)
        if staged is not None:
            return staged.value
        return self.committed_value(repository, branch.commit_id, path)

    def settled_value(
        self, repository: Repository, branch: Branch, path: bytes, *, below: bool = False
    ) -> Value | None:
        """The value of a path on a branch, as last read, correct also during a concurrent commit and drop.

        With `below`, without the newest token.
        """
        for _ in range(READ_TRIES):
            seen = replace(branch, staging_token="") if below else branch
            value = self.value_on(repository, seen, path)
            after = self._refs.branches.current(repository, branch.name).branch
            if after == branch:
                return value
            branch = after
        raise TooManyTriesError

    def find_entry(self, repository: Repository, ref: str, path: bytes) -> Entry:
        """The entry of a path at a ref."""
        resolved = self._refs.resolver.resolve(repository, ref)
        if resolved.branch is None:
            value = self.committed_value(repository, resolved.commit_id, path)
        elif resolved.staging_only:
            value = read_branch(
                self._refs.branches,
                repository,
                resolved.branch,
                lambda branch: self.staged_value(branch, path),
            )
        else:
            value = read_branch(
                self._refs.branches,
                repository,
                resolved.branch,
                lambda branch: self.value_on(repository, branch, path),
            )
        if value is None:
            raise PathNotFoundError
        return decode_entry(path, value)

    def list_committed(
        self, repository: Repository, commit_id: str, start: bytes
    ) -> Iterator[tuple[bytes, Value]]:
        """Paths and values of a commit in path order, from a path on."""
        metarange_id = self._refs.commits.get(repository, commit_id).metarange_id
        return self._namespaces.of(repository).ranges.list_entries(metarange_id, start=start)

    def list_branch(
        self, repository: Repository, branch: Branch, start: bytes, *, staging_only: bool = False
    ) -> Iterator[tuple[bytes, Value]]:
        """Paths and values of a branch in path order, from a path on; with `staging_only` without committed ones."""
        below = iter(()) if staging_only else self.list_committed(repository, branch.commit_id, start)
        return overlay(staged_changes(self._areas, branch.tokens, start), below)

    def is_dirty(self, repository: Repository, branch: Branch) -> bool:
        """Whether a branch's tokens differ from its head."""
        return any(
            not same_identity(change.value, self.committed_value(repository, branch.commit_id, change.path))
            for change in staged_changes(self._areas, branch.tokens)
        )


class StagedWrites:
    """Stages, replaces and deletes entries on branches by the writer's flow (`staging/protocol.py`)."""

    def __init__(self, branches: Branches, areas: StagingAreas, contents: Contents, tries: int) -> None:
        self._branches = branches
        self._areas = areas
        self._contents = contents
        self._tries = tries

    def stage(
        self, repository: Repository, branch: str, path: bytes, entry: Entry, *, if_absent: bool = False
    ) -> None:
        """Stage an entry; with `if_absent` only on a path without one."""
        staged = Staged(path, entry.value())

        def write(present: Branch) -> None:
            if if_absent:
                self._stage_if_absent(repository, present, staged)
            else:
                self._areas.put(present.staging_token, staged)

        write_staged(self._branches, repository, branch, write, self._tries)

    def replace(
        self, repository: Repository, branch: str, path: bytes, change: Callable[[Entry], Entry]
    ) -> None:
        """Stage a changed copy of a path's entry; raises TooManyTriesError also after a concurrent write to it."""

        def write(present: Branch) -> None:
            here = self._areas.get_raw(present.staging_token, path)
            value = self._contents.settled_value(repository, present, path)
            if value is None:
                raise PathNotFoundError
            entry = change(decode_entry(path, value))
            self._areas.put_if(present.staging_token, Staged(path, entry.value()), here)

        try:
            write_staged(self._branches, repository, branch, write, self._tries)
        except PredicateFailedError:
            raise TooManyTriesError from None

    def delete(self, repository: Repository, branch: str, path: bytes, *, no_tombstone: bool) -> None:
        """Delete a path, if it exists.

        `no_tombstone` removes the staged entry itself when older tokens and the head do not have the path.
        """
        is_retry = False

        def write(present: Branch) -> None:
            nonlocal is_retry
            here = self._areas.get(present.staging_token, path)
            is_below = is_retry or self._is_below(repository, present, path)
            is_retry = True
            if here is None and not is_below:
                return
            if no_tombstone and not is_below:
                self._areas.remove(present.staging_token, path)
            elif here is None or here.value is not None:
                self._areas.put(present.staging_token, Staged(path, None))

        write_staged(self._branches, repository, branch, write, self._tries)

    def _stage_if_absent(self, repository: Repository, branch: Branch, staged: Staged) -> None:
        here = self._areas.get_raw(branch.staging_token, staged.path)
        if here is None:
            present = self._contents.settled_value(repository, branch, staged.path, below=True)
        else:
            present = Staged.decode(staged.path, here).value
        if present is not None and present != staged.value:  # equal: an earlier try of the same write
            raise PreconditionError
        try:
            self._areas.put_if(branch.staging_token, staged, here)
        except PredicateFailedError:
            raise PreconditionError from None

    def _is_below(self, repository: Repository, branch: Branch, path: bytes) -> bool:
        # A tombstone counts too: it may be too late for the commit of its sealed token, and be dropped with it.
        if staged_value(self._areas, branch.sealed_tokens, path) is not None:
            return True
        if self._contents.committed_value(repository, branch.commit_id, path) is not None:
            return True
        # The tokens of a changed branch may have been committed and dropped during these reads.
        return self._branches.current(repository, branch.name).branch != branch
