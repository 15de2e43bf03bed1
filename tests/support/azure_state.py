"""State of the small Azure Blob Storage of the tests: blobs, their versions, tiers and holds; no HTTP.

Written after the service's documentation: "Blob versioning" (effect of a write and a deletion on the current version,
version ids), Delete Blob (the current version cannot be deleted by its id: OperationNotAllowedOnRootBlob), List Blobs
(versions from the oldest to the newest, by `include=versions` also those of deleted blobs), "Soft delete for blobs"
(deleted versions stay for its days; Undelete Blob).
"""

import itertools
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

_ticks = itertools.count(1)


class Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class Blob:
    name: str
    data: bytes
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    version: str = ""  # its id; "" where the account kept none when it was written
    current: bool = True  # whether it is what the name means
    tier: str = ""
    archive_status: str = ""  # of a blob that is being rehydrated
    held: bool = False  # by a legal hold or a policy
    leased: bool = False
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    tag: str = field(default_factory=lambda: f"0x8DE{next(_ticks):012X}")

    @property
    def modified(self) -> str:
        return format_datetime(self.at, usegmt=True)


@dataclass
class Container:
    versioned: bool = False  # whether the account keeps versions; may change
    soft_delete_days: int = 0  # for which versions stay that were deleted
    blobs: dict[str, list[Blob]] = field(default_factory=dict)  # by name, the oldest state first
    deleted: list[Blob] = field(default_factory=list)  # versions that soft delete keeps
    blocks: dict[str, dict[str, bytes]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _last: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))

    def get(self, name: str, version: str = "") -> Blob:
        for blob in self.blobs.get(name, []):
            if blob.version == version if version else blob.current:
                return blob
        raise Refused(404, "BlobNotFound")

    def find(self, name: str) -> Blob | None:
        return next((blob for blob in self.blobs.get(name, []) if blob.current), None)

    def check(self, name: str, if_match: str, if_none_match: str) -> None:
        found = self.find(name)
        if if_none_match == "*" and found is not None:
            raise Refused(409, "BlobAlreadyExists")
        if if_match and (found is None or found.tag != if_match.strip('"')):
            raise Refused(412, "ConditionNotMet")

    def write(self, blob: Blob) -> Blob:
        """Make a state the current one; the earlier one becomes a version, or is deleted."""
        with self.lock:
            found = self.find(blob.name)
            if found is not None and (found.held or found.leased):
                raise Refused(409, "BlobImmutableDueToPolicy" if found.held else "LeaseIdMissing")
            self._supersede(blob.name)
            if self.versioned:
                blob.version = self._new_id()
            self.blobs.setdefault(blob.name, []).append(blob)
        return blob

    def delete(self, name: str, version: str = "", if_match: str = "") -> None:
        with self.lock:
            found = self.get(name, version)
            if version and found.current:
                raise Refused(403, "OperationNotAllowedOnRootBlob")
            if not version:
                self.check(name, if_match, "")
            if found.held:
                raise Refused(409, "BlobImmutableDueToPolicy")
            if found.leased:
                raise Refused(412, "LeaseIdMissing")
            if version:
                self.blobs[name].remove(found)
                if self.soft_delete_days:
                    self.deleted.append(found)
            else:
                self._supersede(name)

    def listed(self, versions: bool) -> list[Blob]:
        with self.lock:
            found = [blob for blobs in self.blobs.values() for blob in blobs if versions or blob.current]
        return sorted(found, key=lambda blob: (blob.name.encode(), blob.version))

    def _supersede(self, name: str) -> None:
        found = self.find(name)
        if found is None:
            return
        if self.versioned:
            # A state written before versioning was enabled gets the id of its time.
            found.current, found.version = False, found.version or _version_id(found.at)
        else:
            self.blobs[name].remove(found)

    def _new_id(self) -> str:
        self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
        return _version_id(self._last)


def _version_id(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"
