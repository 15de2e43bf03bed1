"""Which commits are active: each of these loses data with a collector that trusts one answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import DredgeError, RefusedError
from dredge.gc.list_committed.active import OWN
from dredge.lakefs import PreparedCommits
from tests.support.commits import committed_world
from tests.support.gc import make_world, seen_with, summary_of


def test_trap_02_no_rules_means_that_every_commit_is_active() -> None:
    """Vendor: its fallback for "no rules" finds no committed address at all and deletes every one."""
    world = make_world()
    first = world.upload("a", b"first")
    world.lake.commit("first")
    second = world.upload("a", b"second")
    world.lake.commit("second")
    orphan = world.orphan("data/orphan")
    world.age(days=400)
    context = world.plan()
    world.run(context)
    assert world.data() == {first, second}
    assert orphan not in world.data()
    assert summary_of(context, "list_committed").counts["active_commits"] == 3


def test_trap_02_without_rules_dangling_commits_count_too() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    dangling = world.upload("topic", b"topic", "topic")
    world.lake.commit("topic", "topic")
    catalog.branches.delete_branch(name, "topic")
    world.age(days=400)
    context = world.plan()
    world.run(context)
    assert dangling in world.data()
    assert summary_of(context, "subtract").counts["candidates_objects"] == 0


def test_trap_02_a_404_that_is_not_no_rules_stops_the_run() -> None:
    world, kept, orphan = committed_world()

    def missing(*_: object) -> PreparedCommits | None:
        raise RefusedError("prepare_commits of lake: lakeFS answered 404 'commit not found'")

    world.client.prepare_commits = missing
    with pytest.raises(RefusedError, match="404"):
        world.collect()
    assert {kept, orphan} <= world.data()


@pytest.mark.parametrize("content", [b"", b"commit_id,expired,metarange_id\n"])
def test_trap_02_an_empty_or_odd_list_of_commits_stops_the_run(content: bytes) -> None:
    world, kept, orphan = committed_world()
    world.rules(30)
    honest = world.client.prepare_commits

    def spoiled(repository: str, deadline_seconds: float) -> PreparedCommits | None:
        prepared = honest(repository, deadline_seconds)
        assert prepared is not None
        world.lake.objects.put(prepared.location.removeprefix(world.lake.namespace + "/"), content)
        return prepared

    world.client.prepare_commits = spoiled
    with pytest.raises(DredgeError, match=r"commits\.csv"):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_02_a_list_of_commits_that_is_not_there_stops_the_run() -> None:
    world, kept, orphan = committed_world()
    world.rules(30)
    location = f"{world.lake.namespace}/_lakefs/retention/gc/commits/run_id=x/commits.csv"
    world.client.prepare_commits = lambda *_: PreparedCommits("x", location)
    with pytest.raises(RefusedError, match="run_id=x"):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_18_a_tag_keeps_its_commit_unless_told_otherwise() -> None:
    for keep_tags in (True, False):
        world = make_world(keep_tags=keep_tags)
        world.rules(1)
        tagged = world.upload("a", b"first")
        commit = world.lake.commit("first")
        world.lake.catalog.tags.create_tag(world.lake.repository, "v1", commit.id)
        for content in (b"second", b"third"):
            world.age(days=3)
            world.upload("a", content)
            world.lake.commit()
        world.age(days=3)
        world.collect()
        assert (tagged in world.data()) is keep_tags


@pytest.mark.parametrize("dangling", [False, True])
def test_trap_19_a_commit_that_the_servers_walk_loses_is_kept(dangling: bool) -> None:
    """Vendor: X with an old child on one branch and a young one on another counts as expired, be that branch gone."""
    lost = False
    for attempt in range(60):  # whether the walk loses it hangs on ids, which are drawn anew each time
        if lost:
            break
        world = seen_with(make_world(), defects=frozenset({"active_walk_early_stop"}))
        world.rules(30)
        catalog, name = world.lake.catalog, world.lake.repository
        replaced = world.upload("x", b"x")
        parent = world.lake.commit(f"X {attempt}")
        for branch in ("one", "two"):
            catalog.branches.create_branch(name, branch, parent.id)
        world.age(days=10)
        world.upload("x", b"old", "one")
        world.lake.commit("A1", "one")
        world.age(days=59)
        world.upload("x", b"young", "two")
        world.lake.commit("B1", "two")
        world.upload("x", b"main")
        world.lake.commit("main moves on")
        world.lake.catalog.branches.hard_reset(
            name, "main", catalog.branches.get_branch(name, "one").commit_id
        )
        if dangling:
            catalog.branches.delete_branch(name, "two")
        world.age(days=2)
        context = world.plan()
        world.run(context)
        assert replaced in world.data()
        summary = context.folder.read_summary("list_committed")
        assert summary is not None
        lost = any("walk" in text for text in summary.warnings)
        if lost:
            (own,) = (found for found in summary.details["kept"] if found["name"] == OWN)
            assert (own["objects"], own["only_objects"]) == (1, 1)
    assert lost, "the server's walk never lost the commit, so the test proved nothing"


def test_trap_29_rules_of_zero_days_are_no_rules() -> None:
    world = make_world()
    first = world.upload("a", b"first")
    world.lake.commit("first")
    second = world.upload("a", b"second")
    world.lake.commit("second")
    world.rules(0)
    world.age(days=400)
    world.collect()
    assert world.data() == {first, second}


def test_trap_30_a_branch_that_was_made_again_falls_under_the_rule_of_its_name() -> None:
    world = make_world()
    world.rules(1, main=100)
    first = world.upload("a", b"first")
    world.lake.commit("first")
    world.age(days=20)
    world.upload("a", b"second")
    world.lake.commit("second")
    world.age(days=20)
    world.collect()
    assert first in world.data()


def test_trap_32_a_read_only_repository_is_refused_not_taken_for_empty() -> None:
    world, kept, orphan = committed_world()
    honest = world.client.repository
    world.client.repository = lambda name: replace(honest(name), read_only=True)
    with pytest.raises(RefusedError, match="read-only"):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_32_a_repository_that_is_gone_is_refused_not_taken_for_empty() -> None:
    world, kept, orphan = committed_world()
    world.lake.catalog.repositories.delete_repository(world.lake.repository)
    with pytest.raises(DredgeError):
        world.collect()
    assert {kept, orphan} <= world.data()
