"""Calls that change objects of a branch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import BinaryIO

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import DeleteError, ObjectStats

Content = bytes | BinaryIO | Iterable[bytes]
DEFAULT_CONTENT_TYPE = "application/octet-stream"


class ChangeCalls(CatalogCore):
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
        raise NotImplementedError

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
        raise NotImplementedError

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
        raise NotImplementedError

    def delete_objects(
        self, repository: str, branch: str, paths: Sequence[str], *, force: bool = False
    ) -> list[DeleteError]:
        """Delete many paths (at most 1000) and say which failed."""
        raise NotImplementedError

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
        """Copy an object, bytes and all, to a path of a branch.

        Args:
            repository: its name.
            branch: destination branch.
            path: destination path.
            source_path: what to copy.
            source_ref: from where; the branch itself when None.
            shallow: refused (501).
            force: also in a read-only repository.
        """
        raise NotImplementedError

    def update_user_metadata(
        self, repository: str, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> None:
        """Replace an object's user metadata: the same address is staged anew under the same path."""
        raise NotImplementedError
