"""Changes to staged entries, safe with concurrent commits."""

from __future__ import annotations

from collections.abc import Callable

from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.catalog.contents import Contents
from lakefs_embedded.catalog.entries import decode_entry
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import PathNotFoundError, PreconditionError, TooManyTriesError
from lakefs_embedded.kv import PredicateFailedError
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.staging.area import Staged, StagingAreas, staged_value
from lakefs_embedded.staging.protocol import write_staged


class StagedWrites:
    """Stages, replaces and deletes entries on branches by the writer's flow (`staging/flows.py`)."""

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
