"""What a restore puts back, what it leaves, and what it refuses before anything is written."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.kv.rows import Row
from dredge.trash.names import MARKERS
from dredge.trash.restore import restore, unqueue
from dredge.trash.waiting import address_of, read_waiting
from tests.support.kv_world import DAY, World
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


def test_a_dry_run_counts_and_puts_nothing_back(removed: Removed) -> None:
    assert removed.restore(dry_run=True) == {
        "run_id": removed.run,
        "status": "dry_run",
        "rows": 6,
        "markers_of_live_tokens": 0,
    }
    assert removed.restore(removed.tokens[1], dry_run=True)["rows"] == 2
    assert removed.there() == []
    assert set(removed.ground.state.removed()) == set(removed.tokens)


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
    """The list of the run's own look is there still: the same bytes have waited long enough."""
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
    """Nobody could tell whether its token is in use. Without markers, no record is asked."""
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
    """The server would drop staged changes that are there again once a person brings the record back."""
    world, token = ground.world, ground.world.stage(ground.main)
    world.queue(ground.main)
    unqueue(world.store, ground.state, clock=world.store.machine_clock, dry_run=False)
    world.kv.delete(b"graveler", b"repos/lake")
    told = restore(world.store, ground.state, ground.state.runs()[0], dry_run=False)
    assert told["markers_of_live_tokens"] == 1
    assert not list(world.kv.scan(MARKERS))
    assert list(world.kv.scan(token))
