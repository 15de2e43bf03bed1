"""Something that was removed is named again: an alarm, and nothing is removed until a person acknowledges it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from dredge.commands.trash import command
from dredge.errors import AlarmError, ConfigError, FormatError
from dredge.kv.rows import show
from dredge.runs.consents import read_consents
from dredge.trash.alarms import acknowledge_alarms
from dredge.trash.apply import NamedAgainError
from dredge.undo.alarms import open_alarms, read_alarms, read_rows
from tests.support.trash import Ground

DAY = timedelta(days=1)


def alarm(ground: Ground) -> str:
    """Have a run remove the orphan, and the next one find it named; gives the first."""
    ground.scan()
    removed_by = ground.clean(DAY).scan.plan.run_id
    ground.name_orphan()
    with pytest.raises(NamedAgainError):
        ground.clean()
    assert ground.orphan_rows() == 2
    return removed_by


def test_nothing_is_removed_until_a_person_acknowledges_the_alarm(ground: Ground) -> None:
    removed_by = alarm(ground)
    (found,) = open_alarms(ground.state.writer)
    assert (found.deleted_by, found.outcomes) == ({removed_by: 1}, {"restored": 1})
    assert read_rows(ground.state.writer, found)["address"].to_pylist() == [show(ground.orphan)]
    assert found.run_id in ground.state.runs()
    assert found.run_id != removed_by

    other = ground.world.stage(ground.world.token("lake", "main"))
    ground.scan()
    rows = ground.world.store.all_rows()
    with pytest.raises(AlarmError) as refused:
        ground.clean(DAY)
    assert (refused.value.kind, refused.value.exit_code) == ("alarm", 10)
    assert ground.world.store.all_rows() == rows
    told = ground.clean(dry_run=True)
    assert [finding.partition for finding in told.scan.plan.findings] == [other]
    assert found.text in told.scan.notes[0]
    assert found.text in ground.scan().notes[0]

    with pytest.raises(ConfigError):
        acknowledge_alarms(ground.state.writer, " ")
    assert acknowledge_alarms(ground.state.writer, "a slow reset", "ann") == [found]
    assert ground.clean().rows_removed == 2
    assert not list(ground.world.kv.scan(other))
    assert ground.orphan_rows() == 2
    (consent,) = read_consents(ground.state.writer)
    assert (consent.kind, consent.who, consent.why) == ("acknowledge", "ann", "a slow reset")


def test_what_was_acknowledged_does_not_alarm_twice_unless_it_is_removed_again(ground: Ground) -> None:
    alarm(ground)
    acknowledge_alarms(ground.state.writer, "looked into")
    ground.clean()
    ground.clean(DAY)
    assert len(read_alarms(ground.state.writer)) == 1
    ground.world.branch(ground.partition, "main", ground.head, ground.main)
    ground.clean(DAY)
    ground.clean(31 * DAY)
    ground.clean(DAY)
    assert ground.orphan_rows() == 0
    ground.name_orphan()
    with pytest.raises(NamedAgainError):
        ground.clean()
    assert len(open_alarms(ground.state.writer)) == 1
    assert len(read_alarms(ground.state.writer)) == 2


@pytest.mark.parametrize("by", ["the run itself", "the next one"])
def test_whoever_puts_something_back_leaves_an_alarm(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    ground.scan()
    delete_rows = ground.world.store.delete_rows

    def named_then(*asked: Any) -> list[bool]:
        outcome = delete_rows(*asked)
        ground.name_orphan()
        if by == "the next one":
            raise KeyboardInterrupt
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(ground.world.store, "delete_rows", named_then)
        with pytest.raises((NamedAgainError, KeyboardInterrupt)):
            ground.clean(DAY)
    removed_by = ground.state.runs()[0]
    if by == "the next one":
        with pytest.raises(NamedAgainError):
            ground.clean()
    (found,) = open_alarms(ground.state.writer)
    assert (found.deleted_by, found.outcomes) == ({removed_by: 1}, {"restored": 1})


def test_an_alarm_is_open_before_anything_is_put_back(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in between leaves it open, and the next run puts back what is missing."""
    ground.scan()
    ground.clean(DAY)
    ground.name_orphan()
    insert_row = ground.world.store.insert_row

    def dying(*asked: Any) -> bool:
        insert_row(*asked)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ground.world.store, "insert_row", dying)
        with pytest.raises(KeyboardInterrupt):
            ground.clean()
    (found,) = open_alarms(ground.state.writer)
    assert found.outcomes == {"not_yet": 1}
    with pytest.raises(AlarmError):
        ground.clean()
    assert ground.orphan_rows() == 2


def test_what_no_row_is_kept_of_is_gone(ground: Ground) -> None:
    ground.world.stage(ground.main)
    ground.state.note_removed([ground.main.encode()], "long-ago", ground.world.now)
    with pytest.raises(NamedAgainError):
        ground.clean()
    (found,) = open_alarms(ground.state.writer)
    assert (found.deleted_by, found.outcomes) == ({"long-ago": 1}, {"gone": 1})


def test_the_command_lists_alarms_and_ends_them(ground: Ground) -> None:
    def run(*words: str) -> tuple[int, dict[str, Any]]:
        result = CliRunner().invoke(command, ["acknowledge", ground.state.writer.uri, *words, "--json"])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, json.loads(result.stdout)

    with pytest.raises(ConfigError):
        run()
    removed_by = alarm(ground)
    code, told = run()
    assert (code, told["acknowledged"], len(told["alarms"])) == (10, False, 1)
    assert told["alarms"][0]["deleted_by"] == {removed_by: 1}
    code, told = run("--reason", "a slow reset", "--by", "ann")
    assert (code, told["acknowledged"], len(told["alarms"])) == (0, True, 1)
    assert run() == (0, {"acknowledged": False, "alarms": []})


def test_an_alarm_that_cannot_be_read_counts_as_open(ground: Ground) -> None:
    alarm(ground)
    acknowledge_alarms(ground.state.writer, "looked into")
    (key,) = [item.key for item in ground.state.writer.list_level("alarms/").objects if ".json" in item.key]
    ground.state.writer.put(key, b"{")
    with pytest.raises(FormatError):
        ground.clean()
