"""API calls to read objects at any ref, and to change those of a branch, also for clients that write to the store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.errors import NotFoundError
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectStream
from lakefs_embedded.catalog.contents import Contents, StagedWrites
from lakefs_embedded.catalog.entries import (
    DEFAULT_CONTENT_TYPE,
    Content,
    ObjectBytes,
    PathProvider,
    address_to_keep,
    decode_entry,
    entry_time,
    object_stats,
    path_bytes,
    prefix_stats,
)
from lakefs_embedded.catalog.listing import list_page
from lakefs_embedded.catalog.model import Clock, Refs, Settings
from lakefs_embedded.catalog.results import DeleteError, ObjectContent, ObjectStats, Page, SignedUrl
from lakefs_embedded.catalog.signing import SignedUrls, sign_address, verify_address
from lakefs_embedded.catalog.tracked import Copies, HandedOut
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import (
    DataNotFoundError,
    GravelerError,
    InvalidValueError,
    PreconditionError,
    UnsupportedError,
)
from lakefs_embedded.refs.records import check_path
from lakefs_embedded.staging.protocol import read_branch
from lakefs_embedded.staging.reset import same_identity


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


DELETE_PATHS_MAX = 1000


@dataclass(eq=False)
class ObjectService:
    """Uploads, stages, copies and deletes objects of a branch, and changes their metadata."""

    _refs: Refs
    _contents: Contents
    _writes: StagedWrites
    _bytes: ObjectBytes
    _paths: PathProvider
    _copies: Copies
    _clock: Clock
    _settings: Settings

    def upload_object(
        self,
        repository: str,
        branch: str,
        path: str,
        content: Content,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        if_none_match: bool = False,
        force: bool = False,
    ) -> ObjectStats:
        """Store bytes under a new address and stage the entry.

        When PreconditionError (412, the path exists) is raised, the bytes may be stored, unreferenced.
        """
        found = self._refs.repositories.writable(repository, force)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        self._refs.branches.cached(found, branch)  # 404 before the body is read
        if if_none_match and self._contents.value_on(
            found, self._refs.branches.current(found, branch).branch, raw
        ):
            raise PreconditionError
        address = self._paths.new_address()
        checksum, size = self._bytes.write(found, address, content)
        entry = Entry(
            address=address,
            size=size,
            etag=checksum,
            last_modified=self._clock(),
            metadata=dict(metadata or {}),
            content_type=content_type or DEFAULT_CONTENT_TYPE,
        )
        self._writes.stage(found, branch, raw, entry, if_absent=if_none_match)
        return object_stats(found, path, entry)

    def stage_object(
        self,
        repository: str,
        branch: str,
        path: str,
        *,
        physical_address: str,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        force: bool = False,
    ) -> ObjectStats:
        """Stage an entry for an existing object, unchecked; in profile `design` only outside the namespace."""
        found = self._refs.repositories.writable(repository, force)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        address, address_type = address_to_keep(found, physical_address)
        inside = physical_address.startswith(found.storage_namespace.rstrip("/") + "/")
        if inside and self._settings.profile == "design":
            raise InvalidValueError(
                f"{physical_address} lies in the repository's own namespace: only an address that was "
                "handed out may be used there, by linking it: invalid value"
            )
        entry = Entry(
            address=address,
            address_type=address_type,
            size=size_bytes,
            etag=checksum,
            last_modified=entry_time(self._clock(), mtime),
            metadata=dict(metadata or {}),
            content_type=content_type or DEFAULT_CONTENT_TYPE,
        )
        self._writes.stage(found, branch, raw, entry)
        return object_stats(found, path, entry)

    def delete_object(
        self, repository: str, branch: str, path: str, *, no_tombstone: bool = False, force: bool = False
    ) -> None:
        """Delete a path, whether or not it exists; the bytes stay. For `no_tombstone` see `StagedWrites.delete`."""
        found = self._refs.repositories.writable(repository, force)
        self._refs.protection.require_writable(found, branch)
        self._writes.delete(found, branch, check_path(path), no_tombstone=no_tombstone)

    def delete_objects(
        self, repository: str, branch: str, paths: Sequence[str], *, force: bool = False
    ) -> list[DeleteError]:
        """Delete many paths (at most 1000). Returns the failed ones."""
        found = self._refs.repositories.writable(repository, force)
        if len(paths) > DELETE_PATHS_MAX:
            raise InvalidValueError(f"at most {DELETE_PATHS_MAX} paths in one request: invalid value")
        self._refs.protection.require_writable(found, branch)
        self._refs.branches.current(found, branch)
        failed = []
        for path in paths:
            try:
                self._writes.delete(found, branch, check_path(path), no_tombstone=False)
            except GravelerError as error:
                failed.append(DeleteError(path, error.status, str(error)))
        return failed

    def copy_object(
        self,
        repository: str,
        branch: str,
        path: str,
        source_path: str,
        *,
        source_ref: str | None = None,
        shallow: bool = False,
        force: bool = False,
    ) -> ObjectStats:
        """Copy an object, with its bytes, from `source_ref` (None: the branch itself) to a path of a branch.

        In profile `design` a copy of an object staged on the same branch shares its address (see `tracked`), and
        `shallow` is ignored; in profile `lakefs` it is refused (501).
        """
        is_design = self._settings.profile == "design"
        if shallow and not is_design:
            raise UnsupportedError
        found = self._refs.repositories.writable(repository, force)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        self._refs.branches.current(found, branch)
        raw_source = check_path(source_path)
        source = self._contents.find_entry(found, source_ref or branch, raw_source)
        is_here = is_design and self._refs.resolver.resolve(found, source_ref or branch).branch == branch
        if is_here and self._share(found, branch, raw_source, source):
            address = source.address
        else:
            address = self._paths.new_address()
            self._bytes.copy(found, source, address)
        entry = replace(
            source,
            address=address,
            address_type=AddressType.RELATIVE,
            last_modified=self._clock(),
            nanoseconds=0,
        )
        self._writes.stage(found, branch, raw, entry)
        return object_stats(found, path, entry)

    def update_user_metadata(
        self, repository: str, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> None:
        """Replace an object's user metadata: its address is staged again under the path."""
        found = self._refs.repositories.writable(repository, force)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        self._writes.replace(found, branch, raw, lambda entry: replace(entry, metadata=dict(metadata)))

    def _share(self, repository: Repository, branch: str, path: bytes, source: Entry) -> bool:
        if source.address_type != AddressType.RELATIVE or not self._is_staged(
            repository, branch, path, source
        ):
            return False
        tracked = self._copies.track(repository, source.address, self._clock())
        # If it is no longer staged, a collection may already have found its address unreferenced.
        if self._is_staged(repository, branch, path, source):
            return True
        self._copies.forget(repository, tracked)
        return False

    def _is_staged(self, repository: Repository, branch: str, path: bytes, entry: Entry) -> bool:
        present = self._refs.branches.current(repository, branch).branch
        staged = self._contents.staged_value(present, path)
        if staged is None or decode_entry(path, staged).address != entry.address:
            return False
        committed = self._contents.committed_value(repository, present.commit_id, path)
        return not same_identity(staged, committed)  # prepare leaves out the committed identity (L6, L45)


