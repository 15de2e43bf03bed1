"""No metadata is deleted while an alarm is open; what is left is noted as before."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dredge.errors import AlarmError
from dredge.undo.alarms import SCHEMA, write_alarm
from tests.support.wrong_runs import say_acknowledged, state_of
from tests.unit.gc.metadata.test_collecting import collect, noted, there


def test_no_metadata_is_deleted_while_an_alarm_is_open() -> None:
    world = noted()
    rows = pa.table({name: [1 if name == "hash" else "x"] for name in SCHEMA.names}).cast(SCHEMA)
    write_alarm(state_of(world), "a", "run", world.lake.clock(), rows)
    before = there(world)
    with pytest.raises(AlarmError):
        collect(world)
    assert there(world) == before
    assert collect(world, metadata="report").counts.get("deleted_files", 0) == 0
    say_acknowledged(world)
    world.age(days=2)
    collect(world)
    assert there(world) < before
