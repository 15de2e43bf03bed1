"""A server with an older database is noticed by the commits that the last complete mark called active."""

from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import BlockedError, RefusedError, WitnessError
from dredge.gc.run import open_state
from dredge.gc.witness.mark import CREATED_AGAIN, UNKNOWN
from dredge.gc.witness.owner import KEY, read_block
from dredge.gc.witness.people import lift_block
from dredge.gc.witness.record import FORGET_LOST, read_record
from dredge.runs.consents import record_consent
from dredge.storage import open_deleter
from tests.support.gc import World, make_world, summary_of
from tests.support.kv_views import Snapshots, open_as
from tests.support.lost_database import back_up, restore
from tests.unit.gc.metadata.test_collecting import collect, is_readable, left_metarange, name, noted, there


def lost_days(world: World) -> set[str]:
    """Runs, a backup, a day of work, a run that calls it live, and the backup restored; the addresses of that day."""
    world.rules(30)
    for number in range(20):
        world.upload(f"a/{number:03d}", b"old %d" % number)
    world.lake.commit("old")
    world.collect_after(days=2)
    backup = back_up(world)
    work = {world.upload(f"new/{number:03d}", b"committed after %d" % number) for number in range(9)}
    world.lake.commit("a day's work")
    work |= {world.upload(f"staged/{number}", b"staged after %d" % number) for number in range(3)}
    world.age(days=1, hours=2)
    world.commit("x", b"x")
    world.collect()
    assert work <= world.data()
    world.age(days=1)
    restore(world, backup)
    return work


def refused(world: World, **settings: Any) -> dict[str, Any]:
    run = world.plan(**settings)
    before, state = world.data(), set(world.lake.keys("_lakefs/retention/gc/dredge/"))
    record = read_record(run.state)
    with pytest.raises(WitnessError):
        world.run(run)
    assert world.data() == before
    left = set(world.lake.keys("_lakefs/retention/gc/dredge/")) - state
    assert not [key for key in left if "/witness/" in key or "/state/" in key]
    assert read_record(run.state) == record
    assert not run.folder.read_summary("list_committed")
    block = read_block(run.state)
    assert block is not None
    return {"kind": block.kind, **block.facts}


