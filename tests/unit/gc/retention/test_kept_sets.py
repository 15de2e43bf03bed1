"""What policies, tags and rules keep beyond the server's answer."""

from __future__ import annotations

import pytest

from dredge.gc.retention.policy import PolicyRule, RetentionPolicy
from dredge.gc.steps import bulk_delete
from dredge.lakefs import Commit, Ref
from tests.support.gc import candidates, make_world, summary_of
from tests.support.policies import history, kept, policy, revive


def test_a_policy_keeps_the_last_commits_of_a_branch_and_no_more() -> None:
    world = make_world(policy=policy("name: recent, last: 3"))
    world.rules(1)
    addresses = history(world, 6)
    left, sets = kept(world)
    assert left == set(addresses[-3:])
    # The newest commit beyond the threshold stays by lakeFS's own rule; the head stays in any case.
    found = sets["policy: recent"]
    assert (found["objects"], found["only_objects"]) == (2, 2)
    assert found["bytes"] == found["only_bytes"] == 2 * len("main a 0")
    assert found["commits"] == 2


def test_the_next_run_without_the_policy_collects_what_it_kept() -> None:
    world = make_world()
    world.rules(1)
    addresses = history(world, 6)
    left, _ = kept(world, policy=policy("last: 4"))
    assert left == set(addresses[-4:])
    left, _ = kept(world, policy=policy("last: 2"))
    assert left == set(addresses[-2:])
    left, sets = kept(world)
    assert left == {addresses[-1]}
    assert [name for name in sets if name.startswith("policy")] == []


def test_a_policy_is_about_the_branches_it_names_hidden_ones_too() -> None:
    world = make_world(policy=policy("branches: ['rel-*', secret], last: 2"))
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    for branch, hidden in (("rel-1", False), ("secret", True), ("other", False)):
        catalog.branches.create_branch(name, branch, "main", hidden=hidden)
    histories = {branch: history(world, 4, branch) for branch in ("rel-1", "secret", "other")}
    left, _ = kept(world)
    assert left == {*histories["rel-1"][-2:], *histories["secret"][-2:], histories["other"][-1]}


@pytest.mark.parametrize(("version", "expected"), [(0, ["m", "side", "base"]), (1, ["m", "main", "base"])])
def test_the_main_line_goes_by_the_commits_version(version: int, expected: list[str]) -> None:
    world = make_world()
    now = world.lake.clock()
    parents = {"base": (), "main": ("base",), "side": ("base",), "m": ("main", "side")}
    graph = {
        name: Commit(name, above, now, name, version if name == "m" else 1) for name, above in parents.items()
    }
    (keep,) = RetentionPolicy((PolicyRule("r", last=None),)).keeps([Ref("b", "m")], graph)
    assert keep.commits == set(expected)
    (keep,) = RetentionPolicy((PolicyRule("r", last=2),)).keeps([Ref("b", "m")], graph)
    assert keep.commits == set(expected[:2])


def test_without_rules_nothing_has_to_be_kept() -> None:
    world = make_world(policy=policy("last: 2", "paths: '**'"))
    addresses = history(world, 4)
    left, sets = kept(world)
    assert left == set(addresses)
    assert sets == {}


def test_a_branch_made_from_an_expired_commit_keeps_by_policy_what_lies_before_it() -> None:
    """The re-check applies the policy to branches that the mark did not know."""
    world = make_world(policy=policy("branches: 'rel-*', last: 2"))
    world.rules(1)
    addresses = history(world, 5)
    ids = {
        c.message: c.id
        for c in world.lake.catalog.commits.log(world.lake.repository, "main", amount=100).results
    }
    context = world.plan()
    world.mark(context)
    assert set(addresses[1:3]) <= candidates(context)
    revive(world, "rel-1", ids["main 2"])
    world.run(context)
    assert world.data() == {*addresses[1:3], addresses[-1]}
    world.assert_readable("rel-1")


@pytest.mark.parametrize("change", ["longer", "gone"])
def test_rules_that_keep_more_after_the_mark_are_heeded_by_the_re_check(change: str) -> None:
    world = make_world()
    world.rules(1)
    addresses = history(world, 4)
    context = world.plan()
    world.mark(context)
    if change == "longer":
        world.rules(100)
    else:
        world.lake.catalog.garbage.delete_gc_rules(world.lake.repository)
    bulk_delete(context, world.runner)
    assert world.data() == set(addresses)


def test_rules_that_keep_less_after_the_mark_wait_for_the_next_run() -> None:
    world = make_world()
    world.rules(100)
    addresses = history(world, 4)
    context = world.plan()
    world.mark(context)
    world.rules(1)
    world.run(context)
    assert world.data() == set(addresses)
    world.collect()
    assert world.data() == {addresses[-1]}


def test_a_head_with_an_empty_metarange_keeps_nothing_and_stops_nothing() -> None:
    """A commit that deleted the last object names the empty metarange, a file like any other."""
    world = make_world(policy=policy("last: 1"))
    world.rules(1)
    gone = world.upload("a", b"1")
    world.lake.commit("first")
    world.age(days=3)
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "a")
    world.lake.commit("nothing left")
    world.age(days=3)
    world.lake.commit("empty", allow_empty=True)
    world.age(days=3)
    context = world.plan()
    world.run(context)
    assert world.data() == set()
    assert gone not in world.data()
    assert summary_of(context, "list_committed").counts["metaranges"] >= 1


def test_a_dangling_commit_is_kept_by_a_tag_and_let_go_without() -> None:
    world = make_world()
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    dangling = history(world, 2, "topic")
    head = catalog.branches.get_branch(name, "topic").commit_id
    catalog.tags.create_tag(name, "v1", head)
    catalog.branches.delete_branch(name, "topic")
    left, sets = kept(world)
    assert left == {dangling[-1]}
    assert sets["tags"]["only_objects"] == 1
    assert kept(world, keep_tags=False)[0] == set()


def test_policies_do_not_reach_dangling_commits() -> None:
    world = make_world(policy=policy("last: all"), keep_unnamed_days=0)
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    history(world, 2, "topic")
    catalog.branches.delete_branch(name, "topic")
    assert kept(world)[0] == set()


def test_a_hidden_branchs_history_is_judged_like_any_other() -> None:
    world = make_world()
    world.rules(1, secret=100)
    world.lake.catalog.branches.create_branch(world.lake.repository, "secret", "main", hidden=True)
    addresses = history(world, 3, "secret")
    world.collect()
    assert world.data() == set(addresses)


def test_optimized_runs_keep_and_let_go_by_policy_like_clean_ones() -> None:
    world = make_world(policy=policy("last: 3"))
    world.rules(1)
    addresses = history(world, 4)
    assert kept(world, mode="clean")[0] == set(addresses[-3:])
    for number in (4, 5):
        addresses += history(world, 1, first=number)
        world.upload("new", b"young")  # in a slice that has to be listed
        context = world.plan(mode="optimized")
        assert context.plan.mode == "optimized"
        world.run(context)
        left = {address for address in world.data() if address in addresses}
        assert left == set(addresses[-3:])
    world.age(days=10)
    clean, _ = kept(world, mode="clean")
    assert {address for address in clean if address in addresses} == set(addresses[-3:])
