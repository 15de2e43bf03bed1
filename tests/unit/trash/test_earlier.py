"""What earlier runs removed is put back when a record names it, whichever kind of record that is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dredge.kv import Entry
from dredge.kv.rows import Row
from dredge.storage import forget_memory_store, open_writer
from dredge.trash.apply import NamedAgainError
from dredge.trash.earlier import named_after_removal, put_back_named, verify_open_run
from dredge.trash.look import read_look
from dredge.trash.state import TrashState
from tests.support.kv_world import DAY, START, World
from tests.support.trash import Ground


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


def test_a_token_and_a_repository_come_back_that_records_name(
    world: World, held: TrashState, caplog: pytest.LogCaptureFixture
) -> None:
    lake, token = world.repository("lake")
    world.stage(token)
    gone = world.stage(world.token("lake", "gone"))
    rows = remove(world, held, token.encode(), "r1") | remove(world, held, lake, "r2")
    remove(world, held, gone, "r1")
    for run, partition in (("r1", token.encode()), ("r2", lake), ("r1", gone)):
        held.note_removed([partition], run, START)
    assert named_after_removal(held, read_look(world.store)) == {lake: "r2"}, "its branch went with it"
    with pytest.raises(NamedAgainError, match="2 rows were put back"):
        put_back_named(world.store, held, read_look(world.store))
    assert held.removed() == {token.encode(): "r1", gone: "r1"}
    assert named_after_removal(held, read_look(world.store)) == {token.encode(): "r1"}
    with pytest.raises(NamedAgainError, match="2 rows were put back"):
        put_back_named(world.store, held, read_look(world.store))
    assert rows <= world.store.all_rows()
    assert held.removed() == {gone: "r1"}
    caplog.clear()
    put_back_named(world.store, held, read_look(world.store))
    assert not list(world.kv.scan(gone))
    assert not caplog.records, "nothing is named"


def test_without_a_run_that_did_not_end_there_is_nothing_to_look_after(
    world: World, held: TrashState
) -> None:
    views = []
    world.store.view = lambda: views.append(1)  # type: ignore[method-assign,assign,return-value,func-returns-value]
    verify_open_run(world.store, held, START)
    assert views == []
    assert held.open_run() is None


def test_what_a_run_took_that_did_not_end_is_remembered(world: World, held: TrashState) -> None:
    """What else is there may be called anything: only the shape of a repository has branches."""
    world.stage(world.token("keeper", "x"), "branches/main", "repos/x")
    gone, stays = (world.stage(world.token("keeper", name)) for name in ("y", "z"))
    remove(world, held, gone)
    held.undo("r").write([row for row in world.store.all_rows() if row.partition == stays])
    held.set_open_run("r")
    verify_open_run(world.store, held, START)
    assert held.removed() == {gone: "r"}
    assert held.open_run() is None


def test_partition_that_lost_rows_is_asked_for_the_first_of_them_only(
    world: World, held: TrashState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have had a million."""
    gone = world.stage(world.token("keeper", "y"), "a", "b", "c")
    remove(world, held, gone)
    held.set_open_run("r")
    world.without_snapshots()
    asked: list[bytes] = []
    real = world.kv.scan

    def noted(partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        asked.extend([start] if partition == gone and start else [])
        return real(partition, start)

    monkeypatch.setattr(world.kv, "scan", noted)
    verify_open_run(world.store, held, START)
    assert (asked, held.removed()) == ([b"a"], {gone: "r"})


def test_who_looks_after_a_run_that_did_not_end_forgets_nothing_that_nobody_has_looked_at(
    world: World, held: TrashState
) -> None:
    """An operation may have taken longer than a week, and this look is about one run alone."""
    world.repository("keeper")
    held.note_removed([b"long ago"], "before", START)
    gone = world.stage(world.token("keeper", "y"))
    remove(world, held, gone)
    held.set_open_run("r")
    verify_open_run(world.store, held, START + timedelta(days=12))
    assert held.removed() == {b"long ago": "before", gone: "r"}


def test_what_a_repository_without_a_record_names_comes_back_too(world: World, held: TrashState) -> None:
    lost, token = world.beginning("pond")
    world.stage(token)
    rows = remove(world, held, token.encode())
    held.set_open_run("r")
    with pytest.raises(NamedAgainError, match="put back"):
        verify_open_run(world.store, held, START)
    assert rows <= world.store.all_rows()
    assert (held.open_run(), held.removed()) == (None, {})
    assert list(world.kv.scan(lost))


def test_what_else_a_run_took_is_remembered_where_some_of_it_is_put_back(
    world: World, held: TrashState
) -> None:
    """What a repository's branches name is known again only once its rows are back."""
    lake, token = world.repository("lake")
    world.stage(token)
    rows = remove(world, held, lake) | remove(world, held, token.encode())
    held.set_open_run("r")
    with pytest.raises(NamedAgainError, match="2 rows were put back"):
        verify_open_run(world.store, held, START)
    assert (held.open_run(), held.removed()) == (None, {token.encode(): "r"})
    with pytest.raises(NamedAgainError, match="2 rows were put back"):
        put_back_named(world.store, held, read_look(world.store))
    assert rows <= world.store.all_rows()
    put_back_named(world.store, held, read_look(world.store))


def kill_half_way(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run dies when one of the orphan's two rows is gone; from then on runs delete row by row. Gives the run."""
    monkeypatch.setattr("dredge.trash.apply.GROUP_ROWS", 1)
    ground.scan()
    ground.world.store.now += DAY
    run = ground.killed(monkeypatch)
    assert ground.orphan_rows() == 1
    return run


def test_part_of_a_partition_that_a_killed_run_took_comes_back_when_the_rest_is_named(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = kill_half_way(ground, monkeypatch)
    ground.clean()
    assert ground.state.removed() == {ground.orphan: run}
    ground.name_orphan()
    with pytest.raises(NamedAgainError, match="1 rows were put back"):
        ground.clean()
    assert ground.orphan_rows() == 2


def test_what_was_put_back_before_it_could_be_forgotten_stops_nobody_once_more(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks after a killed run puts all of it back, also where a run before it is remembered for the partition."""
    kill_half_way(ground, monkeypatch)
    ground.clean()
    ground.clean(DAY)
    earlier = ground.state.removed_by()
    assert ground.orphan_rows() == 0
    ground.name_orphan()
    with pytest.raises(NamedAgainError, match="2 rows were put back"):
        ground.clean()
    with ground.state.held("a run that noted it late") as state:
        for run in earlier[ground.orphan]:
            state.note_removed([ground.orphan], run, ground.world.now)
    ground.clean()
    assert (ground.orphan_rows(), ground.state.removed()) == (2, {})


def test_rows_that_two_runs_took_of_one_partition_come_back_both(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_half_way(ground, monkeypatch)
    ground.clean()
    ground.clean(DAY)
    assert ground.orphan_rows() == 0
    ground.name_orphan()
    with pytest.raises(NamedAgainError, match="2 rows were put back"):
        ground.clean()
    assert ground.orphan_rows() == 2
