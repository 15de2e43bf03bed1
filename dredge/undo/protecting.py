"""Protection of a group of keys in the sweep, right before their deletion.

    quarantine   each object is copied below the run's folder and the copy is compared; an object without a copy, or
                 with another content than listed, stays
    versions     the bucket's versioning is checked once more; without versioning the sweep stops

A missing object with a copy was deleted by an earlier try, killed before its ledger row. Copies are made again and
never trusted: an object is deleted only after the store's answer to this task's own copy.
"""

from functools import partial

import pyarrow as pa

from dredge.errors import ConfigError, DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.runs import ledger
from dredge.runs.sweep import Protect, Protected
from dredge.storage import NOT_SENT, open_copier, open_reader, open_versions
from dredge.storage.model import MaySend
from dredge.storage.parallel import ordered_map
from dredge.storage.schemes import DRIVERS
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri

NOT_COPIED = "not_copied"
NOT_RESTORABLE = "not_restorable"
# Longest group of keys to copy before their deletion; a killed task copies one group again.
GROUP_KEYS = 1000
_COPIES_AT_ONCE = 16
# Drivers of stores with support for copying to a key that ends with a slash.
_TAKE_SLASH = ("gcs", "azure")
_ARCHIVED = ("InvalidObjectState", "BlobArchived")


def protection(way: str, namespace: str, run_uri: str) -> Protect | None:
    """The protection for each group of keys; None without undo."""
    if way == QUARANTINE:
        return Quarantine(namespace, run_uri).protect
    if way == VERSIONS:
        return partial(_protect_by_versions, namespace, run_uri)
    return None


class Quarantine:
    """Copies objects of a namespace below a run's folder."""

    def __init__(self, namespace: str, run_uri: str) -> None:
        self._copier = open_copier(namespace, quarantine_uri(run_uri))
        self._copies = open_reader(quarantine_uri(run_uri))
        self._takes_slash = DRIVERS.get(namespace.partition("://")[0].lower()) in _TAKE_SLASH

    def protect(self, group: pa.Table, may_send: MaySend) -> list[Protected]:
        """Copy each object of a group; see `dredge.runs.sweep.Protect`."""
        columns = (group[name].to_pylist() for name in ("address", "size", "etag"))
        rows: list[tuple[str, int, str | None]] = list(zip(*columns, strict=True))
        return list(ordered_map(lambda row: self._copy(*row, may_send), rows, _COPIES_AT_ONCE))

    def _copy(self, address: str, size: int, etag: str | None, may_send: MaySend) -> Protected:
        if not may_send():
            return Protected(ledger.FAILED, NOT_SENT)
        if address.endswith("/") and not self._takes_slash:
            # MinIO accepts the copy, but refuses the multipart upload of a restore; S3 stores look the same.
            return Protected(
                ledger.KEPT, NOT_RESTORABLE, "a key with a slash at its end cannot be restored in every store"
            )
        try:
            self._copier.copy(address, size=size, etag=etag)
        except NotFoundError:
            return self._gone(address, size)
        except DredgeError as error:
            return _not_copied(error)
        return Protected()

    def _gone(self, address: str, size: int) -> Protected:
        try:
            copied = self._copies.stat(address)
        except NotFoundError:
            return Protected(ledger.MISSING)
        if copied.size != size:
            return Protected(ledger.MISSING)
        return Protected(ledger.DELETED, None, "deleted by an earlier try, which made the copy")


def words_of_not_copied(objects: int) -> str:
    """The line of a report for objects kept with code `NOT_COPIED`."""
    return (
        f"{objects:,} objects stay because they could not be copied to the quarantine (undo is quarantine); the"
        " ledger has the reasons"
    )


def is_archived(error: DredgeError) -> bool:
    """Whether a store refuses to read an object because it is archived."""
    return any(code in str(error) for code in _ARCHIVED)


def _not_copied(error: DredgeError) -> Protected:
    """A permanent error keeps the object until the next run; a temporary error, or an error for a person to correct, is
    retried."""
    text = str(error)
    if isinstance(error, UnavailableError) or (isinstance(error, ConfigError) and not is_archived(error)):
        return Protected(ledger.FAILED, "AccessDenied" if "AccessDenied" in text else NOT_COPIED, text)
    return Protected(ledger.KEPT, NOT_COPIED, text)


def _protect_by_versions(
    namespace: str, run_uri: str, group: pa.Table, _may_send: MaySend
) -> list[Protected]:
    found = open_versions(namespace).versioning(run_uri)
    if found != "enabled":
        raise RefusedError(
            f"the undo way of the plan is the bucket's versions, but its versioning is now {found}. No further object"
            " was deleted. Turn it on and run the step again, or start a new run."
        )
    return [Protected()] * group.num_rows
