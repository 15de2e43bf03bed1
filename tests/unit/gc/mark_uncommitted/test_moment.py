"""A scan of staging is no single moment: what is carried around it, through a commit that is left behind, stays."""

import pytest

from dredge.gc.steps import (
    bulk_delete,
)
from tests.support.detours import PATH, Detours, during_the_scan
from tests.support.gc import candidates, make_world, seen_with
from tests.support.kv_views import store_of

UNSAMPLED = {"canary_branches": 1}
"""Canaries are a sample: in a repository with more branches these may not be in it."""


def test_what_a_commit_left_behind_carries_around_each_scan_of_the_server_stays() -> None:
    world = make_world(safety=UNSAMPLED, rules=1)
    detours = Detours(world, 2, others=30)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    context = world.plan()
    with detours.while_the_server_scans():
        world.mark(context)
        assert detours.address not in candidates(context)
        bulk_delete(context, world.runner)
    assert detours.made == 2, "once in the mark, once in the re-check"
    assert detours.address in world.data()
    assert world.served(detours.at)[PATH] == detours.address
    assert orphan not in world.data()


@pytest.mark.parametrize(
    ("live_source", "times"),
    [("both", 4), ("auto", 2)],
    ids=["around the server's scan and the records, in the mark and in the re-check", "around the records"],
)
def test_what_a_commit_left_behind_carries_around_each_reading_of_the_records_stays(
    live_source: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(read_kv=True, live_source=live_source, safety=UNSAMPLED, rules=1)
    detours = Detours(world, times)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    store_of(world, monkeypatch).before = detours.before_the_records
    with detours.while_the_server_scans():
        world.collect()
    assert detours.made == times
    assert detours.address in world.data()
    assert world.served(detours.at)[PATH] == detours.address
    assert orphan not in world.data()


def test_what_an_old_commit_carries_whose_branch_is_reset_during_each_scan_stays() -> None:
    """Another branch is reset to a commit behind the head, stages what it has, and is reset again. Then the branch that
    kept that commit is reset to an older one, too."""
    world = make_world(safety=UNSAMPLED)
    world.rules(1, keeper=90)
    lake, branches = world.lake, world.lake.catalog.branches
    start = lake.commit("start", allow_empty=True).id
    for branch in ("a", "b", "keeper"):
        branches.create_branch(lake.repository, branch, "main")
        for number in range(30 if branch != "keeper" else 0):
            world.upload(f"y{number:03d}", f"{branch} {number}".encode(), branch)
    orphan = world.orphan("data/orphan")
    address = world.upload(PATH, b"old", "keeper")
    behind = lake.commit("with it", "keeper").id
    lake.catalog.objects.delete_object(lake.repository, "keeper", PATH)
    head = lake.commit("without it", "keeper").id
    world.age(days=5)

    def carry_to(branch: str) -> None:
        branches.hard_reset(lake.repository, branch, behind)
        lake.catalog.objects.update_user_metadata(lake.repository, branch, PATH, {"carried": branch})
        branches.hard_reset(lake.repository, branch, start)
        branches.hard_reset(lake.repository, "keeper", start)

    context = world.plan()
    with during_the_scan(world, lambda: "keeper", lambda: carry_to("b")):
        world.mark(context)
    branches.hard_reset(lake.repository, "keeper", head)
    branches.reset_branch(lake.repository, "b", kind="object", path=PATH)
    with during_the_scan(world, lambda: "keeper", lambda: carry_to("a")):
        bulk_delete(context, world.runner)
    assert world.served("a")[PATH] == address
    assert address in world.data()
    assert orphan not in world.data()


def test_an_object_renamed_while_staging_is_read_is_no_candidate() -> None:
    """With profile `design`, where a copy shares its bytes: a rename from an unread path to a path read before."""
    world = seen_with(make_world(), profile="design", prepare_flush_rows=1, prepare_file_bytes_max=4)
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("m", b"m")
    address, orphan = world.upload("z", b"z"), world.orphan("data/orphan")
    world.age(days=2)
    pages: list[object] = []

    def before(called: str, arguments: tuple[object, ...]) -> None:
        if called == "prepare_uncommitted":
            pages.append(arguments)
            if len(pages) == 2:
                catalog.objects.copy_object(name, "main", "a", "z")
                catalog.objects.delete_object(name, "main", "z")

    world.client.before = before
    context = world.marked()
    assert len(pages) >= 2
    assert orphan in candidates(context)
    assert address not in candidates(context)
