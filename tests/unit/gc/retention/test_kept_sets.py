"""What policies, tags and rules keep beyond the server's answer."""

import pytest

from dredge.errors import RefusedError
from dredge.gc.steps import bulk_delete
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ranges import Value, read_metarange
from dredge.storage import open_deleter
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.staging.area import Staged
from tests.support.gc import Parallel, World, candidates, make_world, summary_of
from tests.support.policies import history, kept, many_paths, policy, revive


def test_a_policy_keeps_the_last_commits_of_a_branch_and_no_more() -> None:
    world = make_world(policy=policy("name: recent, last: 3"), rules=1)
    addresses = history(world, 6)
    left, sets = kept(world)
    assert left == set(addresses[-3:])
    # The newest commit beyond the threshold stays by lakeFS's own rule; the head stays in any case.
    found = sets["policy: recent"]
    assert (found["commits"], found["ranges"]) == (2, 2)


def test_a_policy_is_about_the_branches_it_names_hidden_ones_too() -> None:
    world = make_world(policy=policy("branches: ['rel-*', secret], last: 2"), rules=1)
    catalog, name = world.lake.catalog, world.lake.repository
    for branch, hidden in (("rel-1", False), ("secret", True), ("other", False)):
        catalog.branches.create_branch(name, branch, "main", hidden=hidden)
    histories = {branch: history(world, 4, branch) for branch in ("rel-1", "secret", "other")}
    left, _ = kept(world)
    assert left == {*histories["rel-1"][-2:], *histories["secret"][-2:], histories["other"][-1]}


def test_a_branch_made_from_an_expired_commit_keeps_by_policy_what_lies_before_it() -> None:
    world = make_world(policy=policy("branches: 'rel-*', last: 2"), rules=1)
    addresses = history(world, 5)
    ids = {
        c.message: c.id
        for c in world.lake.catalog.commits.log(world.lake.repository, "main", amount=100).results
    }
    context = world.marked()
    assert set(addresses[1:3]) <= candidates(context)
    revive(world, "rel-1", ids["main 2"])
    world.run(context)
    assert world.data() == {*addresses[1:3], addresses[-1]}
    world.assert_readable("rel-1")


@pytest.mark.parametrize("change", ["longer", "gone"])
def test_rules_that_keep_more_after_the_mark_are_heeded_by_the_re_check(change: str) -> None:
    world = make_world(rules=1)
    addresses = history(world, 4)
    context = world.marked()
    if change == "longer":
        world.rules(100)
    else:
        world.lake.catalog.garbage.delete_gc_rules(world.lake.repository)
    bulk_delete(context, world.runner)
    assert world.data() == set(addresses)


def test_a_head_with_an_empty_metarange_keeps_nothing_and_stops_nothing() -> None:
    world = make_world(policy=policy("last: 1"), rules=1)
    gone = world.commit("a", b"1")
    world.age(days=3)
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "a")
    world.lake.commit("nothing left")
    world.age(days=3)
    world.lake.commit("empty", allow_empty=True)
    world.age(days=3)
    context = world.collected()
    assert world.data() == set()
    assert gone not in world.data()
    assert summary_of(context, "list_committed").counts["metaranges"] >= 1


def test_a_dangling_commit_is_kept_by_a_tag_and_let_go_without() -> None:
    world = make_world(rules=1)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    dangling = history(world, 2, "topic")
    head = catalog.branches.get_branch(name, "topic").commit_id
    catalog.tags.create_tag(name, "v1", head)
    catalog.branches.delete_branch(name, "topic")
    left, sets = kept(world)
    assert left == {dangling[-1]}
    assert (sets["tags"]["commits"], sets["tags"]["ranges"]) == (1, 1)
    assert kept(world, keep_tags=False)[0] == set()


def test_policies_do_not_reach_dangling_commits() -> None:
    world = make_world(policy=policy("last: all"), keep_unnamed_days=0, rules=1)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    history(world, 2, "topic")
    catalog.branches.delete_branch(name, "topic")
    assert kept(world)[0] == set()


@pytest.mark.parametrize("shards", [1 << 20, 2])
def test_a_rule_about_paths_keeps_matching_entries_of_expired_commits(shards: int) -> None:
    world = make_world(
        policy=policy("name: audit, paths: ['audit/**', '*.md']"), tuning={"shard_values": shards}
    )
    world.rules(1)
    world.runner = Parallel()
    addresses = many_paths(world)
    left, sets = kept(world)
    assert left == {
        *addresses["audit/a"],
        *addresses["audit/b/c"],
        *addresses["data.md"],
        addresses["x"][-1],
    }
    # The first commit of the repository has no range.
    assert (sets["policy: audit"]["commits"], sets["policy: audit"]["ranges"]) == (4, 3)
    world.assert_readable()


