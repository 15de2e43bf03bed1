"""Alarms of the cleaner: something that it removed is named by a record.

Until a person acknowledges an alarm, nothing is removed. Alarms are kept in the state folder, as those of collections
(`dredge.undo.alarms`); an address is the name of a partition, or the token of a queue marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

import pyarrow as pa

from dredge.errors import ConfigError, DredgeError
from dredge.hashing import hash64
from dredge.kv.rows import RowReader, show
from dredge.runs.consents import check_reason, record_consent
from dredge.storage import ObjectWriter, store_clock
from dredge.trash.state import STORE, TrashState
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
