"""Preflight lines about an object store: rights, abilities, the clock, and the undo way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from dredge.runs.clock import Clock, check_clocks
from dredge.runs.preflight import Check, Line, line_of, ok
from dredge.storage import StorageOptions
from dredge.storage.probe import CONDITIONS, DELETE, LIST, READ, WRITE, Probed, probe, reaches
from dredge.undo.ways import OFF, choose_way

_RIGHTS: Mapping[str, tuple[str, str]] = {
    WRITE: ("s3:PutObject, storage.objects.create", "write"),
    LIST: ("s3:ListBucket, storage.objects.list", "list"),
    READ: ("s3:GetObject, storage.objects.get", "read"),
    DELETE: ("s3:DeleteObject, storage.objects.delete", "delete"),
}
_CONDITIONS_TODO = (
    "Use a version of the store with conditional writes: without them two runs at once are not excluded."
)


def check_folders(
    folders: Mapping[str, str],
    name: str,
    skew_seconds_max: float,
    clock: Clock,
    options: StorageOptions | None,
) -> list[Check]:
    """The checks of the folders of a run.

    Args:
        folders: URIs, by their content.
        name: unique to this preflight.
        skew_seconds_max: limit of the difference between the store's clock and this machine's.
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
            f"Narrow their rights to {uri.rstrip('/')}/* to limit the effect of mistakes.",
        )
    else:
        yield ok("store_elsewhere", "the credentials list only the namespace, or it is the whole store")


def check_undo(asked: str, uri: str, run_uri: str, options: StorageOptions | None) -> Iterator[Line]:
    """The undo way of a run."""
    way = choose_way(asked, uri, run_uri, options)
    if way.way == OFF:
        yield Line(
            "undo",
            "warning",
            f"off: {way.why}",
            "Turn on versioning of the bucket, or set undo to quarantine; else deletions are permanent.",
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
    if found.now is not None:
        yield _clock_line(check, found, found.now, before, skew_seconds_max)


def _clock_line(check: str, found: Probed, now: datetime, before: datetime, skew_seconds_max: float) -> Line:
    ahead = (now - before).total_seconds()
    check_clocks(ahead, skew_seconds_max)
    left = f"; {found.left} is still there" if found.left else ""
    return ok(f"{check}_clock", f"the store's clock differs by {abs(ahead):.0f} s{left}")
