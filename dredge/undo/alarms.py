"""Alarms: a run deleted objects that are live, and no expired commit explains it. Until a person acknowledges an alarm,
no run deletes or purges in the repository.

    <state>/alarms/<run id>-<try>.parquet    rows of the objects: address, hash, run with the deletion, outcome, message
    <state>/alarms/<run id>-<try>.json       the alarm

An alarm is written before its objects are restored, and again with the outcomes: a check killed in between leaves it
open. An acknowledged object raises no second alarm, unless another run deletes it again.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import AlarmError, DredgeError, FormatError, UnavailableError
from dredge.runs.consents import check_reason, record_consent
from dredge.runs.folder import read_json
from dredge.runs.parts import check_digest, parquet_bytes, read_parquet
from dredge.runs.payload import PartInfo, from_file, to_json
from dredge.runs.tries import change_file
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import ordered_map

ALARMS = "alarms"
COMMAND = "dredge gc acknowledge REPOSITORY"
EXAMPLES = 5
SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("deleted_by", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)
# Outcome of an object before the first try to restore it.
NOT_YET = "not_yet"
_AT_ONCE = 16


class Acknowledged(Struct, frozen=True, kw_only=True):
    """A person's acknowledgement of an alarm."""

    who: str
    at: datetime
    why: str


class Alarm(Struct, frozen=True, kw_only=True):
    """Live objects deleted by a run."""

    alarm_id: str  # run and try of the check
    run_id: str  # the run of the check
    at: datetime
    deleted_by: Mapping[str, int]  # number of objects by the run with the deletion
    outcomes: Mapping[str, int]
    examples: Sequence[str]
    rows: PartInfo
    acknowledged: Acknowledged | None = None  # None while it is open

    @property
    def objects(self) -> int:
        """Their number."""
        return self.rows.rows

    @property
    def text(self) -> str:
        """In words: "20 live addresses were deleted by run …, such as …; outcome: restored 20"."""
        runs = ", ".join(f"run {run_id} ({count:,})" for run_id, count in sorted(self.deleted_by.items()))
        became = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        what = f"{self.objects:,} live addresses were deleted by {runs}, such as {self.examples[0]!r}"
        return f"{what}; outcome: {became}"


def write_alarm(state: ObjectWriter, alarm_id: str, run_id: str, at: datetime, rows: pa.Table) -> Alarm:
    """Write an alarm, or replace it with the outcomes of its objects."""
    data = parquet_bytes(rows)
    # The name depends on the bytes: a kill between the two writes leaves the old alarm with its old rows.
    digest = hashlib.sha256(data).hexdigest()
    name = f"{ALARMS}/{alarm_id}-{digest[:8]}.parquet"
    state.put(name, data)
    alarm = Alarm(
        alarm_id=alarm_id,
        run_id=run_id,
        at=at,
        deleted_by=dict(Counter(rows["deleted_by"].to_pylist())),
        outcomes=dict(Counter(rows["outcome"].to_pylist())),
        examples=rows["address"].slice(0, EXAMPLES).to_pylist(),
        rows=PartInfo(name, rows.num_rows, len(data), digest, name),
    )
    state.put(_key(alarm_id), json.dumps(to_json(alarm), sort_keys=True).encode())
    return alarm


def read_alarms(state: ObjectReader) -> list[Alarm]:
    """Read every alarm of a repository, newest first, including acknowledged alarms. Raises FormatError: an unreadable
    alarm, so it counts as open."""

    def read(key: str) -> Alarm:
        try:
            return from_file(Alarm, read_json(state, key))
        except UnavailableError:
            raise
        except DredgeError as error:
            raise FormatError(
                f"the alarm {state.uri}/{key} cannot be read ({error}). Nothing was deleted. Restore the file, or"
                " remove it when the cause of the alarm is known."
            ) from None

    keys = [item.key for item in state.list_level(f"{ALARMS}/").objects if item.key.endswith(".json")]
    return sorted(ordered_map(read, keys, _AT_ONCE), key=lambda alarm: alarm.alarm_id)


def read_rows(state: ObjectReader, alarm: Alarm) -> pa.Table:
    """Read the objects of an alarm; raises FormatError when they differ from the written rows."""
    data = state.get(alarm.rows.key)
    check_digest(alarm.rows, data, f"alarm {alarm.alarm_id}")
    return read_parquet(data)


def open_alarms(state: ObjectReader) -> list[Alarm]:
    """Read the open alarms; raises FormatError like `read_alarms`."""
    return [alarm for alarm in read_alarms(state) if alarm.acknowledged is None]


def refuse_alarmed(state: ObjectReader, what: str, command: str = COMMAND) -> None:
    """Refuse an action, such as "run … deletes nothing", while an alarm is open."""
    if alarms := open_alarms(state):
        raise alarm_error(what, alarms, command)


def alarm_error(what: str, alarms: Sequence[Alarm], command: str = COMMAND) -> AlarmError:
    """The error for open alarms; `what` is the refused action as a sentence without its full stop."""
    return AlarmError(
        f"{what}: {'; '.join(alarm.text for alarm in alarms)}. Nothing is deleted or purged here until a person"
        " acknowledges this. Find out why those runs took live objects for garbage (another server or an older"
        f" database, see docs/restore.md), then run `{command} --reason`."
    )


def acknowledge_alarms(state: ObjectWriter, subject: str, why: str, who: str | None = None) -> list[Alarm]:
    """End the open alarms of a repository or state folder, and return them. The statement is kept with the state."""
    reason, found = check_reason(why), open_alarms(state)
    if not found:
        return []
    what = {"alarms": [alarm.alarm_id for alarm in found]}
    said = record_consent(state, "acknowledge", subject, reason, what, who)
    ended = Acknowledged(who=said.who, at=said.at, why=said.why)
    for alarm in found:
        change_file(
            state,
            _key(alarm.alarm_id),
            lambda value: replace(from_file(Alarm, value), acknowledged=ended),
        )
    return found


def _key(alarm_id: str) -> str:
    return f"{ALARMS}/{alarm_id}.json"
