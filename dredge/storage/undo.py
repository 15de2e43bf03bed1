"""What makes a deletion undoable: copies inside the store, and the versions that a bucket keeps.

A copier copies from one folder into another under the same key and can do nothing else, so whoever is handed one can
neither choose a key nor delete. Versions are looked at through a reader; who may take them away holds one of two
deleters: of delete markers, which takes no byte from anybody, or of versions that are not the current ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from dredge.errors import FormatError, RefusedError
from dredge.storage.model import DeleteOutcome, MaySend, ObjectInfo, ObjectReader, ObjectWriter, always

type Versioning = Literal["enabled", "suspended", "off", "unknown"]
"""Whether a bucket keeps what is deleted; unknown when the credentials may not ask."""


NULL_VERSION = "null"
"""What S3 calls a version or a marker that was made while versioning was off or suspended. It is the one id that may
come to name something else: while versioning is suspended, whoever writes or deletes replaces what has it."""
NO_OWN_ID = "NoOwnVersionId"
"""Code of what was not deleted because its id may name something else by now."""


class ObjectCopier(Protocol):
    """Copies objects from one folder into another under the same key, on the server where the store can."""

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object, and look at the copy.

        The copy has the size of the source, and its checksum where the store tells comparable ones, or an error is
        raised. Content type, metadata, encryption and storage class are kept where the store has them.

        Args:
            key: relative to both folders.
            if_absent: only where the target has no such object; where the store has no such condition, a look right
                before the copy stands in.
            size: bytes that the source must have; None for any.
            etag: tag that the source must have; None for any.

        Returns:
            What the store says of the copy.

        Raises:
            NotFoundError: the source is not there.
            ConflictError: the target is there already; nothing was written.
            FormatError: the source is not as it must be, and nothing was written; or the copy is not like the source.
        """


def check_source(
    key: str, found_size: int, found_etag: str | None, size: int | None, etag: str | None
) -> None:
    """Demand that what is about to be copied is what the caller means.

    Args:
        key: for the message.
        found_size: bytes of the source.
        found_etag: its tag.
        size: that it must have; None for any.
        etag: that it must have; None for any.

    Raises:
        FormatError: it is something else.
    """
    if size is not None and found_size != size:
        raise FormatError(f"{key!r} has {found_size} bytes, not {size}; nothing was copied")
    if etag is not None and found_etag != etag:
        raise FormatError(f"{key!r} is another object than was looked at before; nothing was copied")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """One version of an object, or a delete marker.

    Attributes:
        version_id: the store's name of it.
        is_latest: whether it is the current one.
        is_marker: whether it only says that the object was deleted.
        size: bytes; 0 of a marker.
        etag: the store's tag; None of a marker.
        last_modified: by the store's clock.
    """

    version_id: str
    is_latest: bool
    is_marker: bool
    size: int
    etag: str | None
    last_modified: datetime


class VersionReader(Protocol):
    """Looks at the versions that a bucket keeps."""

    def versioning(self, probe_uri: str = "") -> Versioning:
        """Whether the bucket keeps what is deleted.

        Args:
            probe_uri: a folder of our own in the same account, where a store that tells it only to whoever writes is
                asked by a small object; "" lets nothing be written.
        """

    def versions(self, key: str) -> list[ObjectVersion]:
        """Every version and marker of exactly this key, the newest first; of those with the same time versions come
        before markers."""


@runtime_checkable
class BringsBackCopies(Protocol):
    """A store whose markers are taken away by copying the version below, where the copy gets a tag of its own."""

    def brings_back_copies(self) -> bool:
        """Whether it does."""


@runtime_checkable
class KeepsDeletedBytes(Protocol):
    """A store that may keep the bytes of what is deleted, and have them paid for, for a time after every deletion."""

    def kept_seconds(self) -> int | None:
        """For how long; 0 for not at all, None when the credentials may not ask."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """When the lifecycle rules of a bucket remove versions.

    Attributes:
        days: after an object was deleted or replaced; None for never.
        known: whether the credentials may ask; when not, both numbers are None.
        current_days: age at which a rule removes objects that nobody deleted; None for never.
    """

    days: int | None
    known: bool = True
    current_days: int | None = None


@runtime_checkable
class LocksVersions(Protocol):
    """A store whose buckets may forbid for a time that versions are deleted (Object Lock)."""

    def locked_days(self) -> int | None:
        """For how many days after it was written by the bucket's own rule; 0 for none, None when the store
        does not tell. Single objects may be locked for longer."""


@runtime_checkable
class ExpiresOldVersions(Protocol):
    """A store whose buckets may have rules that remove old versions."""

    def expiry(self, prefix: str) -> Expiry:
        """When the first rules remove old versions, and objects themselves.

        Args:
            prefix: of the keys.
        """


class VersionDeleter(Protocol):
    """Deletes single versions by their ids, and can do nothing else."""

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete versions for good.

        Args:
            wanted: key and version id of each.
            may_send: asked right before each request; see `ObjectDeleter.delete`.

        Returns:
            One outcome each, in their order.
        """


