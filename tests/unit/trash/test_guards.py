"""Which rows must stay as they are while something is deleted, and what a record names by now."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from dredge import xid
from dredge.kv.rows import Guard
from dredge.lakefs.files import messages
from dredge.trash.apply import guards_of, named_now
from dredge.trash.findings import TrashFinding
from dredge.trash.look import References, read_references
from dredge.trash.names import ACTIONS, MARKERS, OWNERS, PULLS, REPOSITORIES
from dredge.trash.rules import OF_EARLIER_LIFE, OF_MISSING_REPOSITORY, OF_MISSING_RUN
from tests.support.kv_world import DAY, START, World


def references_of(world: World, unrecorded: Sequence[bytes] = ()) -> References:
    with world.store.view() as view:
        return read_references(view, unrecorded)


def guards(
    world: World,
    partition: bytes,
    key: bytes | None = None,
    kind: str = "",
    value: bytes | None = None,
    unrecorded: Sequence[bytes] = (),
) -> list[Guard]:
    finding = TrashFinding(partition, key, kind, "trash", "")
    return guards_of(finding, value, references_of(world, unrecorded))


def record_of(world: World, name: str) -> Guard:
    key = b"repos/" + name.encode()
    return Guard(REPOSITORIES, key, world.kv.get(REPOSITORIES, key))


def branch_of(world: World, partition: bytes, name: str) -> Guard:
    key = b"branches/" + name.encode()
    return Guard(partition, key, world.kv.get(partition, key))


@pytest.fixture
def lake(world: World) -> bytes:
    return world.repository("lake")[0]


def test_an_instance_goes_only_while_the_record_of_its_name_stays_as_it_is(world: World, lake: bytes) -> None:
    old = b"lake-" + xid.new_xid(START - 9 * DAY).encode()
    assert guards(world, old) == [record_of(world, "lake")]
    assert record_of(world, "lake").value
    assert guards(world, b"pond-" + lake[-20:]) == [Guard(REPOSITORIES, b"repos/pond", None)]


def test_a_token_goes_only_while_no_branch_that_could_name_it_changes(world: World, lake: bytes) -> None:
    inner, _ = world.repository("lake-a")
    unrecorded, _ = world.beginning("lake", branch="a-b", uid=xid.new_xid(START - 9 * DAY))
    world.branch(inner, "b", "head", world.token("lake-a", "b"))
    token = world.token("lake", "a-b").encode()
    expected = {
        Guard(lake, b"branches/a-b", None),
        branch_of(world, unrecorded, "a-b"),
        branch_of(world, inner, "b"),
    }
    assert sum(guard.value is not None for guard in expected) == 2
    assert set(guards(world, token, unrecorded=[unrecorded])) == expected
    assert set(guards(world, MARKERS, token, "marker", b"stub", [unrecorded])) == expected


def test_a_partition_that_no_branch_can_name_needs_no_guard(world: World, lake: bytes) -> None:
    assert guards(world, world.token("pond", "main").encode()) == []
    assert guards(world, b"lake:1") == []
    assert guards(world, b"\xff-a:1") == []


def test_the_index_of_a_pull_goes_only_while_its_pull_is_absent(world: World, lake: bytes) -> None:
    key = world.pull_index(lake, "a", "b")
    value = world.kv.get(PULLS, key)
    assert value is not None
    pull = messages.SecondaryIndex.FromString(value).primary_key
    assert guards(world, PULLS, key, "pull-index-dangling", value) == [
        record_of(world, "lake"),
        Guard(lake, b"pulls/" + pull, None),
    ]
    assert guards(world, PULLS, b"repos/lake/a/b", "pull-index-dangling", value) == []
    assert guards(world, PULLS, b"repos/short", "pull-index-dangling", value) == []


def test_hook_results_go_only_while_the_record_of_their_name_stays_and_their_run_is_absent(
    world: World, lake: bytes
) -> None:
    task = b"repos/lake/tasks/r1/0000"
    assert guards(world, ACTIONS, task, OF_MISSING_REPOSITORY) == [record_of(world, "lake")]
    assert guards(world, ACTIONS, task, OF_MISSING_RUN) == [
        record_of(world, "lake"),
        Guard(ACTIONS, b"repos/lake/runs/r1", None),
    ]
    assert guards(world, ACTIONS, b"repos/gone/tasks/r1/0000", OF_MISSING_REPOSITORY) == [
        Guard(REPOSITORIES, b"repos/gone", None)
    ]
    assert guards(world, ACTIONS, b"repos/lake/novel/r1", OF_MISSING_REPOSITORY) == []


def test_an_ownership_hint_goes_only_while_its_branch_is_absent(world: World, lake: bytes) -> None:
    key = world.owner("lake", "side", START)
    assert guards(world, OWNERS, key, "branch-owner-stale") == [
        record_of(world, "lake"),
        Guard(lake, b"branches/side", None),
    ]
    key = world.owner("gone", "side", START)
    assert guards(world, OWNERS, key, "branch-owner-stale") == [Guard(REPOSITORIES, b"repos/gone", None)]
    assert guards(world, OWNERS, b"something/else", "branch-owner-stale") == []


@pytest.mark.parametrize(("began", "is_kept"), [(0, True), (-60, True), (-61, False), (None, True)])
def test_hook_results_of_an_earlier_life_are_kept_by_a_record_that_is_no_younger_than_they_are(
    world: World, lake: bytes, began: int | None, is_kept: bool
) -> None:
    since = None if began is None else START + timedelta(seconds=began)
    for name, is_there in (("lake", True), ("gone", False)):
        key = f"repos/{name}/tasks/r1/0000".encode()
        finding = TrashFinding(ACTIONS, key, OF_EARLIER_LIFE, "trash", "", since=since)
        assert named_now(finding, references_of(world)) == (is_kept and is_there)
