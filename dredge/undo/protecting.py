"""What the sweep does with a group of keys before they are deleted, so that the deletion can be taken back.

    quarantine   each object is copied below the run's folder and the copy is looked at; what was not copied, or is not
                 what was listed, stays
    versions     the bucket is asked once more whether it keeps versions; if not, the sweep stops

An object that is gone already while its copy is there was deleted by a try that was killed before it could write that
down. Copies are made again, never trusted: only the store's answer to this task's own copy lets an object go.
"""

from __future__ import annotations

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
GROUP_KEYS = 1000
"""Longest group of keys that is copied before it is deleted; a task that is killed copies so many again."""
_COPIES_AT_ONCE = 16
_TAKE_SLASH = ("gcs", "azure")
"""Drivers of stores that put back a key which ends with a slash."""
_ARCHIVED = ("InvalidObjectState", "BlobArchived")


def protection(way: str, namespace: str, run_uri: str) -> Protect | None:
    """Make what a task does before each group is deleted; None when nothing is to be done.

    Args:
        way: of the run's plan.
        namespace: URI of what is collected.
        run_uri: URI of the run folder.
    """
    if way == QUARANTINE:
        return Quarantine(namespace, run_uri).protect
    if way == VERSIONS:
        return partial(_protect_by_versions, namespace, run_uri)
    return None


class Quarantine:
    """Copies objects below a run's folder.

    Args:
        namespace: URI of what is collected.
        run_uri: URI of the run folder.
    """

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
            # MinIO takes the copy and refuses the upload in parts that would put it back, and S3 stores look alike.
            return Protected(
                ledger.KEPT, NOT_RESTORABLE, "a key that ends with a slash cannot be put back everywhere"
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
    """What a report says of objects that stay because of `NOT_COPIED`."""
    return (
        f"{objects:,} objects stay because they could not be copied, so their deletion could not have been taken"
        " back (undo is quarantine); the ledger says why"
    )


def is_archived(error: DredgeError) -> bool:
    """Whether a store says that it cannot give an object because that is archived."""
    return any(code in str(error) for code in _ARCHIVED)


def _not_copied(error: DredgeError) -> Protected:
    """What lasts keeps the object until the next run; what may pass, or a person must mend, is tried again."""
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
            f"the plan counts on the versions of the bucket to take deletions back; its versioning is {found} by now."
            " Nothing more was deleted. Turn it on and run the step again, or start a new run."
        )
    return [Protected()] * group.num_rows
