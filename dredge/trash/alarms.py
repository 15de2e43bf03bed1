"""Removed rows with a new reference in a record: they are restored, and an alarm is written.

A slow operation of the server may reference rows that were unreferenced for the whole grace. So every look compares
its references with all removals of the last 90 days, and verifies a crashed run. An open alarm stops all removals
until a person acknowledges it. Alarms are in the state folder, in the format of collections (`dredge.undo.alarms`); an
address is the name of a partition, or the token of a queue marker.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime

import pyarrow as pa

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.hashing import hash64
from dredge.kv.rows import Row, RowCleaner, RowReader, show
from dredge.storage import ObjectWriter, store_clock
from dredge.trash.apply import Applier, NamedAgainError
from dredge.trash.findings import TrashFinding
from dredge.trash.look import Look
from dredge.trash.names import parse_instance
from dredge.trash.state import STORE, TrashState
from dredge.trash.undo import put_back
from dredge.trash.waiting import forget
from dredge.undo.alarms import NOT_YET, SCHEMA, write_alarm
from dredge.xid import new_descending_xid

RESTORED, GONE = "restored", "gone"

log = logging.getLogger("dredge")


@contextmanager
def alarmed(state: ObjectWriter, run_id: str, named: Mapping[bytes, str]) -> Iterator[set[bytes]]:
    """Write an alarm before a restore, and again with the outcomes after it.

    Yields:
        A set for names whose rows are lost.
    """
    at = store_clock(state, "")
    alarm_id = new_descending_xid(at)
    names = sorted(named)
    lost: set[bytes] = set()

    def write(outcomes: list[str]) -> None:
        addresses = pa.array([show(name) for name in names], pa.string())
        columns = (
            addresses,
            pa.array(hash64(addresses)),
            [named[name] for name in names],
            outcomes,
            [""] * len(names),
        )
        write_alarm(state, alarm_id, run_id, at, pa.table(columns, schema=SCHEMA))

    write([NOT_YET] * len(names))
    yield lost
    write([GONE if name in lost else RESTORED for name in names])


def alarm_of(
    state: TrashState, store: RowReader, run_id: str, removed_by: str
) -> Callable[[Iterable[bytes]], AbstractContextManager[set[bytes]]]:
    """The context manager for a restore by an `Applier`."""

    @contextmanager
    def of(named: Iterable[bytes]) -> Iterator[set[bytes]]:
        names = list(named)
        with suppress(DredgeError):  # the restore matters more than the pending list
            forget(state, store, [(name, None) for name in names], run_id)
        with alarmed(state.writer, run_id, dict.fromkeys(names, removed_by)) as lost:
            yield lost

    return of


def check_folder(state: ObjectWriter) -> None:
    """Refuse any other folder than the state folder of a cleaner."""
    if not any(item.key == STORE for item in state.list_level("").objects):
        raise ConfigError(f"{state.uri} is not a state folder of the cleaner: it has no {STORE}")


def named_after_removal(state: TrashState, look: Look) -> dict[bytes, str]:
    """Removed names with a reference in a record now, each with the run that removed it."""
    named = set(look.references.partitions) | set(look.references.tokens)
    return {name: run for name, run in state.removed().items() if name in named}


def named_finding(partition: bytes, run_id: str) -> TrashFinding:
    """The finding for a name of `named_after_removal`."""
    why = f"removed by run {run_id}, and a record references it now: the next clean restores it"
    return TrashFinding(partition, None, "named-after-removal", "report", why)


def restore_named(store: RowCleaner, state: TrashState, look: Look, run_id: str) -> None:
    """Restore the rows of `named_after_removal`. Raises NamedAgainError: rows were missing."""
    named = named_after_removal(state, look)
    if not named:
        return
    taken = {name: runs for name, runs in state.removed_by().items() if name in named}

    def kept_rows() -> Iterator[Row]:
        # Ids of runs descend, so the rows of the newest run come first and win.
        for run in sorted({run for runs in taken.values() for run in runs}):
            yield from (row for row in state.undo(run).read() if run in taken.get(row.partition, ()))

    names = ", ".join(sorted(show(name) for name in named))
    kept = {row.partition for row in kept_rows()}
    if kept == named.keys() and not _that_lost_rows(store, kept_rows()):
        # A restore wrote them all, and crashed before it could forget them.
        log.warning("trash: %s: removed by an earlier run, referenced now, and no row is missing", names)
        state.forget_removed(named)
        return
    with alarmed(state.writer, run_id, named) as lost:
        lost |= named.keys() - kept
        written = put_back(store, kept_rows())[0]
    state.forget_removed(named)
    raise NamedAgainError(
        f"{names}: an earlier run removed it as trash ({', '.join(sorted(set(named.values())))}), and a record"
        f" references it now. {written} rows were restored, nothing else was changed."
        + (f" {len(lost):,} of these could not be restored: no undo file has them." if lost else "")
        + " Either an operation of the server took longer than the grace (lengthen the grace), or the database was"
        " restored from a backup."
    )


def verify_open_run(store: RowCleaner, state: TrashState, now: datetime, verifier: str) -> None:
    """Verify a crashed run: restore its removals with a reference, and remember the others. Raises NamedAgainError: a
    removed name is referenced; its rows were restored."""
    run_id = state.open_run()
    if run_id is None:
        return
    log.warning("trash: run %s crashed while removing; verifying its removals", run_id)
    with store.view() as view:
        unrecorded = [name for name in view.partitions() if parse_instance(name)]
    try:
        # Its undo files also have rows of partitions that only lost single keys.
        keyed = {finding.partition for finding in state.plan(run_id).findings if finding.key is not None}
    except NotFoundError:
        keyed = set()
    alarm = alarm_of(state, store, verifier, run_id)
    applier = Applier(store, state.undo(run_id), state.check_right, unrecorded, alarm=alarm)
    named: NamedAgainError | None = None
    try:
        applier.verify_removed(keyed)
    except NamedAgainError as error:
        named = error  # raised below: others may be referenced later, so they are remembered first
    gone = {*applier.removed_partitions}
    lost = _that_lost_rows(store, state.undo(run_id).read(lambda row: row.partition in gone))
    state.note_removed(lost, run_id, now, forget=False)  # older removals are not yet compared
    state.set_open_run(None)
    if named is not None:
        raise named


def _that_lost_rows(store: RowCleaner, rows: Iterable[Row]) -> set[bytes]:
    """The partitions of rows with at least one row missing."""
    lost: set[bytes] = set()
    with store.view() as view:
        for row in rows:
            if row.partition in lost:
                continue
            found = next(iter(view.scan(row.partition, row.key)), None)
            if found is None or found.key != row.key:
                lost.add(row.partition)
    return lost
