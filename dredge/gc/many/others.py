"""Whether another collector works on a repository, seen from what collectors leave in its namespace.

    _lakefs/retention/gc/unified/<run>/           a run; ours have a plan.json, those of lakeFS's own collector none
    _lakefs/retention/gc/uncommitted/<run>/       staging, prepared for some collector
    _lakefs/retention/gc/commits/run_id=<run>/    active commits, prepared for some collector
    _lakefs/retention/gc/dredge/lease.json        the right to work here, which every run of ours takes first

lakeFS prepares for whoever asks, so the last two do not say for whom. But ours ask only while they have the lease: what
is newer than its last use was made for somebody else, whose run has ended since or goes on.

Source: docs/lakefs-behaviour.md, "What a collector reads"; `pkg/graveler/retention/garbage_collection_manager.go`
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dredge.errors import FormatError
from dredge.gc.plan import PLAN, RUNS, STATE
from dredge.lakefs.files.prepared import COMMITS, UNCOMMITTED
from dredge.runs.lease import LEASE, used_until
from dredge.storage import ObjectReader
from dredge.xid import descending_time

_LOOK_BACK = 20
_CLOCKS = timedelta(minutes=5)
"""By so much the clocks of servers, which name the runs, and the store's may differ unnoticed (`Safety`)."""


def other_collector(reader: ObjectReader) -> str:
    """Tell why a repository seems to be another collector's; "" when it does not.

    Args:
        reader: on the storage namespace.

    Raises:
        FormatError: the lease is damaged.
    """
    ours = used_until(reader, f"{STATE}/{LEASE}")
    for run_id, when in _of_others(reader):
        if ours is None or when > ours + _CLOCKS:
            before = "never worked on it" if ours is None else f"last worked on it {ours:%Y-%m-%d %H:%M} UTC"
            return (
                f"another collector works on it: its run {run_id} left files at {when:%Y-%m-%d %H:%M} UTC, and this"
                f" collector {before}. When the other one is stopped, run `lakefs_gc` on it once"
            )
    return ""


def _of_others(reader: ObjectReader) -> Iterator[tuple[str, datetime]]:
    """Runs that need not be ours, with the time of what they left; the newest ones of each kind."""
    for folder, run_id, began in _newest(reader, f"{RUNS}/"):
        objects = reader.list_level(folder).objects
        if f"{folder}{PLAN}" not in {info.key for info in objects}:
            # A run writes its files when it ends, and is named by when it began.
            yield run_id, max([began, *(info.last_modified for info in objects)])
    for place in (UNCOMMITTED, COMMITS):
        yield from ((run_id, began) for _, run_id, began in _newest(reader, f"{place}/"))


def _newest(reader: ObjectReader, place: str) -> list[tuple[str, str, datetime]]:
    """Folder, id and time of the newest runs below a place. Ids of newer runs sort first."""
    found = []
    for folder in sorted(reader.list_level(place).folders):
        run_id = folder.rstrip("/").rpartition("/")[2].removeprefix("run_id=")
        try:
            found.append((folder, run_id, descending_time(run_id)))
        except FormatError:
            continue
        if len(found) == _LOOK_BACK:
            break
    return found
