"""What a restore puts back, what it leaves, and what it refuses before anything is written."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.kv.rows import Row
from dredge.trash.names import MARKERS
from dredge.trash.restore import restore, unqueue
from dredge.trash.state import TrashState
from dredge.trash.undo import decode_rows, encode_rows, put_back
from dredge.trash.waiting import address_of, read_waiting
from tests.support.kv_world import DAY, World, dump, memory_store
from tests.support.trash import Ground


class Removed:
    """A run that removed three staging partitions that nobody named."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        world = ground.world
        self.tokens = [ground.orphan, *(world.stage(world.token("lake", name)) for name in ("a", "b"))]
        ground.scan()
        self.run = ground.clean(DAY).scan.plan.run_id
        assert self.there() == []

    def there(self) -> list[bytes]:
        return [token for token in self.tokens if next(iter(self.ground.world.kv.scan(token)), None)]

    def restore(self, *partitions: bytes, dry_run: bool = False) -> dict[str, object]:
        return restore(
            self.ground.world.store,
            self.ground.state,
            self.run,
            partitions=partitions or None,
            dry_run=dry_run,
        )

    def add(self, *rows: Row) -> None:
        """Have the run's undo files name more."""
        self.ground.state.undo(self.run).write(rows)


@pytest.fixture
def removed(ground: Ground) -> Removed:
    return Removed(ground)


def test_only_the_asked_partitions_come_back_and_only_they_are_forgotten(removed: Removed) -> None:
    asked = removed.tokens[1:]
    assert removed.restore(*asked) == {
        "run_id": removed.run,
        "status": "done",
        "rows_written": 4,
        "keys_existing": 0,
        "markers_of_live_tokens": 0,
    }
    assert removed.there() == asked
    assert set(removed.ground.state.removed()) == {removed.tokens[0]}
    assert removed.restore()["rows_written"] == 2
    assert removed.there() == removed.tokens
    assert removed.ground.state.removed() == {}


def test_a_partition_that_the_run_removed_nothing_of_is_refused_before_anything_comes_back(
    removed: Removed,
) -> None:
    with pytest.raises(ConfigError):
        removed.restore(removed.tokens[0], b"other-2", b"other-1")
    assert removed.there() == []
    assert set(removed.ground.state.removed()) == set(removed.tokens)


def test_rows_of_one_store_are_not_put_into_another(removed: Removed) -> None:
    removed.ground.world.kv.set(b"auth", b"installation_id", b"two")
    with pytest.raises(RefusedError):
        removed.restore()
    assert removed.there() == []


def test_a_row_that_comes_back_before_a_look_saw_it_gone_begins_anew(removed: Removed) -> None:
    world = removed.ground.world
    marker = world.token("lake", "gone").encode()
    world.queue(marker.decode())
    removed.ground.scan()
    run = removed.ground.clean(DAY, kinds=["marker"]).scan.plan.run_id
    assert not list(world.kv.scan(MARKERS))
    restore(world.store, removed.ground.state, run, dry_run=False)
    rows = read_waiting(removed.ground.state, world.store).rows
    assert address_of(MARKERS, marker) not in rows["address"].to_pylist()
    assert removed.ground.clean(kinds=["marker"]).outcomes == ()
    assert list(world.kv.scan(MARKERS))


def test_markers_come_back_unless_a_branch_names_their_token(removed: Removed) -> None:
    world = removed.ground.world
    dead, live = world.token("lake", "dead").encode(), removed.ground.main.encode()
    world.stage(world.token("lake", "other"), "branches/main")  # a path, and no branch
    removed.add(Row(MARKERS, dead, b"stub"), Row(MARKERS, live, b"stub"), Row(b"other", live, b"value"))
    assert removed.restore(dry_run=True)["rows"] == 8
    told = removed.restore()
    assert (told["rows_written"], told["markers_of_live_tokens"]) == (8, 1)
    assert [entry.key for entry in world.kv.scan(MARKERS)] == [dead]
    assert world.kv.get(b"other", live) == b"value", "a row of that name in another partition is no marker"


def test_a_marker_does_not_come_back_to_a_store_whose_records_cannot_be_read(
    removed: Removed,
) -> None:
    world: World = removed.ground.world
    world.kv.set(b"graveler", b"repos/bad", b"\xff\xff")
    assert removed.restore(removed.tokens[0])["rows_written"] == 2
    removed.add(Row(MARKERS, b"lake-x:1", b"stub"))
    with pytest.raises(FormatError):
        removed.restore()
    assert removed.there() == removed.tokens[:1]
    assert not list(world.kv.scan(MARKERS))


def test_a_marker_does_not_come_back_to_a_token_of_a_repository_whose_record_was_lost(
    ground: Ground,
) -> None:
    world, token = ground.world, ground.world.stage(ground.main)
    world.queue(ground.main)
    unqueued(world, ground.state)
    world.kv.delete(b"graveler", b"repos/lake")
    told = restore(world.store, ground.state, ground.state.runs()[0], dry_run=False)
    assert told["markers_of_live_tokens"] == 1
    assert not list(world.kv.scan(MARKERS))
    assert list(world.kv.scan(token))


