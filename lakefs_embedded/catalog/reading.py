"""API calls to read objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dredge.errors import NotFoundError
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectStream
from lakefs_embedded.catalog.contents import Contents
from lakefs_embedded.catalog.entries import ObjectBytes, decode_entry, object_stats, path_bytes, prefix_stats
from lakefs_embedded.catalog.listing import list_page
from lakefs_embedded.catalog.model import Refs
from lakefs_embedded.catalog.results import ObjectContent, ObjectStats, Page
from lakefs_embedded.catalog.signing import SignedUrls
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import DataNotFoundError
from lakefs_embedded.refs.records import check_path
from lakefs_embedded.staging.protocol import read_branch


class ReadingService:
    """Gets and lists objects at any ref."""

    def __init__(
        self, refs: Refs, contents: Contents, object_bytes: ObjectBytes, signed_urls: SignedUrls
    ) -> None:
        self._refs = refs
        self._contents = contents
        self._bytes = object_bytes
        self._signed_urls = signed_urls

    def stat(self, repository: str, ref: str, path: str, *, presign: bool = False) -> ObjectStats:
        """Look up a path; with `presign` its address is a pre-signed URL."""
        found = self._refs.repositories.get(repository)
        entry = self._contents.find_entry(found, ref, check_path(path))
        return self._stats(found, path, entry, presign=presign)

    def get_object(self, repository: str, ref: str, path: str) -> ObjectContent:
        """Look up a path to read its bytes. Missing bytes are an error only of the read."""
        found = self._refs.repositories.get(repository)
        entry = self._contents.find_entry(found, ref, check_path(path))
        objects, key = self._bytes.locate(found, entry)

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

        return ObjectContent(
            object_stats(found, path, entry),
            read,
            stream,
            lambda: self._signed_urls.read_entry(found, path, entry),
        )

    def list_entries(
        self,
        repository: str,
        ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        amount: int = 100,
        presign: Callable[[str], bool] | None = None,
    ) -> Page[ObjectStats]:
        """List paths in byte order; a branch includes staged changes, `branch@` does not.

        `presign` says whether to pre-sign the URL of a path; None for no path.
        """
        found = self._refs.repositories.get(repository)
        resolved = self._refs.resolver.resolve(found, ref)

        def page(seek: Callable[[bytes], Iterator[tuple[bytes, Value]]]) -> Page[ObjectStats]:
            listed = list_page(seek, prefix, delimiter, after, amount)
            return Page(
                [
                    prefix_stats(name)
                    if value is None
                    else self._stats(
                        found,
                        name,
                        decode_entry(path_bytes(name), value),
                        presign=presign is not None and presign(name),
                    )
                    for name, value in listed.results
                ],
                listed.has_more,
                listed.next_offset,
            )

        if resolved.branch is None:
            return page(lambda start: self._contents.list_committed(found, resolved.commit_id, start))
        return read_branch(
            self._refs.branches,
            found,
            resolved.branch,
            lambda branch: page(
                lambda start: self._contents.list_branch(
                    found, branch, start, staging_only=resolved.staging_only
                )
            ),
        )

    def _stats(self, repository: Repository, path: str, entry: Entry, *, presign: bool) -> ObjectStats:
        stats = object_stats(repository, path, entry)
        if not presign:
            return stats
        signed = self._signed_urls.read_entry(repository, path, entry)
        return replace(stats, physical_address=signed.url, physical_address_expiry=signed.expires)
