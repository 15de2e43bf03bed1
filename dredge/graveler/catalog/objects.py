"""Calls that read objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dredge.errors import NotFoundError
from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.entries import decode_entry, locate, object_stats, path_bytes, prefix_stats
from dredge.graveler.catalog.listing import list_page
from dredge.graveler.catalog.results import ObjectContent, ObjectStats, Page
from dredge.graveler.committed import Entry, Value
from dredge.graveler.errors import DataNotFoundError, PathNotFoundError
from dredge.graveler.refs.names import check_path
from dredge.graveler.refs.records import Branch, Repository
from dredge.graveler.staging.combined import overlay, staged_changes, staged_value
from dredge.graveler.staging.flows import read_branch
from dredge.storage import ObjectStream


class ObjectCalls(CatalogCore):
    """Stat, read, list, at any ref."""

    def stat(self, repository: str, ref: str, path: str) -> ObjectStats:
        """Look a path up.

        Raises:
            PathNotFoundError: 404.
        """
        found = self._repositories.get(repository)
        return object_stats(found, path, self._entry(found, ref, check_path(path)))

    def get_object(self, repository: str, ref: str, path: str) -> ObjectContent:
        """Look a path up to read its bytes.

        Raises:
            PathNotFoundError: 404. A missing object raises only when it is read.
        """
        found = self._repositories.get(repository)
        entry = self._entry(found, ref, check_path(path))
        objects, key = locate(found, entry, self._namespace(found).objects, self._open_namespace)

        def read(start: int, length: int | None) -> bytes:
            try:
                if length is None and start == 0:
                    return objects.get(key)
                return objects.get_range(key, start, entry.size - start if length is None else length)
            except NotFoundError:
                raise DataNotFoundError from None

        def stream(start: int, length: int | None) -> ObjectStream:
            try:
                return objects.open_read(key, start, length)
            except NotFoundError:
                raise DataNotFoundError from None

        return ObjectContent(object_stats(found, path, entry), read, stream)

    def list_entries(
        self,
        repository: str,
        ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        amount: int = 100,
    ) -> Page[ObjectStats]:
        """List paths in byte order.

        Args:
            repository: its name.
            ref: expression; a branch shows what is staged, `branch@` does not.
            prefix: only paths that begin with it.
            delimiter: fold what follows it into one common prefix.
            after: last path or common prefix of the page before.
            amount: results a page, at most 1000.
        """
        found = self._repositories.get(repository)
        resolved = self._resolver.resolve(found, ref)

        def page(seek: Callable[[bytes], Iterator[tuple[bytes, Value]]]) -> Page[ObjectStats]:
            listed = list_page(seek, prefix, delimiter, after, amount)
            return Page(
                [
                    prefix_stats(name)
                    if value is None
                    else object_stats(found, name, decode_entry(path_bytes(name), value))
                    for name, value in listed.results
                ],
                listed.has_more,
                listed.next_offset,
            )

        if resolved.branch is None:
            return page(lambda start: self._committed(found, resolved.commit_id, start))
        return read_branch(
            self._branches,
            found,
            resolved.branch,
            lambda branch: page(lambda start: self._combined(found, branch, start, resolved.staging_only)),
        )

    def _entry(self, repository: Repository, ref: str, path: bytes) -> Entry:
        """The entry that a path of a ref reads as.

        Raises:
            PathNotFoundError: 404.
        """
        resolved = self._resolver.resolve(repository, ref)
        if resolved.branch is None:
            value = self._committed_value(repository, resolved.commit_id, path)
        elif resolved.staging_only:
            value = read_branch(
                self._branches, repository, resolved.branch, lambda branch: self._staged_only(branch, path)
            )
        else:
            value = read_branch(
                self._branches,
                repository,
                resolved.branch,
                lambda branch: self._value_on(repository, branch, path),
            )
        if value is None:
            raise PathNotFoundError
        return decode_entry(path, value)

    def _staged_only(self, branch: Branch, path: bytes) -> Value | None:
        staged = staged_value(self._areas, branch.tokens, path)
        return None if staged is None else staged.value

    def _committed(
        self, repository: Repository, commit_id: str, start: bytes
    ) -> Iterator[tuple[bytes, Value]]:
        metarange_id = self._commits.get(repository, commit_id).metarange_id
        return self._namespace(repository).ranges.list_entries(metarange_id, start=start)

    def _combined(
        self, repository: Repository, branch: Branch, start: bytes, staging_only: bool
    ) -> Iterator[tuple[bytes, Value]]:
        below = iter(()) if staging_only else self._committed(repository, branch.commit_id, start)
        return overlay(staged_changes(self._areas, branch.tokens, start), below)
