"""Calls that change objects of a branch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO

from dredge.errors import NotFoundError
from dredge.graveler.catalog.copies import Copies
from dredge.graveler.catalog.entries import (
    address_to_keep,
    decode_entry,
    entry_time,
    locate,
    object_stats,
)
from dredge.graveler.catalog.objects import ObjectCalls
from dredge.graveler.catalog.results import DeleteError, ObjectStats
from dredge.graveler.committed import AddressType, Entry, Value
from dredge.graveler.errors import (
    DataNotFoundError,
    GravelerError,
    InvalidValueError,
    PathNotFoundError,
    PreconditionError,
    TooManyTriesError,
    UnsupportedError,
)
from dredge.graveler.refs.names import check_path
from dredge.graveler.refs.records import Branch, Repository
from dredge.graveler.staging.area import Staged
from dredge.graveler.staging.combined import staged_value
from dredge.graveler.staging.flows import READ_TRIES, write_staged
from dredge.graveler.staging.reset import same_identity
from dredge.kv import PredicateFailedError

Content = bytes | BinaryIO | Iterable[bytes]
DELETE_PATHS_MAX = 1000
_CHUNK_BYTES = 1 << 20
DEFAULT_CONTENT_TYPE = "application/octet-stream"


class ChangeCalls(ObjectCalls):
    """Upload, stage, copy, delete, change metadata."""

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
        """Store bytes under a fresh address and stage the entry.

        Args:
            repository: its name.
            branch: its name.
            path: 1 to 1024 bytes.
            content: the bytes, a file opened for reading, or chunks.
            content_type: kept with the entry.
            metadata: the user's.
            if_none_match: refuse when the path exists (If-None-Match: *).
            force: also in a read-only repository.

        Raises:
            PreconditionError: 412, the path exists. The bytes may have been stored; they are garbage.
        """
        found = self._writable(repository, force)
        raw = check_path(path)
        self._protection.require_writable(found, branch)
        self._branches.cached(found, branch)  # 404 before the body is read
        if if_none_match and self._value_on(found, self._branches.current(found, branch).branch, raw):
            raise PreconditionError
        address = self._paths.new_address()
        checksum, size = self._write_bytes(found, address, content)
        entry = Entry(
            address=address,
            size=size,
            etag=checksum,
            last_modified=self.clock(),
            metadata=dict(metadata or {}),
            content_type=content_type,
        )
        self._stage(found, branch, raw, entry, if_absent=if_none_match)
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
        """Stage an entry for bytes that are already somewhere; nothing about them is checked.

        Raises:
            InvalidValueError: 400, no URI; in profile `design` also any address inside the namespace.
        """
        found = self._writable(repository, force)
        raw = check_path(path)
        self._protection.require_writable(found, branch)
        address, address_type = address_to_keep(found, physical_address)
        inside = physical_address.startswith(found.storage_namespace.rstrip("/") + "/")
        if inside and self.settings.profile == "design":
            raise InvalidValueError(
                f"{physical_address} lies in the repository's own namespace: only an address that was "
                "handed out may be used there, by linking it: invalid value"
            )
        entry = Entry(
            address=address,
            address_type=address_type,
            size=size_bytes,
            etag=checksum,
            last_modified=entry_time(self.clock(), mtime),
            metadata=dict(metadata or {}),
            content_type=content_type,
        )
        self._stage(found, branch, raw, entry)
        return object_stats(found, path, entry)

    def delete_object(
        self, repository: str, branch: str, path: str, *, no_tombstone: bool = False, force: bool = False
    ) -> None:
        """Delete a path; no error when there is none. The bytes stay.

        Args:
            repository: its name.
            branch: its name.
            path: what to delete.
            no_tombstone: remove the staged entry itself when nothing lies below it.
            force: also in a read-only repository.
        """
        found = self._writable(repository, force)
        self._protection.require_writable(found, branch)
        self._delete(found, branch, check_path(path), no_tombstone)

    def delete_objects(
        self, repository: str, branch: str, paths: Sequence[str], *, force: bool = False
    ) -> list[DeleteError]:
        """Delete many paths (at most 1000) and say which failed."""
        found = self._writable(repository, force)
        if len(paths) > DELETE_PATHS_MAX:
            raise InvalidValueError(f"at most {DELETE_PATHS_MAX} paths in one request: invalid value")
        self._protection.require_writable(found, branch)
        self._branches.current(found, branch)
        failed = []
        for path in paths:
            try:
                self._delete(found, branch, check_path(path), no_tombstone=False)
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
        """Copy an object to a path of a branch.

        The bytes are copied, too, but for one case: in profile `design` a copy of an object that is staged on
        the same branch shares its address, and is written down for garbage collection (see `copies`).

        Args:
            repository: its name.
            branch: destination branch.
            path: destination path.
            source_path: what to copy.
            source_ref: from where; the branch itself when None.
            shallow: refused (501) in profile `lakefs`; `design` decides by itself.
            force: also in a read-only repository.
        """
        is_design = self.settings.profile == "design"
        if shallow and not is_design:
            raise UnsupportedError
        found = self._writable(repository, force)
        raw = check_path(path)
        self._protection.require_writable(found, branch)
        self._branches.current(found, branch)
        raw_source = check_path(source_path)
        source = self._entry(found, source_ref or branch, raw_source)
        is_here = is_design and self._resolver.resolve(found, source_ref or branch).branch == branch
        if is_here and self._share(found, branch, raw_source, source):
            address = source.address
        else:
            address = self._paths.new_address()
            self._copy_bytes(found, source, address)
        entry = replace(
            source,
            address=address,
            address_type=AddressType.RELATIVE,
            last_modified=self.clock(),
            nanoseconds=0,
        )
        self._stage(found, branch, raw, entry)
        return object_stats(found, path, entry)

    def update_user_metadata(
        self, repository: str, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> None:
        """Replace an object's user metadata: the same address is staged anew under the same path."""
        found = self._writable(repository, force)
        raw = check_path(path)
        self._protection.require_writable(found, branch)

        def write(present: Branch) -> None:
            here = self._areas.get_raw(present.staging_token, raw)
            value = self._settled_value(found, present, raw)
            if value is None:
                raise PathNotFoundError
            entry = replace(decode_entry(raw, value), metadata=dict(metadata))
            self._areas.put_if(present.staging_token, Staged(raw, entry.value()), here)

        try:
            write_staged(self._branches, found, branch, write, self.settings.write_tries)
        except PredicateFailedError:
            raise TooManyTriesError from None  # someone else wrote the path meanwhile

    def _stage(
        self, repository: Repository, branch: str, path: bytes, entry: Entry, *, if_absent: bool = False
    ) -> None:
        value = entry.value()
        staged = Staged(path, value)

        def write(present: Branch) -> None:
            if if_absent:
                self._stage_if_absent(repository, present, staged)
            else:
                self._areas.put(present.staging_token, staged)

        write_staged(self._branches, repository, branch, write, self.settings.write_tries)

    def _stage_if_absent(self, repository: Repository, branch: Branch, staged: Staged) -> None:
        """Stage where nothing may be; what an earlier try of the same write left is no hindrance.

        Raises:
            PreconditionError: 412.
        """
        here = self._areas.get_raw(branch.staging_token, staged.path)
        if here is None:
            present = self._settled_value(repository, branch, staged.path, below=True)
        else:
            present = Staged.decode(staged.path, here).value
        if present is not None and present != staged.value:
            raise PreconditionError
        try:
            self._areas.put_if(branch.staging_token, staged, here)
        except PredicateFailedError:
            raise PreconditionError from None

    def _delete(self, repository: Repository, branch: str, path: bytes, no_tombstone: bool) -> None:
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

        write_staged(self._branches, repository, branch, write, self.settings.write_tries)

    def _is_below(self, repository: Repository, branch: Branch, path: bytes) -> bool:
        """Whether a path may show through once the newest token says nothing of it.

        Any row of a sealed token counts, a tombstone too: it may have come too late for the commit that is
        being made of that token, and would be dropped with it. So does a branch that has changed: what its
        tokens held may have been committed and dropped under the look.
        """
        if staged_value(self._areas, branch.sealed_tokens, path) is not None:
            return True
        if self._committed_value(repository, branch.commit_id, path) is not None:
            return True
        return self._branches.current(repository, branch.name).branch != branch

    def _settled_value(
        self, repository: Repository, branch: Branch, path: bytes, *, below: bool = False
    ) -> Value | None:
        """What a path reads as, whatever is committed and dropped under the look.

        Args:
            repository: where.
            branch: as it was read last, perhaps from the cache.
            path: which.
            below: leave the newest token out.

        Raises:
            TooManyTriesError: 429, the branch changed during every try.
        """
        for _ in range(READ_TRIES):
            seen = replace(branch, staging_token="") if below else branch
            value = self._value_on(repository, seen, path)
            after = self._branches.current(repository, branch.name).branch
            if after == branch:
                return value
            branch = after
        raise TooManyTriesError

    def _share(self, repository: Repository, branch: str, path: bytes, source: Entry) -> bool:
        """Whether a copy may share a source's bytes: it is staged on the branch, also after that was written
        down. What is not staged any more could have been found dead by a collection before.
        """
        if source.address_type != AddressType.RELATIVE or not self._is_staged(
            repository, branch, path, source
        ):
            return False
        copies = Copies(self._kv)
        tracked = copies.track(repository, source.address, self.clock())
        if self._is_staged(repository, branch, path, source):
            return True
        copies.forget(repository, tracked)
        return False

    def _is_staged(self, repository: Repository, branch: str, path: bytes, entry: Entry) -> bool:
        """Whether a path of a branch is staged with an entry's address, and prepare shows it: what has the
        identity of the committed entry is live in no page (L6, L45).
        """
        present = self._branches.current(repository, branch).branch
        staged = staged_value(self._areas, present.tokens, path)
        if staged is None or staged.value is None:
            return False
        if decode_entry(path, staged.value).address != entry.address:
            return False
        committed = self._committed_value(repository, present.commit_id, path)
        return not same_identity(staged.value, committed)

    def _write_bytes(self, repository: Repository, address: str, content: Content) -> tuple[str, int]:
        objects = self._namespace(repository).objects
        if isinstance(content, bytes):
            objects.put(address, content)
            return hashlib.md5(content, usedforsecurity=False).hexdigest(), len(content)
        digest = hashlib.md5(usedforsecurity=False)
        size = 0

        def pass_on(chunks: Iterable[bytes]) -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        objects.put_stream(address, pass_on(_chunks(content)))
        return digest.hexdigest(), size

    def _copy_bytes(self, repository: Repository, source: Entry, address: str) -> None:
        objects = self._namespace(repository).objects
        holder, key = locate(repository, source, objects, self._open_namespace)
        try:
            if holder is objects:
                objects.copy(key, address)
                return
            with holder.open_read(key) as stream:
                objects.put_stream(address, stream)
        except NotFoundError:
            raise DataNotFoundError from None


def _chunks(content: BinaryIO | Iterable[bytes]) -> Iterable[bytes]:
    if hasattr(content, "read"):
        return iter(lambda: content.read(_CHUNK_BYTES), b"")
    return content
