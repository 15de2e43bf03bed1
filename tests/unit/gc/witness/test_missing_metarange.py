"""A metarange of an active commit that is not in the bucket: put back from a copy, or the run stops."""

from __future__ import annotations

import pytest

from dredge.errors import RefusedError, WitnessError
from dredge.gc.witness.owner import read_block
from dredge.gc.witness.ownership import KEY
from dredge.storage import open_deleter
from tests.support.gc import World, make_world, summary_of
from tests.unit.gc.metadata.test_collecting import collect, is_readable, left_metarange, name, noted, there


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
    run = world.plan(mode=mode, dry_run=dry_run)
    world.run(run)
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
    world = make_world(mode="auto")
    world.rules(30)
    for number in range(3):
        world.upload("a", b"%d" % number)
        made = world.lake.commit(str(number))
        world.age(hours=1)
    world.age(days=2)
    world.collect()
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
