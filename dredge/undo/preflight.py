"""The lines of a preflight about an object store: rights, abilities, the clock, and the way to take deletions back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from dredge.runs.clock import Clock, check_clocks
from dredge.runs.preflight import Check, Line, line_of, ok
from dredge.storage import StorageOptions
from dredge.storage.probe import CONDITIONS, DELETE, LIST, ORDER, READ, WRITE, Probed, probe, reaches
from dredge.undo.ways import OFF, choose_way

_RIGHTS: Mapping[str, tuple[str, str]] = {
    WRITE: ("s3:PutObject, storage.objects.create", "write"),
    LIST: ("s3:ListBucket, storage.objects.list", "list"),
    READ: ("s3:GetObject, storage.objects.get", "read"),
    DELETE: ("s3:DeleteObject, storage.objects.delete", "delete"),
}
_CONDITIONS_TODO = (
    "Use a version of the store with conditional writes: without them two runs at once are not kept apart."
)


def check_folders(
    folders: Mapping[str, str],
    name: str,
    skew_seconds_max: float,
    clock: Clock,
    options: StorageOptions | None,
) -> list[Check]:
    """Make the checks of the folders in which a run writes and deletes.

    Args:
        folders: URIs, by what they hold.
        name: that no other preflight has.
        skew_seconds_max: largest difference between the store's clock and this machine's.
        clock: this machine's.
        options: None reads the environment.
    """
    return [
        Check(
            f"store_{what}",
            lambda what=what, uri=uri: _of_folder(what, uri, name, skew_seconds_max, clock, options),  # type: ignore[misc]
        )
        for what, uri in folders.items()
    ]


def check_reach(uri: str, options: StorageOptions | None) -> Iterator[Line]:
    """Whether the credentials reach beyond a namespace."""
    if reaches(uri, options):
        yield Line(
            "store_elsewhere",
            "warning",
            "the credentials may also list the rest of the bucket",
            f"Narrow their rights to {uri.rstrip('/')}/*, so that no mistake reaches further.",
        )
    else:
        yield ok(
            "store_elsewhere", "the credentials list nothing beyond the namespace, or it is the whole store"
        )


def check_undo(asked: str, uri: str, run_uri: str, options: StorageOptions | None) -> Iterator[Line]:
    """Which way the deletions of a run could be taken back."""
    way = choose_way(asked, uri, run_uri, options)
    if way.way == OFF:
        yield Line(
            "undo",
            "warning",
            f"off: {way.why}",
            "Turn on versioning of the bucket, or set undo to quarantine; else what is deleted is gone for good.",
        )
    else:
        yield ok("undo", f"{way.way}: {way.why}")


def _of_folder(
    what: str, uri: str, name: str, skew_seconds_max: float, clock: Clock, options: StorageOptions | None
) -> Iterator[Line]:
    before = clock()
    found = probe(uri, name, options)
    check = f"store_{what}"
    for right, (permission, verb) in _RIGHTS.items():
        error = found.refused.get(right)
        if error is not None:
            yield line_of(f"{check}_{right}", error, f"Grant the right to {verb} below {uri} ({permission}).")
        elif right in (WRITE, LIST) or WRITE not in found.refused:
            yield ok(f"{check}_{right}", f"allowed below {uri}")
    if CONDITIONS in found.refused:
        yield line_of(f"{check}_conditions", found.refused[CONDITIONS], _CONDITIONS_TODO)
    elif WRITE not in found.refused:
        yield ok(f"{check}_conditions", "the store heeds conditions of writes")
    if ORDER in found.refused:
        todo = (
            "Use a store that lists keys in the order of their bytes: else nothing proves a listing complete."
        )
        yield line_of(f"{check}_order", found.refused[ORDER], todo)
    elif not {WRITE, LIST} & found.refused.keys():
        yield ok(f"{check}_order", "the store lists keys in the order of their bytes")
    if found.now is not None:
        yield _clock_line(check, found, found.now, before, skew_seconds_max)


def _clock_line(check: str, found: Probed, now: datetime, before: datetime, skew_seconds_max: float) -> Line:
    ahead = (now - before).total_seconds()
    check_clocks(ahead, skew_seconds_max)
    left = f"; {found.left} is still there" if found.left else ""
    return ok(f"{check}_clock", f"the store's clock differs by {abs(ahead):.0f} s{left}")
