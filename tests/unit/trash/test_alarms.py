"""Something that was removed is named again: an alarm, and nothing is removed until a person acknowledges it."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from dredge.commands.trash import command
from dredge.errors import AlarmError, ConfigError, FormatError, WitnessError
from dredge.kv.postgres_rows import PostgresRows
from dredge.kv.rows import Row, show
from dredge.runs.consents import read_consents
from dredge.storage import open_writer
from dredge.trash.alarms import named_after_removal, restore_named, verify_open_run
from dredge.trash.apply import NamedAgainError
from dredge.trash.findings import TrashMargins
from dredge.trash.look import read_look
from dredge.trash.state import TrashState
from dredge.undo.alarms import acknowledge_alarms, open_alarms, read_alarms, read_rows
from lakefs_embedded.kv import MemoryKV
from lakefs_embedded.kv.postgres import PostgresStore
from tests.support.kv_world import DAY, START, World
from tests.support.memory_rows import MemoryRows
from tests.support.memory_store import forget_memory_store
from tests.support.postgres import PostgresServer
from tests.support.trash import Ground, fates


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
        acknowledge_alarms(ground.state.writer, "trash", " ")
    assert acknowledge_alarms(ground.state.writer, "trash", "a slow reset", "ann") == [found]
    assert ground.clean().rows_removed == 2
    assert not list(ground.world.kv.scan(other))
    assert ground.orphan_rows() == 2
    (consent,) = read_consents(ground.state.writer)
    assert (consent.kind, consent.who, consent.why) == ("acknowledge", "ann", "a slow reset")


def test_what_was_acknowledged_does_not_alarm_twice_unless_it_is_removed_again(ground: Ground) -> None:
    alarm(ground)
    acknowledge_alarms(ground.state.writer, "trash", "looked into")
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
def test_whoever_puts_something_back_leaves_an_alarm(ground: Ground, by: str) -> None:
    ground.scan()

    def named() -> None:
        ground.name_orphan()
        if by == "the next one":
            raise KeyboardInterrupt

    ground.world.store.after_delete.append(named)
    with pytest.raises((NamedAgainError, KeyboardInterrupt)):
        ground.clean(DAY)
    removed_by = ground.state.runs()[0]
    if by == "the next one":
        with pytest.raises(NamedAgainError):
            ground.clean()
    (found,) = open_alarms(ground.state.writer)
    assert (found.deleted_by, found.outcomes) == ({removed_by: 1}, {"restored": 1})


def test_an_alarm_is_open_before_anything_is_put_back(ground: Ground) -> None:
    ground.scan()
    ground.clean(DAY)
    ground.name_orphan()

    def die() -> None:
        raise KeyboardInterrupt

    ground.world.store.after_insert.append(die)
    with pytest.raises(KeyboardInterrupt):
        ground.clean()
    (found,) = open_alarms(ground.state.writer)
    assert found.outcomes == {"not_yet": 1}
    with pytest.raises(AlarmError):
        ground.clean()
    assert ground.orphan_rows() == 2


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
    acknowledge_alarms(ground.state.writer, "trash", "looked into")
    (key,) = [item.key for item in ground.state.writer.list_level("alarms/").objects if ".json" in item.key]
    ground.state.writer.put(key, b"{")
    with pytest.raises(FormatError):
        ground.clean()


@pytest.fixture
def held() -> Iterator[TrashState]:
    with TrashState(open_writer("memory://trash-earlier")).held("a run") as state:
        yield state
    forget_memory_store("trash-earlier")


def remove(world: World, held: TrashState, partition: bytes, run: str = "r") -> set[Row]:
    """Take a partition away as a run does: its rows are in the undo files."""
    rows = [row for row in sorted(world.store.all_rows()) if row.partition == partition]
    held.undo(run).write(rows)
    for row in rows:
        world.kv.delete(partition, row.key)
    return set(rows)


def test_a_token_and_a_repository_come_back_that_records_name(world: World, held: TrashState) -> None:
    lake, token = world.repository("lake")
    world.stage(token)
    gone = world.stage(world.token("lake", "gone"))
    rows = remove(world, held, token.encode(), "r1") | remove(world, held, lake, "r2")
    remove(world, held, gone, "r1")
    for run, partition in (("r1", token.encode()), ("r2", lake), ("r1", gone)):
        held.note_removed([partition], run, START)
    assert named_after_removal(held, read_look(world.store)) == {lake: "r2"}, "its branch went with it"
    with pytest.raises(NamedAgainError):
        restore_named(world.store, held, read_look(world.store), "look")
    assert held.removed() == {token.encode(): "r1", gone: "r1"}
    assert named_after_removal(held, read_look(world.store)) == {token.encode(): "r1"}
    with pytest.raises(NamedAgainError):
        restore_named(world.store, held, read_look(world.store), "look")
    assert rows <= world.store.all_rows()
    assert held.removed() == {gone: "r1"}
    restore_named(world.store, held, read_look(world.store), "look")
    assert not list(world.kv.scan(gone))


def test_what_a_run_took_that_did_not_end_is_remembered(world: World, held: TrashState) -> None:
    world.stage(world.token("keeper", "x"), "branches/main", "repos/x")
    gone, stays = (world.stage(world.token("keeper", name)) for name in ("y", "z"))
    remove(world, held, gone)
    held.undo("r").write([row for row in world.store.all_rows() if row.partition == stays])
    held.set_open_run("r")
    verify_open_run(world.store, held, START, "look")
    assert held.removed() == {gone: "r"}
    assert held.open_run() is None


def test_what_a_repository_without_a_record_names_comes_back_too(world: World, held: TrashState) -> None:
    lost, token = world.beginning("pond")
    world.stage(token)
    rows = remove(world, held, token.encode())
    held.set_open_run("r")
    with pytest.raises(NamedAgainError):
        verify_open_run(world.store, held, START, "look")
    assert rows <= world.store.all_rows()
    assert (held.open_run(), held.removed()) == (None, {})
    assert list(world.kv.scan(lost))


@pytest.mark.parametrize("rest_goes", [False, True])
def test_rows_that_one_run_or_two_took_of_one_partition_come_back(ground: Ground, rest_goes: bool) -> None:
    ground.scan()
    ground.world.store.now += DAY
    run = ground.killed(group_rows=1)
    assert ground.orphan_rows() == 1
    ground.clean()
    assert ground.state.removed() == {ground.orphan: run}
    if rest_goes:
        ground.clean(DAY)
        assert ground.orphan_rows() == 0
    ground.name_orphan()
    with pytest.raises(NamedAgainError):
        ground.clean()
    assert ground.orphan_rows() == 2


INSTANT = timedelta(microseconds=1)


def copy_rows(ground: Ground) -> set[Row]:
    return ground.world.store.all_rows()


def put_back(ground: Ground, rows: set[Row]) -> None:
    kv = MemoryKV()
    for row in rows:
        kv.set(row.partition, row.key, row.value)
    ground.world.kv = kv
    ground.world.store.rows = MemoryRows(kv)


def commit_on_main(ground: Ground) -> None:
    made = ground.world.commit(ground.partition, [ground.head])
    ground.world.branch(ground.partition, "main", made.id, ground.main)


def test_a_store_that_lacks_a_noted_head_is_not_judged(ground: Ground) -> None:
    backup = copy_rows(ground)
    commit_on_main(ground)
    ground.scan()
    put_back(ground, backup)
    for dry_run in (True, False):
        with pytest.raises(WitnessError):
            ground.clean(DAY, dry_run=dry_run)
    with pytest.raises(WitnessError):
        ground.scan()
    assert ground.orphan_rows() == 2


def test_one_partition_that_was_put_back_is_noticed_right_before_removing(ground: Ground) -> None:
    backup = copy_rows(ground)
    commit_on_main(ground)
    ground.scan()
    ground.before_view(3, lambda: put_back(ground, backup))
    with pytest.raises(WitnessError):
        ground.clean(DAY)
    assert ground.orphan_rows() == 2


def test_a_token_that_was_named_waits_thirty_days(ground: Ground) -> None:
    ground.world.stage(ground.main, "a", "b")
    token = ground.main.encode()
    ground.scan()
    ground.world.branch(ground.partition, "main", ground.head, ground.world.token("lake", "main"))
    ground.clean(DAY)
    ground.clean(30 * DAY - INSTANT)
    assert len(list(ground.world.kv.scan(token))) == 2
    assert not ground.orphan_rows(), "one that nobody has ever named waits a grace"
    ground.clean(2 * INSTANT)
    ground.clean(DAY - INSTANT)
    assert len(list(ground.world.kv.scan(token))) == 2, "its wait has begun after the thirty days"
    ground.clean(INSTANT)
    assert not list(ground.world.kv.scan(token))


def test_a_look_without_a_grace_does_not_forget_that_a_token_was_named(ground: Ground) -> None:
    ground.world.stage(ground.main, "a", "b")
    ground.scan()
    ground.world.branch(ground.partition, "main", ground.head, ground.world.token("lake", "main"))
    ground.scan(DAY)
    at_once = TrashMargins.with_grace(timedelta(0), unsafe_short_grace=True)
    ground.clean(DAY, margins=at_once, dry_run=True)
    for _ in range(3):
        ground.clean(DAY)
    assert len(list(ground.world.kv.scan(ground.main.encode()))) == 2
    assert not ground.orphan_rows()


def test_behind_another_id_of_the_database_everything_waits_anew(ground: Ground) -> None:
    ground.world.store.own = "1:1:16384"
    ground.scan()
    ground.world.store.own = "1:2:16384"
    told = ground.clean(DAY)
    assert not told.outcomes
    assert len(told.scan.notes) == 1
    assert ground.report()["notes"] == [*told.scan.notes]
    assert ground.orphan_rows() == 2
    again = ground.clean(DAY)
    assert (fates(again), again.scan.notes) == (["deleted"], ())


def test_behind_another_id_of_the_database_the_thirty_days_begin_anew(ground: Ground) -> None:
    ground.world.store.own = "1:1:16384"
    ground.scan()
    ground.world.branch(ground.partition, "main", ground.head, ground.world.token("lake", "main"))
    ground.scan(DAY)
    ground.world.store.own = "1:2:16384"
    ground.scan(DAY)
    assert ground.state.noted().missed_since(ground.main.encode()) == ground.world.now


def test_a_hit_without_rows_in_the_undo_files_is_an_alarm_too(ground: Ground) -> None:
    with ground.state.held("a run") as held:
        held.note_removed([ground.orphan], "gone", ground.world.now)
    ground.name_orphan()
    with pytest.raises(AlarmError):
        ground.clean()


def test_a_marker_that_was_removed_and_whose_token_is_named_now_is_an_alarm(ground: Ground) -> None:
    token = ground.world.token("lake", "main")
    ground.world.kv.set(b"cleanup-tokens", token.encode(), b"")
    ground.scan()
    ground.clean(DAY)
    assert not list(ground.world.kv.scan(b"cleanup-tokens"))
    ground.world.branch(ground.partition, "main", ground.head, token)
    with pytest.raises(AlarmError):
        ground.clean()


def test_postgresql_has_an_id_that_a_new_table_changes(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    PostgresStore(url).close()
    rows = PostgresRows(url)
    before = rows.own_id()
    assert rows.own_id() == before
    system, timeline, table = before.split(":")
    assert int(system) > 1 << 32
    assert (int(timeline), int(table) > 16000) == (1, True)
    with PostgresStore(url) as store:
        for statement in ("DROP VIEW kv_v", "DROP TABLE kv"):
            store.write(statement, ())
        store._find_table()
    assert rows.own_id().rpartition(":")[0] == before.rpartition(":")[0]
    assert rows.own_id() != before
    rows.close()
