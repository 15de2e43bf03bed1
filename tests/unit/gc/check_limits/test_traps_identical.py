"""Traps about identical content: live on its branch, and in no answer about uncommitted objects."""

from typing import Any

import pytest

from lakefs_embedded.errors import NoChangesError
from tests.support import memory_store as memory
from tests.support.gc import make_world, stage_again, summary_of


@pytest.mark.parametrize("after", ["upload", "commit", "reset"])
def test_trap_06_45_the_same_bytes_uploaded_again_stay(after: str) -> None:
    """Vendor: prepare_uncommitted does not list them, so the object that the branch reads is deleted."""
    world = make_world()
    first = world.commit("a", b"same")
    second = world.upload("a", b"same")
    if after == "commit":
        with pytest.raises(NoChangesError):
            world.lake.commit()
    if after == "reset":
        world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="object", path="a")
    assert world.served()["a"] == second
    world.age(days=2)
    context = world.collected()
    assert {first, second} <= world.data()
    world.assert_readable()
    guard = context.folder.read_json("guard.json")
    assert [item["address"] for item in guard["identical_live"]] == [second]


def test_trap_06_an_equal_object_that_no_branch_serves_goes() -> None:
    world = make_world()
    world.commit("a", b"same")
    orphan = world.orphan("data/orphan", b"same")
    world.age(days=2)
    context = world.collected()
    assert orphan not in world.data()
    guard = context.folder.read_summary("check_limits")
    assert guard is not None
    assert (guard.counts["same_size_objects"], guard.counts["cleared_objects"]) == (1, 1)


def test_trap_06_a_linked_object_that_claims_the_committed_checksum_is_looked_into() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    first = world.commit("a", b"12345678")
    full = catalog.addresses.get_physical_address(name, "main", "a")
    second = world.orphan(full.removeprefix(world.lake.namespace + "/"), b"87654321")
    checksum = world.lake.objects.stat(first).etag
    assert checksum is not None
    catalog.addresses.link_physical_address(
        name,
        "main",
        "a",
        physical_address=full,
        checksum=checksum,
        size_bytes=8,
        content_type="application/octet-stream",
    )
    assert world.served()["a"] == second
    world.age(days=2)
    context = world.collected()
    assert {first, second} <= world.data()
    assert [item["address"] for item in context.folder.read_json("guard.json")["identical_live"]] == [second]


def test_trap_06_a_copy_over_itself_of_an_entry_with_another_checksum_stays() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    first = world.orphan("data/slice/staged", b"12345678")
    stage_again(world, first, "a", size_bytes=8)
    world.lake.commit()
    second = world.lake.address(catalog.objects.copy_object(name, "main", "a", "a"))
    assert world.served()["a"] == second
    world.collect_after(days=2)
    assert {first, second} <= world.data()


def test_trap_06_where_etags_are_no_hashes_of_the_content_the_second_upload_stays(
    stand_in: Any,
) -> None:
    """An encrypted bucket: its ETags look like MD5s and are none, and no configuration says so."""
    stand_in(memory.etag_of, lambda honest, data: honest(b"salt" + data))
    world = make_world()
    first = world.commit("a", b"same")
    second = world.upload("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.collect_after(days=2)
    assert world.data() == {first, second}
    assert orphan not in world.data()


def test_trap_06_questions_are_counted_over_all_branches() -> None:
    world = make_world(safety={"identical_requests_max": 3})
    world.commit("a", b"same")
    for number in range(4):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number}", "main")
    twin = world.upload("a", b"same", "b3")
    world.age(days=2)
    context = world.collected()
    assert twin in world.data()
    guard = summary_of(context, "check_limits")
    assert (guard.counts["identical_too_many_objects"], guard.counts["questions"]) == (1, 0)


def test_trap_46_entries_that_survive_a_hard_reset_stay() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("a", b"same")
    first = world.lake.commit("first")
    world.commit("a", b"other")
    staged = world.upload("a", b"same")
    # Against the first commit the staged entry is no change any more, but the branch still reads it.
    catalog.branches.hard_reset(name, "main", first.id)
    assert world.served()["a"] == staged
    world.collect_after(days=2)
    assert staged in world.data()
    world.assert_readable()