class NoVersions:
    """The versions of a store that keeps none."""

    def versioning(self, _probe_uri: str = "") -> Versioning:
        """None are kept."""
        return "off"

    def versions(self, key: str) -> list[ObjectVersion]:
        """There are none."""
        return []


class NamedVersionDeleter:
    """Deletes versions by their ids, and those without one of their own only while nobody can take it from them.

    An id never changes what it names, but for `NULL_VERSION`: an upload takes that while versioning is suspended.

    Args:
        deleter: of versions.
        versioning: asks whether the bucket keeps what is deleted.
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
            f"it has no version id of its own, and the versioning of the bucket is {found}: somebody could upload under"
            " that id meanwhile. Turn versioning on"
        )
        outcomes |= {item: DeleteOutcome(item[0], "failed", NO_OWN_ID, words) for item in nameless}
        return [outcomes[item] for item in wanted]


class MarkerRemover:
    """Takes delete markers away, so that what lies below comes back. Takes no version.

    Args:
        deleter: of versions.
    """

    def __init__(self, deleter: VersionDeleter) -> None:
        self._deleter = deleter

    def remove(self, key: str, marker: ObjectVersion) -> DeleteOutcome:
        """Take a marker away.

        Args:
            key: of the object.
            marker: as a reader gave it.

        Raises:
            RefusedError: it is a version.
        """
        if not marker.is_marker:
            raise RefusedError(
                f"version {marker.version_id} of {key!r} is no delete marker; it was not deleted"
            )
        (outcome,) = self._deleter.delete([(key, marker.version_id)])
        return outcome


class OldVersionDeleter:
    """Deletes versions that are not the current ones, and the markers of a run.

    Args:
        deleter: of versions.
    """

    def __init__(self, deleter: VersionDeleter) -> None:
        self._deleter = deleter

    def delete(
        self, wanted: Sequence[tuple[str, ObjectVersion]], may_send: MaySend = always
    ) -> list[DeleteOutcome]:
        """Delete versions for good; arguments as for `VersionDeleter.delete`, with versions as a reader gave them.

        Raises:
            RefusedError: one of them is a current version; none was deleted.
        """
        for key, version in wanted:
            if version.is_latest and not version.is_marker:
                raise RefusedError(
                    f"version {version.version_id} of {key!r} is the current one. Nothing was deleted."
                    " Please report this."
                )
        return self._deleter.delete([(key, version.version_id) for key, version in wanted], may_send)


class ExactVersionDeleter:
    """Deletes versions by their ids, current ones too. What is written under the key meanwhile is another version, and
    stays.

    Args:
        deleter: of versions.
    """

    def __init__(self, deleter: VersionDeleter) -> None:
        self._deleter = deleter

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete versions for good; arguments as for `VersionDeleter.delete`.

        Raises:
            RefusedError: one of the ids is that of whatever was written without versioning; none was deleted.
        """
        for key, version_id in wanted:
            if version_id in ("", NULL_VERSION):
                raise RefusedError(
                    f"{key!r} was written while the bucket kept no versions, so that its id may name"
                    " something newer. Nothing was deleted."
                )
        return self._deleter.delete(wanted, may_send)


@dataclass(frozen=True, slots=True)
class StreamedCopier:
    """See `dredge.storage.undo.ObjectCopier`.

    Attributes:
        source: copied from.
        target: copied to.
    """

    source: ObjectReader
    target: ObjectWriter

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object, and read the copy."""
        sent = hashlib.sha256()
        with self.source.open_read(key) as opened:
            check_source(key, opened.info.size, opened.info.etag, size, etag)
            written = self.target.put_stream(key, _hashing(opened, sent), if_absent)
        read = hashlib.sha256()
        with self.target.open_read(key) as copied:
            for _ in _hashing(copied, read):
                pass
        if opened.info.size != written.size or sent.digest() != read.digest():
            raise FormatError(f"{key!r} was not copied to {self.target.uri} as it is in {self.source.uri}")
        return written


def _hashing(chunks: Iterable[bytes], into: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        into.update(chunk)
        yield chunk
