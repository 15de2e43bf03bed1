"""What makes a deletion undoable: copies inside the store, and the versions that a bucket keeps.

A copier copies from one folder into another under the same key and can do nothing else, so whoever is handed one can
neither choose a key nor delete. Versions are looked at through a reader; who may take them away holds one of two
deleters: of delete markers, which takes no byte from anybody, or of versions that are not the current ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from dredge.errors import RefusedError
from dredge.storage.model import DeleteOutcome, MaySend, ObjectInfo, always

type Versioning = Literal["enabled", "suspended", "off", "unknown"]
"""Whether a bucket keeps what is deleted; unknown when the credentials may not ask."""


class ObjectCopier(Protocol):
    """Copies objects from one folder into another under the same key, on the server where the store can."""

    def copy(self, key: str, if_absent: bool = False) -> ObjectInfo:
        """Copy one object, and look at the copy.

        The copy has the size of the source, and its checksum where the store tells comparable ones, or an error is
        raised. Content type, metadata, encryption and storage class are kept where the store has them.

        Args:
            key: relative to both folders.
            if_absent: only where the target has no such object; where the store has no such condition, a look right
                before the copy stands in.

        Returns:
            What the store says of the copy.

        Raises:
            NotFoundError: the source is not there.
            ConflictError: the target is there already; nothing was written.
            FormatError: the copy is not like the source.
        """


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

    def versioning(self) -> Versioning:
        """Whether the bucket keeps what is deleted."""

    def versions(self, key: str) -> list[ObjectVersion]:
        """Every version and marker of exactly this key, the newest first; of those with the same time versions come
        before markers."""


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

    def versioning(self) -> Versioning:
        """None are kept."""
        return "off"

    def versions(self, key: str) -> list[ObjectVersion]:
        """There are none."""
        return []


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
            marker: as a reader gave it; a version id never changes what it names.

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
            if version_id in ("", "null"):
                raise RefusedError(
                    f"{key!r} was written while the bucket kept no versions, so that its id may name"
                    " something newer. Nothing was deleted."
                )
        return self._deleter.delete(wanted, may_send)
