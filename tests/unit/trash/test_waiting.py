"""The pending list of the cleaner: what waits, what waits anew, and which list is believed."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from dredge.errors import RefusedError
from dredge.runs.pending.store import POINTER, read_named_parts
from dredge.storage import open_deleter, open_writer
from dredge.trash.apply import NamedAgainError
from dredge.trash.findings import TrashMargins
from dredge.trash.state import TrashState
from dredge.trash.waiting import address_of, read_waiting
from tests.support.killing import Killed, killed_at
from tests.support.kv_world import DAY, START
from tests.support.memory_store import forget_memory_store, memory_store
from tests.support.trash import Ground, fates

INSTANT = timedelta(microseconds=1)


def test_what_has_waited_goes_and_not_a_moment_earlier(ground: Ground) -> None:
    found = ground.scan()
    assert found.plan.findings == ()
    assert (found.pending()["found_now"], found.pending()["waiting"]["rows"]) == (1, 2)
    assert found.pending()["first_deletion"] == (ground.world.now + DAY).isoformat()
    early = ground.clean(DAY - INSTANT)
    assert (early.outcomes, early.scan.pending()["found_now"]) == ((), 0)
    assert fates(ground.clean(INSTANT)) == ["deleted"]


def test_nothing_goes_for_being_found_whatever_its_kind(ground: Ground) -> None:
    ground.world.import_status(ground.partition, START - 9 * DAY)
    ground.world.queue(ground.orphan.decode())
    ground.world.hand_over("gone")
    rows = ground.world.store.all_rows()
    ground.clean()
    assert ground.world.store.all_rows() == rows


def test_a_partition_whose_rows_grow_waits_anew(ground: Ground) -> None:
    ground.scan()
    ground.world.stage(ground.orphan.decode(), "late")
    assert ground.clean(DAY).outcomes == ()
    assert ground.clean(DAY - INSTANT).outcomes == ()
    assert fates(ground.clean(INSTANT)) == ["deleted"]


def test_a_partition_of_which_one_byte_changes_waits_anew(ground: Ground) -> None:
    ground.scan()
    entry = next(iter(ground.world.kv.scan(ground.orphan)))
    ground.world.kv.set(ground.orphan, entry.key, bytes(len(entry.value)))
    assert ground.clean(DAY).outcomes == ()
    assert fates(ground.clean(DAY)) == ["deleted"]


def test_what_was_named_between_two_looks_waits_anew(ground: Ground) -> None:
    ground.scan()
    ground.name_orphan()
    ground.scan(DAY)
    ground.world.branch(ground.partition, "main", ground.head, ground.main)
    ground.clean(DAY)
    assert ground.orphan_rows() == 2


def test_what_a_run_puts_back_itself_waits_anew(ground: Ground) -> None:
    ground.scan()
    ground.world.store.after_delete.append(ground.name_orphan)
    with pytest.raises(NamedAgainError):
        ground.clean(DAY)
    rows = read_waiting(ground.state, ground.world.store).rows
    assert address_of(ground.orphan, None) not in rows["address"].to_pylist()


@pytest.mark.parametrize(
    "change",
    [{"subject": "another store"}, {"left_at": "2999-01-01T00:00:00+00:00"}, {"format": 0}, {"parts": 7}],
)
def test_a_list_that_is_not_this_stores_or_is_damaged_lets_everything_wait_anew(
    ground: Ground, state: TrashState, change: dict[str, object]
) -> None:
    ground.scan()
    pointer = json.loads(state.writer.get(POINTER))
    state.writer.put(POINTER, json.dumps(pointer | change).encode())
    told = ground.clean(DAY)
    assert (told.outcomes, len(told.scan.notes)) == ((), 1)
    assert fates(ground.clean(DAY)) == ["deleted"]


def test_a_list_whose_part_is_gone_lets_everything_wait_anew(ground: Ground, state: TrashState) -> None:
    ground.scan()
    (part,) = json.loads(state.writer.get(POINTER))["parts"].values()
    state.writer.put(part["name"], b"")
    assert ground.clean(DAY).outcomes == ()
    assert fates(ground.clean(DAY)) == ["deleted"]


def test_a_list_of_a_newer_version_stops_the_run(ground: Ground, state: TrashState) -> None:
    ground.scan()
    pointer = json.loads(state.writer.get(POINTER))
    state.writer.put(POINTER, json.dumps(pointer | {"format": 99}).encode())
    with pytest.raises(RefusedError):
        ground.clean(DAY)
    assert ground.orphan_rows() == 2


def test_another_id_of_the_database_is_another_life(ground: Ground) -> None:
    ground.world.store.own = "1:1:1"
    ground.scan()
    ground.world.store.own = "1:2:1"
    assert read_waiting(ground.state, ground.world.store).rows.num_rows == 0


@pytest.mark.parametrize("shorter", ["id_age", "expiry", "ownership_expiry", "unnamed"])
def test_a_wait_that_a_look_with_a_shorter_age_began_begins_anew(ground: Ground, shorter: str) -> None:
    margins = replace(TrashMargins(unsafe_short_grace=True), **{shorter: timedelta(hours=1)})
    ground.clean(margins=margins, dry_run=True)
    assert ground.clean(DAY).outcomes == ()
    ground.clean(margins=margins, dry_run=True)
    assert fates(ground.clean(DAY)) == ["deleted"], "what a look with the usual ages began goes on"


@pytest.mark.parametrize("days", [6, 8])
def test_parts_of_earlier_lists_of_a_key_value_store_go_a_week_later_and_those_of_the_list_stay(
    ground: Ground, state: TrashState, days: int
) -> None:
    ground.scan()
    old = read_named_parts(state.writer)
    ground.world.stage(ground.world.token("lake", "main"))
    ground.scan()
    of_list = read_named_parts(state.writer)
    assert old
    assert old.isdisjoint(of_list)
    objects = memory_store(state.writer.uri.split("/")[2]).objects
    for name, (data, at) in [*objects.items()]:
        if "/pending/" in name:
            objects[name] = data, at - timedelta(days=days)
    ground.clean(dry_run=True)
    assert old | of_list <= parts_there(state)
    ground.clean()
    assert of_list <= parts_there(state)
    assert old.isdisjoint(parts_there(state)) is (days > 7)


def parts_there(state: TrashState) -> set[str]:
    return {item.key for item in state.writer.list_level("pending/").objects}


@pytest.mark.parametrize("looks", ["scan", "dry run"])
def test_after_a_kill_at_any_write_rows_are_neither_lost_nor_confirmed_early(looks: str) -> None:
    number = 0
    while True:
        number += 1
        forget_memory_store("kv-kills")
        ground = Ground(TrashState(open_writer("memory://kv-kills/state")))
        since = ground.scan().findings[0].first_seen
        late = ground.world.stage(ground.world.token("lake", "main"))
        ground.world.store.now += DAY
        try:
            with killed_at(number):
                ground.scan() if looks == "scan" else ground.clean(dry_run=True)
            break
        except Killed:
            open_deleter(ground.state.writer.uri).delete(["lease.json"])  # it may be left
        seen = {finding.partition: finding.first_seen for finding in ground.scan(INSTANT).findings}
        assert seen[ground.orphan] == since
        assert seen[late] is not None
        assert seen[late] >= since + DAY
        assert [o.finding.partition for o in ground.clean().outcomes] == [ground.orphan]
    assert number > 6
