"""A database or a table that was put back from a backup is noticed, and nothing of it is removed."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from dredge.errors import AlarmError, WitnessError
from dredge.kv.model import MemoryKV
from dredge.kv.postgres import PostgresStore
from dredge.kv.postgres_rows import PostgresRows
from dredge.kv.rows import Row
from dredge.runs.payload import from_json, to_json
from dredge.trash.noted import Noted
from dredge.trash.settings import TrashMargins
from tests.support.kv_world import DAY, Store
from tests.support.memory_rows import MemoryRows
from tests.support.postgres import postgres_server
from tests.support.trash import Ground, fates

INSTANT = timedelta(microseconds=1)


def copy_rows(ground: Ground) -> set[Row]:
    return ground.world.store.all_rows()


def put_back(ground: Ground, rows: set[Row]) -> None:
    """Put the whole store back to what it was."""
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


def test_a_repository_that_was_deleted_lacks_nothing(ground: Ground) -> None:
    commit_on_main(ground)
    ground.scan()
    for entry in list(ground.world.kv.scan(ground.partition)):
        ground.world.kv.delete(ground.partition, entry.key)
    ground.world.kv.delete(b"graveler", b"repos/lake")
    ground.world.repository("other")
    assert fates(ground.clean(DAY)) == ["deleted"]


def test_a_head_that_never_had_a_record_is_not_noted(ground: Ground) -> None:
    ground.world.kv.delete(ground.partition, b"commits/" + ground.head.encode())
    ground.scan()
    assert fates(ground.clean(DAY)) == ["deleted"]


def test_a_token_that_was_named_waits_thirty_days(ground: Ground) -> None:
    """The table of records was put back: rows of the token are there, the branch that names it is not yet."""
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
    """Somebody asks what a run would remove if nothing waited."""
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


def test_a_token_that_was_named_and_is_queued_waits_a_grace_only(ground: Ground) -> None:
    ground.world.stage(ground.main, "a", "b")
    ground.scan()
    ground.world.branch(ground.partition, "main", ground.head, ground.world.token("lake", "main"))
    ground.world.kv.set(b"cleanup-tokens", ground.main.encode(), b"")
    ground.scan()
    ground.clean(DAY)
    assert not list(ground.world.kv.scan(ground.main.encode()))


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


def test_what_is_noted_reads_back() -> None:
    noted = Noted({b"lake-x": frozenset({"c"})}, frozenset({"t"}), {"u": Store(MemoryRows(MemoryKV())).now})
    assert from_json(Noted, json.loads(json.dumps(to_json(noted)))) == noted
    assert noted.begun_anew() == Noted(noted.heads, frozenset({"t", "u"}))


def test_postgresql_has_an_id_that_a_new_table_changes() -> None:
    with postgres_server(fsync=False) as server:
        url = server.new_database()
        PostgresStore(url).close()
        rows = PostgresRows(url)
        before = rows.own_id()
        assert rows.own_id() == before
        system, timeline, table = before.split(":")
        assert int(system) > 1 << 32
        assert (int(timeline), int(table) > 16000) == (1, True)
        with PostgresStore(url) as store:
            for statement in ("DROP VIEW kv_v", "DROP TABLE kv"):
                store._write(statement, ())
            store._create()
        assert rows.own_id().rpartition(":")[0] == before.rpartition(":")[0]
        assert rows.own_id() != before
        rows.close()
