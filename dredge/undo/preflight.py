"""Preflight lines about an object store: rights, abilities, the clock, and the undo way."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from dredge.runs.clock import Clock, check_clocks
from dredge.runs.preflight import Check, Line, line_of, ok
from dredge.storage import StorageOptions, open_versions
from dredge.storage.probe import CONDITIONS, DELETE, LIST, ORDER, READ, WRITE, Probed, probe, reaches
from dredge.undo.ways import OFF, choose_way

LIST_PRICE = 0.005 / 1000
"""US dollars for a listing request, by S3's list price."""
_PAGE = 1000
_MANY = 1_000_000

_RIGHTS: Mapping[str, tuple[str, str]] = {
    WRITE: ("s3:PutObject, storage.objects.create", "write"),
    LIST: ("s3:ListBucket, storage.objects.list", "list"),
    READ: ("s3:GetObject, storage.objects.get", "read"),
    DELETE: ("s3:DeleteObject, storage.objects.delete", "delete"),
}
_CONDITIONS_REMEDY = (
    "Use a version of the store with conditional writes: without them two runs can work at the same time."
)


def check_folders(
    folders: Mapping[str, str],
    name: str,
    skew_seconds_max: float,
    clock: Clock,
    options: StorageOptions | None,
) -> list[Check]:
    """The checks of the folders of a run."""
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
            "Turn on versioning of the bucket, or set undo to quarantine; otherwise deletions are permanent.",
        )
    else:
        yield ok("undo", f"{way.way}: {way.why}")


def check_lifecycle(folders: Mapping[str, str], options: StorageOptions | None) -> Iterator[Line]:
    """Whether a lifecycle rule of the bucket removes objects that are in use."""
    for what, uri in folders.items():
        expiry = open_versions(uri, options).expiry("")
        if expiry is None:
            continue
        if not expiry.known:
            yield Line(
                "lifecycle",
                "warning",
                "the credentials may not read the bucket's lifecycle rules",
                "Grant s3:GetLifecycleConfiguration on the bucket.",
            )
        elif expiry.current_days is None:
            yield ok("lifecycle", f"no rule of the bucket removes objects below {uri} ({what})")
        else:
            yield Line(
                "lifecycle",
                "warning",
                f"a rule of the bucket removes objects below {uri} ({what}) at an age of {expiry.current_days} days,"
                " also those in use",
                f"Limit the rule to prefixes outside {uri}.",
            )


def check_lock(uri: str, options: StorageOptions | None) -> Iterator[Line]:
    """Whether the bucket locks old versions (Object Lock)."""
    days = open_versions(uri, options).locked_days()
    if days is None:
        yield ok(
            "object_lock",
            "unknown: the store has no such setting, or the credentials may not read it"
            " (s3:GetBucketObjectLockConfiguration)",
        )
    elif days:
        yield Line(
            "object_lock",
            "warning",
            f"the bucket locks each version for {days:,} days after its creation: until then a purge cannot delete it"
            " and its bytes stay",
            "Set purge_days to at least this number.",
        )
    else:
        yield ok("object_lock", "the bucket has no rule that locks objects")


def estimate_line(what: str, rows: int, seconds: float, is_all: bool) -> Line:
    """Time, requests and cost of a complete listing, estimated from its first pages."""
    about, of, each = f"{rows:,} {what}", rows, ""
    if not is_all:
        about, of, each = f"at least {rows:,} {what}", _MANY, f" for each {_MANY:,}"
    requests, took = -(-of // _PAGE), seconds * of / max(rows, 1)
    return ok(
        "estimate",
        f"{about}; a listing takes {requests:,} requests (${requests * LIST_PRICE:,.4f}) and about {took:,.1f} s{each},"
        " less with more workers; the report of the first run has exact figures",
    )


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
        yield line_of(f"{check}_conditions", found.refused[CONDITIONS], _CONDITIONS_REMEDY)
    elif WRITE not in found.refused:
        yield ok(f"{check}_conditions", "the store supports conditional writes")
    if ORDER in found.refused:
        todo = "Use a store that lists keys in the order of their bytes: else no listing is proved complete."
        yield line_of(f"{check}_order", found.refused[ORDER], todo)
    elif not {WRITE, LIST} & found.refused.keys():
        yield ok(f"{check}_order", "the store lists keys in the order of their bytes")
    if found.has_bulk is not None and DELETE not in found.refused:
        yield _bulk_line(f"{check}_bulk", found.has_bulk)
    if found.now is not None:
        yield _clock_line(check, found, found.now, before, skew_seconds_max)


def _bulk_line(check: str, has_bulk: bool) -> Line:
    if has_bulk:
        return ok(check, "bulk deletes are supported")
    return Line(
        check,
        "warning",
        "the store does not support bulk deletes: each object needs a separate request",
        "Limit the first run to few objects (max_delete_objects), and read the duration in its report.",
    )


def _clock_line(check: str, found: Probed, now: datetime, before: datetime, skew_seconds_max: float) -> Line:
    ahead = (now - before).total_seconds()
    check_clocks(ahead, skew_seconds_max)
    left = f"; {found.left} is still there" if found.left else ""
    return ok(f"{check}_clock", f"the store's clock differs by {abs(ahead):.0f} s{left}")
