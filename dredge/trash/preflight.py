"""The preflight of the trash cleaner: what it will need, asked before the first look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

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
    """Ask for everything that a look and a cleaning will need. Leaves nothing behind; nothing is written to lakeFS's
    database, so the right to delete rows is not tried.

    Args:
        config: of the runs to come.
        store: opens the key-value store to look at it.
        options: how the store of the state folder is reached; None reads the environment.
        clock: this machine's.
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
            check_schema(view, _first(view.partitions()))
        yield ok("kv_schema", "its layout is one that the rules were made for")
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
            yield ok("kv_clock", "none of its own" if told is None else "it agrees with this machine's")
        yield _state_line(found, state)


def _state_line(store: RowReader, state: TrashState) -> Line:
    is_about, is_same = state.belongs(store)
    if not is_about:
        return Line(
            "state",
            "error",
            f"{state.writer.uri} is about another store, or this one was set up anew",
            "Use a folder of its own for each store.",
            RefusedError.kind,
        )
    if not is_same:
        return Line(
            "state",
            "warning",
            "the database was put back or failed over since the last look: everything waits anew",
            "See whether lakeFS lost commits with it: `dredge gc check` of its repositories.",
        )
    return ok("state", "the folder is about this store, or new")


def _alarms(state: TrashState) -> Iterator[Line]:
    todo = f"Find out why, then `dredge trash acknowledge {state.writer.uri} --reason …`."
    yield alarms_line(len(open_alarms(state.writer)), todo)


def _first(partitions: Iterator[bytes]) -> list[bytes]:
    found = next(partitions, None)
    return [] if found is None else [found]
