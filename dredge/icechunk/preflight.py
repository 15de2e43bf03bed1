"""The preflight of an Icechunk repository: checks before its first collection."""

import time
from collections.abc import Iterator, Sequence

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.run import StateStore
from dredge.icechunk.maintenance import RUNS, STATE, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.clock import Clock, utc_now
from dredge.runs.preflight import Check, Line, Preflight, alarms_line, ok, perform
from dredge.storage import StorageOptions, open_reader
from dredge.undo import preflight as undo
from dredge.undo.alarms import open_alarms
from dredge.xid import new_descending_xid

_SAMPLE_ROWS = 20_000


def check(config: CollectConfig, options: StorageOptions | None = None, clock: Clock = utc_now) -> Preflight:
    """Check the requirements of a collection with test objects, and remove these objects."""
    return perform(config.uri, _groups(config, options, clock))


def _groups(config: CollectConfig, options: StorageOptions | None, clock: Clock) -> Iterator[Sequence[Check]]:
    met: list[int] = []

    def ask() -> Iterator[Line]:
        met.append(spec_version(open_reader(config.uri, options)))
        yield ok("repository", f"an Icechunk repository of spec {met[0]}")

    yield [Check("repository", ask)]
    if not met:
        return
    base, name = config.uri.rstrip("/"), new_descending_xid(clock())
    run_uri = f"{(config.run_root or f'{base}/{RUNS}').rstrip('/')}/{name}"
    # A collection deletes chunks above all; the test object's name is not that of a chunk.
    folders = {"data": f"{base}/chunks", "state": f"{base}/{STATE}"}
    yield [
        *undo.check_folders(folders, name, config.safety.clock_skew_seconds_max, clock, options),
        Check("store_elsewhere", lambda: undo.check_reach(base, options)),
        Check("lifecycle", lambda: undo.check_lifecycle(folders, options)),
        Check("undo", lambda: undo.check_undo(config.undo, base, run_uri, options)),
        Check("object_lock", lambda: undo.check_lock(base, options)),
        Check("alarms", lambda: _alarms(config, options)),
        Check("state", lambda: _state(config, met[0], options)),
        Check("estimate", lambda: _estimate(base, options)),
    ]


def _alarms(config: CollectConfig, options: StorageOptions | None) -> Iterator[Line]:
    todo = f"Restore the missing objects, then `dredge icechunk acknowledge {config.uri} --reason …`."
    yield alarms_line(len(open_alarms(open_state(config.uri, options))), todo)


def _state(config: CollectConfig, version: int, options: StorageOptions | None) -> Iterator[Line]:
    current = StateStore(open_state(config.uri, options), options).current(config.uri, version)
    if current.problem:
        yield Line(
            "state",
            "warning",
            f"the state of earlier runs cannot be used: {current.problem}",
            "Restore the state, or do nothing: the next run then reads all files.",
        )
    else:
        yield ok(
            "state", "there is none yet" if current.state is None else f"left by run {current.state.run_id}"
        )


def _estimate(base: str, options: StorageOptions | None) -> Iterator[Line]:
    rows, whole, started = 0, True, time.monotonic()
    for batch in open_reader(base, options).list("chunks/"):
        rows += batch.num_rows
        if rows >= _SAMPLE_ROWS:
            whole = False
            break
    yield undo.estimate_line("chunks", rows, time.monotonic() - started, whole)
