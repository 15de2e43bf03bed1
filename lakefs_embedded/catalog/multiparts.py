"""API calls of multipart uploads.

An upload has one record under `multiparts/<upload id>`, as on a real server, with two more fields: its
repository and its branch. The object store keeps the parts (see `lakefs_embedded.uploads`). On completion the
object is made, the entry is staged, the record is removed; a crash in between leaves an unreferenced object and a
record of a finished upload.

Source: lakeFS pkg/gateway/multipart (tracker.go), pkg/gateway/operations/postobject.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dredge.errors import NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from lakefs_embedded.catalog.contents import Contents, StagedWrites
from lakefs_embedded.catalog.entries import DEFAULT_CONTENT_TYPE, PathProvider, object_stats
from lakefs_embedded.catalog.model import Clock, Namespaces, Refs
from lakefs_embedded.catalog.results import ObjectStats
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import MissingError, PreconditionError
from lakefs_embedded.kv import KeyNotFoundError, Store
from lakefs_embedded.refs.records import check_path
from lakefs_embedded.uploads import Part, Uploads, open_uploads

PARTITION = b"multiparts"


class UploadNotFoundError(MissingError):
    """No such multipart upload of this path: never begun, or completed or aborted."""

    default = "multipart upload not found"


@dataclass(eq=False)
class MultipartService:
    """Begins, completes and aborts multipart uploads."""

    _kv: Store
    _refs: Refs
    _namespaces: Namespaces
    _contents: Contents
    _writes: StagedWrites
    _paths: PathProvider
    _clock: Clock

    def create_multipart(
        self,
        repository: str,
        branch: str,
        path: str,
        *,
        content_type: str,
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Begin an upload. Returns its id."""
        found = self._refs.repositories.writable(repository)
        check_path(path)
        self._refs.protection.require_writable(found, branch)
        self._refs.branches.current(found, branch)
        address = self._paths.new_address()
        upload_id = self._uploads(found).begin(address)
        record = messages.UploadData(
            upload_id=upload_id,
            path=path,
            physical_address=address,
            metadata=dict(metadata or {}),
            content_type=content_type,
            repository=repository,
            branch=branch,
        )
        record.creation_date.FromDatetime(self._clock())
        self._kv.set(PARTITION, upload_id.encode(), messages.encode(record))
        return upload_id

    def put_multipart_part(
        self, repository: str, branch: str, path: str, upload_id: str, number: int, chunks: Iterable[bytes]
    ) -> Part:
        """Write one part."""
        found = self._refs.repositories.writable(repository)
        record = self._upload_record(repository, branch, path, upload_id)
        with _known():
            return self._uploads(found).put_part(record.physical_address, upload_id, number, chunks)

    def list_multipart_parts(self, repository: str, branch: str, path: str, upload_id: str) -> list[Part]:
        """The parts uploaded so far, by number."""
        found = self._refs.repositories.get(repository)
        record = self._upload_record(repository, branch, path, upload_id)
        with _known():
            return self._uploads(found).parts(record.physical_address, upload_id)

    def complete_multipart(
        self,
        repository: str,
        branch: str,
        path: str,
        upload_id: str,
        parts: Sequence[tuple[int, str]],
        *,
        if_none_match: bool = False,
    ) -> tuple[ObjectStats, str]:
        """Put the parts together and stage the entry; with `if_none_match` only where the path does not exist.

        Returns the object, and its multipart ETag; the entry keeps the part of the ETag before the dash. If refused,
        the upload stays open.
        """
        found = self._refs.repositories.writable(repository)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        present = self._refs.branches.current(found, branch).branch
        record = self._upload_record(repository, branch, path, upload_id)
        if if_none_match and self._contents.value_on(found, present, raw):
            raise PreconditionError
        with _known():
            done = self._uploads(found).complete(record.physical_address, upload_id, parts)
        entry = Entry(
            address=record.physical_address,
            size=done.info.size,
            etag=done.etag.partition("-")[0],
            last_modified=done.info.last_modified,
            metadata=dict(record.metadata),
            content_type=record.content_type or DEFAULT_CONTENT_TYPE,
        )
        self._writes.stage(found, branch, raw, entry, if_absent=if_none_match)
        self._kv.delete(PARTITION, upload_id.encode())
        return object_stats(found, path, entry), done.etag

    def abort_multipart(self, repository: str, branch: str, path: str, upload_id: str) -> None:
        """Abort an upload and discard its parts."""
        found = self._refs.repositories.writable(repository)
        record = self._upload_record(repository, branch, path, upload_id)
        with _known():
            self._uploads(found).abort(record.physical_address, upload_id)
        self._kv.delete(PARTITION, upload_id.encode())

    def _uploads(self, repository: Repository) -> Uploads:
        return open_uploads(self._namespaces.of(repository).objects)

    def _upload_record(self, repository: str, branch: str, path: str, upload_id: str) -> messages.UploadData:
        try:
            raw = self._kv.get(PARTITION, upload_id.encode("utf-8", "surrogateescape"))
        except (KeyNotFoundError, ValueError):
            raise UploadNotFoundError from None
        record = messages.decode(messages.UploadData, raw, f"upload {upload_id!r}")
        asked, kept = (repository, branch), (record.repository, record.branch)
        # Uploads of a real server have neither repository nor branch: the store checks their namespace.
        if record.path != path or (any(kept) and asked != kept):
            raise UploadNotFoundError
        return record


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except NotFoundError:
        raise UploadNotFoundError from None
