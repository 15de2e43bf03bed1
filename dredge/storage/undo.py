"""Copies inside a store, and the versions of a bucket: the two ways to undo a deletion.

A copier copies under the same key only, so it can neither choose a key nor delete. A reader shows versions. Deleters
of versions come with a limit: only markers, only versions that are not current, or only exact versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from dredge.errors import FormatError, RefusedError
from dredge.storage.model import DeleteOutcome, MaySend, ObjectInfo, ObjectReader, ObjectWriter, always

type Versioning = Literal["enabled", "suspended", "off", "unknown"]
"""Whether a bucket keeps versions; unknown if the credentials may not ask."""


# S3's id of a version or marker made without versioning. Only this id may get another version: while versioning is
# suspended, a write or delete replaces it.
NULL_VERSION = "null"
NO_OWN_ID = "NoOwnVersionId"
"""Code of a version kept because its id may have another version now."""


class ObjectCopier(Protocol):
    """Copies objects between two folders under the same key, on the server if the store can."""

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object, and check the copy.

        The size and any comparable checksums must be equal. The copy keeps content type, metadata, encryption and
        storage class if the store has them. `if_absent`: only if the key is free in the target; without conditional
        writes, a check before the copy. Raises NotFoundError: no source; ConflictError: the target exists; nothing was
        written; FormatError: the source differs, and nothing was written; or the copy differs from the source."""


def check_source(
    key: str, found_size: int, found_etag: str | None, size: int | None, etag: str | None
) -> None:
    """Check the size and etag of a source before its copy; None for any."""
    if size is not None and found_size != size:
        raise FormatError(f"{key!r} has {found_size} bytes, not {size}; nothing was copied")
    if etag is not None and found_etag != etag:
        raise FormatError(f"{key!r} changed since it was looked up; nothing was copied")


class ObjectVersion(Struct, frozen=True, kw_only=True):
    """One version of an object, or a delete marker."""

    version_id: str
    is_latest: bool
    is_marker: bool
    size: int  # bytes; 0 for a marker
    etag: str | None  # None for a marker
    last_modified: datetime


class Expiry(Struct, frozen=True):
    """Days after which lifecycle rules remove versions."""

    days: int | None  # after the deletion or replacement of an object; None for never
    known: bool = True  # whether the credentials may ask; if not, both numbers are None
    current_days: int | None = None  # after the write of an object; None for never


class VersionReader:
    """Reads the versions of a bucket. These methods are those of a store without versions."""

    def versioning(self, probe_uri: str = "") -> Versioning:
        """Whether the bucket keeps versions. `probe_uri`: a writable folder in the same account, for stores that show
        it only after a write; "" for no write."""
        return "off"

    def versions(self, key: str) -> list[ObjectVersion]:
        """All versions and markers of exactly this key, newest first; at the same time versions before markers."""
        return []

    def brings_back_copies(self) -> bool:
        """Whether removing a marker copies a version; the copy has its own etag."""
        return False

    def kept_seconds(self) -> int | None:
        """The time for which the store keeps, and bills, deleted bytes; 0 for none, None if the credentials may not
        ask."""
        return 0

    def locked_days(self) -> int | None:
        """Days of the bucket's default lock after a write (Object Lock); 0 for none, None if unknown. Single objects
        may be locked longer."""
        return 0

    def expiry(self, prefix: str) -> Expiry | None:
        """The earliest expiry of keys with a prefix; None for a store without lifecycle rules."""
        return None


class VersionDeleter(Protocol):
    """Deletes single versions by their ids."""

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete versions permanently. `wanted`: key and version id of each. Returns one outcome each, in order."""


class NamedVersionDeleter:
    """Deletes versions by their ids; versions with `NULL_VERSION` only while versioning is enabled.

    An id never changes its version, except `NULL_VERSION`: while versioning is suspended an upload takes it.
    """

    def __init__(self, deleter: VersionDeleter, versioning: Callable[[], Versioning]) -> None:
        self._deleter = deleter
        self._versioning = versioning

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """See `VersionDeleter.delete`."""
        nameless = [item for item in wanted if item[1] == NULL_VERSION]
        found = self._versioning() if nameless else "enabled"
        if found == "enabled":
            return self._deleter.delete(wanted, may_send)
        named = [item for item in wanted if item[1] != NULL_VERSION]
        outcomes = dict(zip(named, self._deleter.delete(named, may_send) if named else [], strict=True))
        words = (
            f"its version id is {NULL_VERSION}, and the versioning of the bucket is {found}: a new upload could take"
            " that id meanwhile. Turn versioning on"
        )
        outcomes |= {item: DeleteOutcome(item[0], "failed", NO_OWN_ID, words) for item in nameless}
        return [outcomes[item] for item in wanted]


class MarkerRemover:
    """Removes delete markers, which restores the versions below; refuses versions."""

    def __init__(self, deleter: VersionDeleter) -> None:
        self._deleter = deleter

    def remove(self, key: str, marker: ObjectVersion) -> DeleteOutcome:
        """Remove a marker; raises RefusedError for a version."""
        if not marker.is_marker:
            raise RefusedError(
                f"version {marker.version_id} of {key!r} is no delete marker; it was not deleted"
            )
        (outcome,) = self._deleter.delete([(key, marker.version_id)])
        return outcome


class OldVersionDeleter:
    """Deletes markers, and versions that are not current."""

    def __init__(self, deleter: VersionDeleter) -> None:
        self._deleter = deleter

    def delete(
        self, wanted: Sequence[tuple[str, ObjectVersion]], may_send: MaySend = always
    ) -> list[DeleteOutcome]:
        """Delete versions permanently; see `VersionDeleter.delete`. Raises RefusedError: one is a current version; none
        was deleted."""
        for key, version in wanted:
            if version.is_latest and not version.is_marker:
                raise RefusedError(
                    f"version {version.version_id} of {key!r} is the current one. Nothing was deleted."
                    " Please report this."
                )
        return self._deleter.delete([(key, version.version_id) for key, version in wanted], may_send)


class ExactVersionDeleter:
    """Deletes versions by their ids, including current ones. A later write is another version, and stays."""

    def __init__(self, deleter: VersionDeleter) -> None:
        self._deleter = deleter

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete versions permanently; see `VersionDeleter.delete`. Raises RefusedError: one has `NULL_VERSION`; none
        was deleted."""
        for key, version_id in wanted:
            if version_id in ("", NULL_VERSION):
                raise RefusedError(
                    f"{key!r} was written while the bucket kept no versions, so its version id may belong to a newer"
                    " object now. Nothing was deleted."
                )
        return self._deleter.delete(wanted, may_send)


class StreamedCopier(Struct, frozen=True):
    """See `dredge.storage.undo.ObjectCopier`."""

    source: ObjectReader
    target: ObjectWriter

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """See `ObjectCopier.copy`."""
        sent = hashlib.sha256()
        with self.source.open_read(key) as opened:
            check_source(key, opened.info.size, opened.info.etag, size, etag)
            written = self.target.put_stream(key, _hashing(opened, sent), if_absent)
        read = hashlib.sha256()
        with self.target.open_read(key) as copied:
            for _ in _hashing(copied, read):
                pass
        if opened.info.size != written.size or sent.digest() != read.digest():
            raise FormatError(
                f"the copy of {key!r} in {self.target.uri} differs from the object in {self.source.uri}"
            )
        return written


def _hashing(chunks: Iterable[bytes], into: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        into.update(chunk)
        yield chunk
