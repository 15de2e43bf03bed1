"""The preflight of the trash cleaner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from dredge.errors import RefusedError
from dredge.kv.rows import RowReader
from dredge.runs.clock import Clock, utc_now
from dredge.runs.preflight import Check, Line, Preflight, alarms_line, ok, perform
from dredge.storage import StorageOptions, open_writer
from dredge.trash.look import check_schema
from dredge.trash.settings import TrashConfig
from dredge.trash.state import TrashState
from dredge.undo.alarms import open_alarms
from dredge.undo.preflight import check_folders
from dredge.xid import new_descending_xid

type OpenStore = Callable[[], AbstractContextManager[RowReader]]


def check(
    config: TrashConfig, store: OpenStore, options: StorageOptions | None = None, clock: Clock = utc_now
) -> Preflight:
    """Check the requirements of a scan and a clean. Writes nothing to lakeFS's database, so the right to delete rows is
    not checked.
    """
    return perform(config.state_uri, _groups(config, store, options, clock))


def _groups(
    config: TrashConfig, store: OpenStore, options: StorageOptions | None, clock: Clock
) -> Iterator[Sequence[Check]]:
    folder = {"state": config.state_uri.rstrip("/")}
    skew = config.margins.clock_skew.total_seconds()
    state = TrashState(open_writer(config.state_uri, options))
    yield [
        Check("kv", lambda: _store(config, store, state, clock)),
        *check_folders(folder, new_descending_xid(clock()), skew, clock, options),
        Check("alarms", lambda: _alarms(state)),
    ]


def _store(config: TrashConfig, store: OpenStore, state: TrashState, clock: Clock) -> Iterator[Line]:
    with store() as found:
        yield ok("kv", f"{found.location} answers")
        with found.view() as view:
            check_schema(view, list(islice(view.partitions(), 1)))
        yield ok("kv_schema", "its schema version is supported")
        told, now = found.clock(), clock()
        if told is not None and abs(told - now) > config.margins.clock_skew:
            yield Line(
                "kv_clock",
                "error",
                f"its clock differs by {abs((told - now).total_seconds()):.0f} s",
                "Set the clocks right (NTP).",
                RefusedError.kind,
            )
        else:
            yield ok("kv_clock", "it has none" if told is None else "it agrees with this machine's")
        yield _state_line(found, state)


def _state_line(store: RowReader, state: TrashState) -> Line:
    is_about, is_same = state.belongs(store)
    if not is_about:
        return Line(
            "state",
            "error",
            f"{state.writer.uri} belongs to another store, or this store was set up again",
            "Use a separate folder for each store.",
            RefusedError.kind,
        )
    if not is_same:
        return Line(
            "state",
            "warning",
            "the database was restored or failed over since the last look: all waits begin again",
            "Check its repositories for lost commits: `dredge gc check`.",
        )
    return ok("state", "the folder belongs to this store, or is new")


def _alarms(state: TrashState) -> Iterator[Line]:
    todo = f"Find the cause, then `dredge trash acknowledge {state.writer.uri} --reason …`."
    yield alarms_line(len(open_alarms(state.writer)), todo)
