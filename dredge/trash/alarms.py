"""Alarms of the cleaner: something that it removed is named by a record.

Until a person acknowledges an alarm, nothing is removed. Alarms are kept in the state folder, as those of collections
(`dredge.undo.alarms`); an address is the name of a partition, or the token of a queue marker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime

import pyarrow as pa

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.hashing import hash64
from dredge.kv.rows import Row, RowCleaner, RowReader, show
from dredge.runs.consents import check_reason, record_consent
from dredge.storage import ObjectWriter, store_clock
from dredge.trash.apply import Applier, NamedAgainError
from dredge.trash.findings import TrashFinding
from dredge.trash.look import Look
from dredge.trash.names import parse_instance
from dredge.trash.state import STORE, TrashState
from dredge.trash.undo import put_back
from dredge.trash.waiting import forget
from dredge.undo.alarms import (
    NOT_YET,
    SCHEMA,
    Acknowledged,
    Alarm,
    acknowledge,
    alarm_error,
    open_alarms,
    write_alarm,
)
from dredge.xid import new_descending_xid

ACKNOWLEDGE = "acknowledge"
RESTORED, GONE = "restored", "gone"


@contextmanager
def alarmed(state: ObjectWriter, run_id: str, named: Mapping[bytes, str]) -> Iterator[set[bytes]]:
    """Write an alarm before something is put back, and again with what became of it.

    Args:
        state: on the state folder.
        run_id: the run that found it.
        named: what records name, with the run that removed it.

    Yields:
        A set for what no row is kept of.
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
    """Give what an `Applier` calls before it puts something back.

    Args:
        state: of the cleaner.
        store: what is cleaned.
        run_id: the run that looks.
        removed_by: the run that removed it.
    """

    @contextmanager
    def of(named: Iterable[bytes]) -> Iterator[set[bytes]]:
        names = list(named)
        with suppress(DredgeError):  # whatever becomes of the list, the rows come back
            forget(state, store, [(name, None) for name in names], run_id)
        with alarmed(state.writer, run_id, dict.fromkeys(names, removed_by)) as lost:
            yield lost

    return of


def refuse_alarmed(state: ObjectWriter, run_id: str) -> None:
    """Refuse to remove anything while an alarm is open.

    Raises:
        AlarmError: an alarm is open.
        FormatError: an alarm cannot be read.
    """
    if found := open_alarms(state):
        raise alarm_error(f"run {run_id} removes nothing", found, f"dredge trash acknowledge {state.uri}")


def acknowledge_alarms(state: ObjectWriter, reason: str, who: str | None = None) -> list[Alarm]:
    """End the open alarms of a state folder.

    Args:
        state: on the folder.
        reason: why removing may go on; kept with the state.
        who: None is the login name of this process.

    Returns:
        The alarms that were open.

    Raises:
        ConfigError: there is no reason.
        FormatError: an alarm cannot be read.
    """
    reason, found = check_reason(reason), open_alarms(state)
    if not found:
        return found
    said = record_consent(
        state, ACKNOWLEDGE, state.uri, reason, {"alarms": [alarm.alarm_id for alarm in found]}, who
    )
    return acknowledge(state, Acknowledged(who=said.who, at=said.at, why=said.why))


def check_folder(state: ObjectWriter) -> None:
    """Check that a folder is the state of a cleaner.

    Raises:
        ConfigError: no run has worked there.
    """
    if not any(item.key == STORE for item in state.list_level("").objects):
        raise ConfigError(f"{state.uri} is no state folder of the cleaner: it has no {STORE}")


log = logging.getLogger("dredge")


def named_after_removal(state: TrashState, look: Look) -> dict[bytes, str]:
    """Partitions removed by earlier runs that a record names by now, with the run that removed each."""
    named = set(look.references.partitions) | set(look.references.tokens)
    return {name: run for name, run in state.removed().items() if name in named}


def named_again(partition: bytes, run_id: str) -> TrashFinding:
    """Report a partition that `named_after_removal` found."""
    why = (
        f"removed by run {run_id} and now named by a record: the next clean puts it back, or restore that run"
    )
    return TrashFinding(partition, None, "named-after-removal", "report", why)


def put_back_named(store: RowCleaner, state: TrashState, look: Look, run_id: str) -> None:
    """Undo what earlier runs removed and a record names by now: an operation took longer than the grace
    period.

    Raises:
        NamedAgainError: something of it was missing.
    """
    named = named_after_removal(state, look)
    if not named:
        return
    taken = {name: runs for name, runs in state.removed_by().items() if name in named}

    def kept_rows() -> Iterator[Row]:
        # Ids of runs descend: the newest comes first, its rows count.
        for run in sorted({run for runs in taken.values() for run in runs}):
            yield from (row for row in state.undo(run).read() if run in taken.get(row.partition, ()))

    names = ", ".join(sorted(show(name) for name in named))
    kept = {row.partition for row in kept_rows()}
    if kept == named.keys() and not _that_lost_rows(store, kept_rows()):
        # Whoever put them back has said so, and ended before they were forgotten.
        log.warning("trash: %s: removed by an earlier run, named by a record again, and whole", names)
        state.forget_removed(named)
        return
    with alarmed(state.writer, run_id, named) as lost:
        lost |= named.keys() - kept
        written = put_back(store, kept_rows())[0]
    state.forget_removed(named)
    raise NamedAgainError(
        f"{names}: removed as trash by an earlier run ({', '.join(sorted(set(named.values())))}), and now named"
        f" by a record. {written} rows were put back. Nothing else was touched."
        + (f" Of {len(lost):,} of them no row is kept." if lost else "")
        + " An operation of the server took longer than the grace period (lengthen it), or the database was put back."
    )


def verify_open_run(store: RowCleaner, state: TrashState, now: datetime, verifier: str) -> None:
    """Look after a run that ended while it was removing: is anything named that it took? What it took is
    remembered from then on.

    Args:
        store: what is cleaned.
        state: of the cleaner.
        now: aware UTC.
        verifier: the run that looks.

    Raises:
        NamedAgainError: something is named; it was put back.
    """
    run_id = state.open_run()
    if run_id is None:
        return
    log.warning("trash: run %s ended while it was removing; verifying what it removed", run_id)
    with store.view() as view:
        unrecorded = [name for name in view.partitions() if parse_instance(name)]
    try:
        # Its undo files name rows that it was about to delete, also of partitions that stay and lost single keys.
        keyed = {finding.partition for finding in state.plan(run_id).findings if finding.key is not None}
    except NotFoundError:
        keyed = set()
    alarm = alarm_of(state, store, verifier, run_id)
    applier = Applier(store, state.undo(run_id), state.check_right, unrecorded, alarm=alarm)
    named: NamedAgainError | None = None
    try:
        applier.verify_removed(keyed)
    except NamedAgainError as error:
        named = error  # it is put back; the rest may be named only now
    gone = {*applier.removed_partitions}
    lost = _that_lost_rows(store, state.undo(run_id).read(lambda row: row.partition in gone))
    state.note_removed(lost, run_id, now, forget=False)  # nobody has looked at the others yet
    state.set_open_run(None)
    if named is not None:
        raise named


def _that_lost_rows(store: RowCleaner, rows: Iterable[Row]) -> set[bytes]:
    """Give the partitions of some rows that lack one of them."""
    lost: set[bytes] = set()
    with store.view() as view:
        for row in rows:
            if row.partition in lost:
                continue
            found = next(iter(view.scan(row.partition, row.key)), None)
            if found is None or found.key != row.key:
                lost.add(row.partition)
    return lost
