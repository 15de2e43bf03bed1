"""What earlier runs removed is put back when a record names it, whichever kind of record that is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dredge.kv.rows import Row
from dredge.storage import open_writer
from dredge.trash.alarms import named_after_removal, put_back_named, verify_open_run
from dredge.trash.apply import NamedAgainError
from dredge.trash.look import read_look
from dredge.trash.state import TrashState
from tests.support.kv_world import DAY, START, World
from tests.support.memory_store import forget_memory_store
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
        put_back_named(world.store, held, read_look(world.store), "look")
    assert held.removed() == {token.encode(): "r1", gone: "r1"}
    assert named_after_removal(held, read_look(world.store)) == {token.encode(): "r1"}
    with pytest.raises(NamedAgainError):
        put_back_named(world.store, held, read_look(world.store), "look")
    assert rows <= world.store.all_rows()
    assert held.removed() == {gone: "r1"}
    put_back_named(world.store, held, read_look(world.store), "look")
    assert not list(world.kv.scan(gone))


def test_what_a_run_took_that_did_not_end_is_remembered(world: World, held: TrashState) -> None:
    """What else is there may be called anything: only the shape of a repository has branches."""
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
    """The first dies when one of the orphan's two rows is gone."""
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