@pytest.mark.parametrize(
    "settings",
    [{"mode": "clean"}, {"mode": "optimized"}, {"mode": "auto"}, {"mode": "auto", "read_kv": True}],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_c1_after_the_database_is_restored_nothing_of_the_lost_days_is_deleted(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(**settings)
    if "read_kv" in settings:
        open_as(Snapshots(world), monkeypatch)
    work = lost_days(world)
    facts = refused(world)
    assert facts["kind"] == UNKNOWN
    assert facts["commits"] == 2
    for days in range(3):
        with pytest.raises(BlockedError):
            world.plan()
        world.age(days=days)
    assert refused(world, dry_run=True)["kind"] == UNKNOWN
    assert work <= world.data()


def test_commits_that_expired_or_whose_branch_is_gone_are_still_known() -> None:
    world = make_world(rules=5)
    world.commit("a", b"1")
    world.lake.catalog.branches.create_branch("lake", "side", "main")
    gone = world.upload("b", b"of the side", "side")
    side = world.lake.commit("side", "side")
    world.collect_after(days=2)
    world.lake.catalog.branches.delete_branch("lake", "side")
    world.commit("c", b"3")
    world.age(days=9)
    asked: list[str] = []
    world.client.before = lambda name, given: asked.append(given[1]) if name == "commit" else None
    world.collect()
    assert asked.count(side.id) == 1, "one request a commit that left the active ones"
    world.age(days=1)
    asked.clear()
    world.collect()
    assert asked.count(side.id) == 1, "it is the newest that is not active"
    assert gone not in world.data()
    world.assert_readable()


@pytest.mark.parametrize("dated_back_days", [0, 900])
def test_a_commit_that_expired_got_a_branch_again_and_was_lost_with_the_database_is_missed(
    dated_back_days: int,
) -> None:
    """All heads of the last mark are older than the backup; its client may have chosen the date."""
    world = make_world(unsafe_grace_seconds=None, grace_hours=20, rules=1)
    for number in range(6):
        world.commit("a", b"%d" % number)
    world.age(days=3)
    world.commit("a", b"head")
    backup = back_up(world)
    world.lake.catalog.branches.create_branch("lake", "side", "main")
    live = world.upload("b", b"2", "side")
    dated = world.lake.clock() - timedelta(days=dated_back_days)
    commit = world.lake.commit("side", "side", date=dated)
    world.collect_after(hours=2)
    world.lake.catalog.branches.delete_branch("lake", "side")
    world.collect_after(days=3)
    world.lake.catalog.branches.create_branch("lake", "again", commit.id)
    world.age(hours=10)
    restore(world, backup)
    world.age(hours=20)
    assert refused(world)["kind"] == UNKNOWN
    assert live in world.data()


def create_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the repository and create one of its name on the same namespace, whatever lies there."""
    monkeypatch.setattr("lakefs_embedded.catalog.repositories._claim", lambda _writer: None)
    world.lake.catalog.repositories.delete_repository("lake")
    world.age(hours=1)
    world.lake.catalog.repositories.create_repository("lake", world.lake.namespace)
    world.rules(30)
    world.commit("b", b"2")


def first_life() -> World:
    world = make_world(rules=30)
    world.commit("a", b"1")
    world.collect_after(days=2)
    return world


def test_a_repository_created_again_starts_without_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    world = first_life()
    open_deleter(world.lake.namespace).delete(
        [key for key in world.lake.keys("") if not key.startswith("_lakefs/retention/")]
    )
    create_again(world, monkeypatch)
    orphan = world.orphan("data/x/orphan")
    world.collect_after(days=2)
    assert orphan not in world.data()
    world.assert_readable()


def test_a_repository_created_again_over_older_metaranges_is_refused_until_a_person_gives_them_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = first_life()
    old = world.data()
    create_again(world, monkeypatch)
    world.age(days=2)
    assert refused(world)["kind"] == CREATED_AGAIN
    assert old <= world.data()
    state = open_state(world.lake.namespace)
    record_consent(state, FORGET_LOST, "lake", "the old one is not wanted", {"commits": [], "metaranges": []})
    lift_block("lake", "the old one is not wanted", client=world.client)
    world.collect()
    world.assert_readable()


# A metarange of an active commit that is not in the bucket: put back from a copy, or the run stops.


def active_again() -> tuple[World, str]:
    """A collection of metadata deleted range and metarange, and a commit came to name them without writing them, as
    CreateCommitRecord lets it; the id of the collection's run."""
    world = noted()
    world.collect(dry_run=True)
    world.orphan("data/left/behind", b"x")
    deleted = collect(world)
    assert deleted.counts["deleted_files"] == 2
    world.rules(30)
    world.lake.catalog.branches.create_branch("lake", "again", name(world, left_metarange()))
    world.orphan("data/x/orphan")
    world.age(days=2)
    return world, deleted.run_id


@pytest.mark.parametrize("mode", ["clean", "auto"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_collection_of_metadata_deleted_is_put_back(mode: str, dry_run: bool) -> None:
    world, _ = active_again()
    before = there(world)
    run = world.collected(mode=mode, dry_run=dry_run)
    assert len(there(world) - before) == 2
    assert is_readable(world, left_metarange())
    assert [text for text in summary_of(run, "list_committed").warnings if left_metarange() in text]
    assert world.lake.read("left/behind", "again") == b"x"
    assert ("data/x/orphan" in world.data()) is dry_run


def test_without_a_copy_the_run_that_deleted_it_is_named() -> None:
    world, deleted_by = active_again()
    copies = [
        key for key in world.lake.keys("_lakefs/retention/gc/dredge/metadata/") if "/quarantine/" in key
    ]
    assert len(copies) == 2
    open_deleter(world.lake.namespace).delete(copies)
    with pytest.raises(RefusedError, match=deleted_by):
        world.collect()
    assert "data/x/orphan" in world.data()


def test_a_mark_that_a_witness_refuses_puts_nothing_back() -> None:
    world, _ = active_again()
    before = there(world)
    world.client.set_metadata("lake", {KEY: "of another server"})
    with pytest.raises(WitnessError):
        world.collect(dry_run=True)
    assert there(world) == before


@pytest.mark.parametrize("when", ["mark", "re-check"])
def test_a_missing_metarange_of_an_active_commit_stops_the_run(when: str) -> None:
    """Also one that an optimized run does not read again."""
    world = make_world(mode="auto", rules=30)
    for number in range(3):
        world.upload("a", b"%d" % number)
        made = world.lake.commit(str(number))
        world.age(hours=1)
    world.collect_after(days=2)
    orphan = world.orphan("data/x/orphan")
    world.age(days=2)
    run = world.plan()
    if when == "re-check":
        world.mark(run)
    open_deleter(world.lake.namespace).delete([f"_lakefs/{made.metarange_id}"])
    with pytest.raises(RefusedError):
        world.run(run)
    assert orphan in world.data()
    assert read_block(run.state) is None, "it is damage, and no other past"
