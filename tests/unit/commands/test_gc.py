"""`dredge gc`: the list of runs, and reports of good, failed and foreign ones."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from dredge.commands.collectors import add_commands
from dredge.commands.gc import COLLECTOR, command
from dredge.errors import RefusedError
from dredge.lakefs.client import ENDPOINT
from dredge.runs.consents import read_consents
from dredge.storage import ObjectWriter, open_writer
from dredge.undo.alarms import SCHEMA, open_alarms, read_alarms, write_alarm
from tests.support.commands import COLLECT_NOW, ORPHAN, gc
from tests.support.gc import make_world
from tests.support.lakefs_server import Lake
from tests.support.memory_store import forget_memory_store


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_a_failed_run_has_its_exit_code_and_says_what_to_do() -> None:
    world = make_world()
    world.upload("a", b"1")
    context = world.plan()

    def broken(*_: object) -> None:
        raise RefusedError("the server said no")

    world.client.prepare_uncommitted = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(RefusedError):
        world.run(context)
    result = ask("report", context.plan.run_uri)
    assert result.exit_code == 1
    assert "the server said no" in result.output
    assert "mark_uncommitted" in result.output


# `dredge gc run` collects a repository in this process, and deletes only when it is told to.


def collect(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return gc(capsys, "run", "lake", *COLLECT_NOW, *words)


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def test_a_run_only_says_what_would_go(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = keys(lake)
    code, said, _ = collect(capsys)
    assert code == 0
    assert keys(lake) == before
    assert "dry run" in said.lower()
    assert f"run {lake.namespace('lake')}/_lakefs/retention/gc/unified/" in said


def test_a_run_that_is_told_to_deletes_the_garbage_and_nothing_else(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    code, said, _ = collect(capsys, "--apply", "--json")
    report = json.loads(said)
    assert (code, report["outcome"], report["counts"]["deleted_objects"]) == (0, "success", 1)
    assert keys(lake) == before - {ORPHAN}


def test_a_run_that_is_held_shows_its_report_and_deletes_nothing(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    code, said, errors = collect(capsys, "--apply", "--max-delete-objects", "0")
    assert code == 3
    assert keys(lake) == before
    assert "held" in said
    assert errors.startswith("dredge: ")
    assert collect(capsys, "--apply")[0] == 3, "it waits for an answer, and holds other runs back"
    assert keys(lake) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-delete-percent", "101"), "--max-delete-percent"),
        (("--mode", "fast"), "--mode"),
        (("--retention-policy", "policy.yaml"), "policy.yaml"),
        (("--processes", "-1"), "'--processes': -1 is not in the range x>=0"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_touched(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    code, _, errors = collect(capsys, *words)
    assert code == 2
    assert message in errors


# `dredge gc acknowledge`: output, exit codes, and what is kept with the state.


AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    yield open_writer("memory://alarms/state")
    forget_memory_store("alarms")


def _alarm(state: ObjectWriter) -> None:
    values = {"address": "data/a", "hash": 1, "deleted_by": "r1", "outcome": "restored", "message": ""}
    write_alarm(state, "r2-t001", "r2", AT, pa.Table.from_pylist([values], schema=SCHEMA))


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    group = click.Group()
    add_commands(
        group, replace(COLLECTOR, open_state=lambda _repository: open_writer("memory://alarms/state"))
    )
    with pytest.raises(SystemExit) as ended:
        group.main(["acknowledge", "lake", *words])
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
