"""`dredge gc acknowledge`: output, exit codes, and what is kept with the state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dredge.commands import gc_alarms
from dredge.commands.gc_alarms import acknowledge_command
from dredge.runs.consents import read_consents
from dredge.storage import ObjectWriter, open_writer
from dredge.undo.alarms import SCHEMA, open_alarms, read_alarms, write_alarm
from tests.support.memory_store import forget_memory_store

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectWriter]:
    found = open_writer("memory://alarms/state")
    monkeypatch.setattr(gc_alarms, "state_of", lambda _repository: found)
    yield found
    forget_memory_store("alarms")


def _alarm(state: ObjectWriter) -> None:
    values = {"address": "data/a", "hash": 1, "deleted_by": "r1", "outcome": "restored", "message": ""}
    write_alarm(state, "r2-t001", "r2", AT, pa.Table.from_pylist([values], schema=SCHEMA))


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        acknowledge_command.main(["lake", *words])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_open_alarms_are_listed_with_a_code_of_their_own(
    state: ObjectWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(capsys)[0] == 0
    _alarm(state)
    code, said = _run(capsys, "--json")
    assert code == 10
    (alarm,) = json.loads(said)["alarms"]
    assert (alarm["deleted_by"], alarm["outcomes"]) == ({"r1": 1}, {"restored": 1})
    assert open_alarms(state)


def test_a_reason_ends_them_and_is_kept_with_the_name(
    state: ObjectWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    _alarm(state)
    code, said = _run(capsys, "--reason", "the clone is stopped", "--by", "ada")
    assert code == 0
    assert "r2-t001" in said
    assert not open_alarms(state)
    (alarm,) = read_alarms(state)
    assert alarm.acknowledged is not None
    assert (alarm.acknowledged.who, alarm.acknowledged.why) == ("ada", "the clone is stopped")
    (said_so,) = read_consents(state, "acknowledge")
    assert said_so.what == {"alarms": ["r2-t001"]}
    assert _run(capsys)[0] == 0