def queued() -> tuple[World, bytes, str]:
    """A world whose only branch has a token in the drop queue; with its repository's partition."""
    world = World()
    partition, token = world.repository("lake")
    world.queue(token)
    return world, partition, token


def unqueued(world: World, state: TrashState) -> list[dict[str, Any]]:
    return unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)


TOKEN = b"orchard-pfx:5bbc0db9-1b21-4ed1-ba81-0dc3d555b68f"


def test_the_marker_of_a_real_servers_live_token_goes_and_nothing_else(state: TrashState) -> None:
    store = memory_store(datetime.now(UTC))
    before = set(dump("d2_live_token_queued"))
    store.load(before)
    marker = {row for row in before if row.partition == b"cleanup-tokens"}
    trial = unqueue(store, state, clock=store.machine_clock)
    assert [(line["token"], line["branches"], line["fate"]) for line in trial] == [
        (TOKEN.decode(), ["pfx"], "would remove")
    ]
    assert store.all_rows() == before
    assert [line["fate"] for line in unqueue(store, state, clock=store.machine_clock, dry_run=False)] == [
        "removed"
    ]
    assert store.all_rows() == before - marker
    run = next(run for run in state.runs())
    assert put_back(store, state.undo(run).read()) == (1, 0)
    assert store.all_rows() == before


def test_restoring_a_run_does_not_queue_a_token_that_a_branch_names(state: TrashState) -> None:
    world, *_ = queued()
    unqueued(world, state)
    (run,) = state.runs()
    for dry_run in (True, False):
        told = restore(world.store, state, run, dry_run=dry_run)
        assert told["markers_of_live_tokens"] == 1
        assert list(world.kv.scan(b"cleanup-tokens")) == [], "the server would drop acknowledged uploads"
    assert told["rows_written"] == 0


def test_the_marker_of_a_token_that_nothing_names_stays(state: TrashState) -> None:
    world = World()
    world.repository("lake")
    token = world.token("lake", "main")
    world.queue(token)
    partition, dying = world.repository("dying")
    world.record(partition, state=1)
    world.queue(dying)
    assert unqueued(world, state) == []
    assert len(list(world.kv.scan(b"cleanup-tokens"))) == 2


def test_a_branch_that_lets_go_of_the_token_meanwhile_keeps_the_marker(state: TrashState) -> None:
    world, partition, token = queued()
    world.store.before_delete.append(
        lambda: world.branch(partition, "main", "head", world.token("lake", "main"))
    )
    done = unqueued(world, state)
    assert [line["fate"] for line in done] == ["changed"]
    assert Row(b"cleanup-tokens", token.encode(), b"stub-value") in world.store.all_rows()


def test_only_branches_that_name_the_token_are_told_and_guard_it(state: TrashState) -> None:
    world = World()
    partition, token = world.repository("lake")
    world.branch(partition, "side", "head", world.token("lake", "side"), sealed=[token])
    world.branch(partition, "other", "head", world.token("lake", "other"))
    lost, _ = world.beginning("pond")
    world.branch(lost, "theirs", "head", token)
    world.queue(token)
    world.store.before_delete.append(
        lambda: world.branch(partition, "other", "head", world.token("lake", "other"))
    )
    (done,) = unqueued(world, state)
    assert done == {"token": token, "branches": ["main", "side"], "fate": "removed"}


def test_a_marker_is_in_the_undo_log_before_it_goes(state: TrashState) -> None:
    world, _, token = queued()
    logged: list[Row] = []
    world.store.before_delete.append(lambda: logged.extend(state.undo(state.runs()[0]).read()))
    unqueued(world, state)
    assert logged == [Row(b"cleanup-tokens", token.encode(), b"stub-value")]


def test_a_marker_that_changed_meanwhile_stays(state: TrashState) -> None:
    world, _, token = queued()
    world.store.before_delete.append(lambda: world.kv.set(b"cleanup-tokens", token.encode(), b"new"))
    (done,) = unqueued(world, state)
    assert done["fate"] == "changed"
    assert world.kv.get(b"cleanup-tokens", token.encode()) == b"new"


def test_markers_of_another_store_than_the_folders_stay(state: TrashState) -> None:
    world, *_ = queued()
    unqueue(world.store, state, clock=world.store.machine_clock)
    world.kv.set(b"auth", b"installation_id", b"two")
    with pytest.raises(RefusedError):
        unqueued(world, state)
    assert len(list(world.kv.scan(b"cleanup-tokens"))) == 1


ROWS = [Row(b"p\xff", b"k\n", b"v\x00"), Row(b"p", b"k2", b""), Row(b"q", b"k", b"v")]


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"partition": "cA==", "key": "aw=="}', b"null"])
def test_a_damaged_line_is_told_with_its_number(damage: bytes) -> None:
    data = encode_rows(ROWS[:1]) + damage + b"\n"
    with pytest.raises(FormatError):
        list(decode_rows(data, "name"))


def test_a_row_whose_bytes_were_damaged_does_not_come_back_as_another() -> None:
    data = encode_rows(ROWS[2:]).replace(b'"dg=="', b'"d*g=="')
    with pytest.raises(FormatError):
        list(decode_rows(data, "name"))