def parts_of_paths(world: World) -> list[str]:
    return [key for key in world.lake.keys("_lakefs/") if "/dredge/paths/" in key and "/parts/" in key]


def test_what_falls_out_of_the_last_commits_goes_although_the_index_of_paths_has_it() -> None:
    world = make_world(policy=policy("last: 3, paths: 'audit/a'"), rules=1)
    addresses = many_paths(world)["audit/a"]
    assert set(addresses[-3:]) <= kept(world)[0]
    world.commit("x", b"another")
    world.age(days=3)
    left, _ = kept(world)
    assert set(addresses[-2:]) <= left
    assert addresses[-3] not in left


def test_a_damaged_index_of_paths_is_rebuilt_from_the_ranges() -> None:
    world = make_world(policy=policy("paths: 'audit/**'"), rules=1)
    many_paths(world)
    left, _ = kept(world)
    damaged = parts_of_paths(world)
    assert damaged
    for key in damaged:
        world.lake.objects.put(key, b"damaged")
    assert kept(world)[0] == left


@pytest.mark.parametrize("what", ["metarange", "range"])
def test_a_missing_file_that_a_rule_about_paths_needs_stops_the_run(what: str) -> None:
    world = make_world(rules=1)
    many_paths(world)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    log = world.lake.catalog.commits.log(world.lake.repository, "main", amount=100).results
    (oldest,) = (found.metarange_id for found in log if found.message == "0")
    key = f"_lakefs/{oldest}"
    if what == "range":
        (only,) = read_metarange(world.lake.objects.get(key), key)
        key = f"_lakefs/{only.id}"
    open_deleter(world.lake.namespace).delete([key])
    with pytest.raises(RefusedError, match="missing"):
        world.collect(policy=policy("paths: '**'"))
    assert orphan in world.data()
    world.collect()  # nothing else needs it
    assert orphan not in world.data()


def test_full_addresses_under_paths_that_are_no_text_are_kept_too() -> None:
    world = make_world(policy=policy("paths: 'odd/**'"), rules=1)
    old = world.orphan("data/slice/full", b"12345678")
    path = b"odd/\xff\xfe"
    entry = Entry(f"{world.lake.namespace}/{old}", AddressType.FULL, size=8)
    (token,) = world.lake.tokens()
    world.lake.kv.set(token.encode(), path, Staged(path, Value(b"i" * 32, entry.encode())).encode())
    world.lake.commit()
    world.age(days=3)
    (token,) = world.lake.tokens()
    world.lake.kv.set(token.encode(), path, Staged(path, None).encode())
    world.lake.commit()
    history(world, 2)
    assert old in kept(world)[0]
    assert old not in kept(world, policy=None)[0]


def test_a_branch_made_from_an_expired_commit_keeps_by_policy_its_paths() -> None:
    world = make_world(policy=policy("branches: 'rel-*', paths: 'audit/**'"), rules=1)
    addresses = many_paths(world)
    ids = {
        c.message: c.id
        for c in world.lake.catalog.commits.log(world.lake.repository, "main", amount=100).results
    }
    context = world.marked()
    revive(world, "rel-1", ids["1"])
    world.run(context)
    expected = {found[1] for found in addresses.values()} | {found[-1] for found in addresses.values()}
    assert world.data() == {*expected, addresses["audit/a"][0], addresses["audit/b/c"][0]}


def test_a_commit_that_another_rule_knew_already_is_looked_through_for_the_new_one() -> None:
    world = make_world(
        policy=policy("branches: main, paths: 'x'", "branches: 'rel-*', paths: 'audit/**'"), rules=1
    )
    addresses = many_paths(world)
    ids = {
        c.message: c.id
        for c in world.lake.catalog.commits.log(world.lake.repository, "main", amount=100).results
    }
    context = world.marked()
    assert addresses["audit/a"][0] in candidates(context)
    revive(world, "rel-1", ids["1"])
    world.run(context)
    assert addresses["audit/a"][0] in world.data()
    assert addresses["x"][0] in world.data()
    assert addresses["data.md"][0] not in world.data()