@dataclass(eq=False)
class AddressService:
    """Hands addresses out, and links the objects written there."""

    _refs: Refs
    _writes: StagedWrites
    _paths: PathProvider
    _handed_out: HandedOut
    _signed_urls: SignedUrls
    _clock: Clock
    _settings: Settings

    def get_physical_address(self, repository: str, branch: str, path: str) -> str:
        """Hand out a signed address for one path, as a full URI. The branch need not exist."""
        found = self._refs.repositories.writable(repository)
        check_path(path)
        signed = sign_address(self._settings.signing_key, repository, branch, path, self._paths.new_address())
        if self._settings.profile == "design":
            self._handed_out.track(found, signed)
        return f"{found.storage_namespace.rstrip('/')}/{signed}"

    def presign_write(self, repository: str, physical_address: str) -> SignedUrl:
        """Sign a URL to write to a handed-out address."""
        found = self._refs.repositories.writable(repository)
        key, _ = address_to_keep(found, physical_address)
        return self._signed_urls.write_key(found, key)

    def link_physical_address(
        self,
        repository: str,
        branch: str,
        path: str,
        *,
        physical_address: str,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        content_type: str = "",
        force: bool = False,
    ) -> ObjectStats:
        """Stage an entry for an object at a handed-out address, at most 24 h old, or raise LinkAddressError.

        As on a real server the object itself is not checked. In profile `design` an address is linked once: it is used
        up before the entry is staged, so a failure in between leaves an unreferenced object.
        """
        found = self._refs.repositories.writable(repository, force)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        address, address_type = address_to_keep(found, physical_address)
        now = self._clock()
        single_use = self._settings.profile == "design"
        if address_type == AddressType.RELATIVE or single_use:
            verify_address(
                self._settings.signing_key,
                repository,
                branch,
                path,
                address,
                now=now,
                expiry=self._settings.link_expiry,
            )
        if single_use:
            self._refs.branches.current(found, branch)  # 404 while the address can still be linked elsewhere
            self._handed_out.consume(found, address)
        entry = Entry(
            address=address,
            address_type=address_type,
            size=size_bytes,
            etag=checksum,
            last_modified=entry_time(now, mtime),
            metadata=dict(metadata or {}),
            content_type=content_type or DEFAULT_CONTENT_TYPE,
        )
        self._writes.stage(found, branch, raw, entry)
        return object_stats(found, path, entry)
