"""What keeps commits, and what that costs: tags, our own walk, policies; and changes between runs and while
one runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.retention import path_rules
from dredge.gc.retention.policy import read_policy
from dredge.gc.retention.policy.model import PolicyRule, RetentionPolicy
from dredge.gc.steps import bulk_delete
from dredge.graveler.addresses import AddressType
from dredge.graveler.catalog import Commit as CatalogCommit
from dredge.graveler.committed.commits import commit_id as compute_id
from dredge.graveler.committed.entries import Entry
from dredge.graveler.committed.metaranges import read_metarange
from dredge.graveler.committed.values import Value
from dredge.graveler.staging.area import Staged
from dredge.lakefs import Commit, Ref
from dredge.storage import open_deleter
from tests.support.gc import Parallel, World, make_world, summary_of


def history(
    world: World, count: int = 5, branch: str = "main", days: float = 3, path: str = "a", first: int = 0
) -> list[str]:
    """Commits a few days apart, each overwriting the same path; gives the addresses, oldest first."""
    addresses = []
    for number in range(first, first + count):
        addresses.append(world.upload(path, f"{branch} {path} {number}".encode(), branch))
        world.lake.commit(f"{branch} {number}", branch)
        world.age(days=days)
    return addresses


def policy(*rules: str) -> RetentionPolicy:
    return read_policy("version: 1\nkeep:\n" + "".join(f"  - {{{rule}}}\n" for rule in rules), "policy.yaml")


def kept(world: World, **settings: Any) -> tuple[set[str], dict[str, dict[str, Any]]]:
    """Run; gives what is left, and what the summary says of each kept set."""
    context = world.plan(**settings)
    world.run(context)
    found = summary_of(context, "list_committed").details["kept"]
    return world.data(), {item["name"]: item for item in found}


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


def test_without_the_policy_they_go() -> None:
    world = make_world()
    world.rules(1)
    addresses = history(world, 6)
    left, _ = kept(world)
    assert left == {addresses[-1]}


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
        catalog.create_branch(name, branch, "main", hidden=hidden)
    histories = {branch: history(world, 4, branch) for branch in ("rel-1", "secret", "other")}
    left, _ = kept(world)
    assert left == {*histories["rel-1"][-2:], *histories["secret"][-2:], histories["other"][-1]}


def test_a_rule_about_no_branch_is_told() -> None:
    world = make_world(policy=policy("name: gone, branches: nothing, last: 2"))
    world.rules(1)
    history(world, 2)
    context = world.plan()
    world.run(context)
    assert any("'gone'" in text for text in summary_of(context, "list_committed").warnings)


def test_last_commits_are_counted_along_the_main_line_of_version_0_merges() -> None:
    world = make_world(policy=policy("branches: main, last: 2"))
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    first = world.upload("old", b"first")
    base = world.lake.commit("base")
    catalog.create_branch(name, "side", "main")
    on_side = world.upload("side", b"side", "side")
    catalog.delete_object(name, "side", "old")
    side = world.lake.commit("side", "side")
    on_main = world.upload("main", b"main")
    catalog.delete_object(name, "main", "old")
    main = world.lake.commit("main")
    world.age(days=40)
    merged = _record(world, metarange_id=main.metarange_id, parents=(base.id, side.id), version=0)
    head = _record(world, metarange_id=main.metarange_id, parents=(merged,), version=1)
    catalog.hard_reset(name, "main", head)
    catalog.delete_branch(name, "side")
    world.age(days=40)
    assert kept(world)[0] == {on_main}  # the head and the merge
    assert {first, on_side}.isdisjoint(world.data())


def _record(world: World, **fields: Any) -> str:
    """Make a commit record past the branches; gives its id."""
    commit = CatalogCommit(
        id="", committer="old", message="made", creation_date=world.lake.clock(), generation=9, **fields
    )
    identity = compute_id(
        commit.committer,
        commit.message,
        commit.metarange_id,
        commit.creation_date,
        commit.metadata,
        commit.parents,
    )
    world.lake.catalog.create_commit_record(world.lake.repository, replace(commit, id=identity))
    return identity


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


def many_paths(world: World, count: int = 4) -> dict[str, list[str]]:
    """Commits that overwrite several paths each; gives addresses by path, oldest first."""
    addresses: dict[str, list[str]] = {path: [] for path in ("audit/a", "audit/b/c", "data.md", "x")}
    for number in range(count):
        for path, found in addresses.items():
            found.append(world.upload(path, f"{path} {number}".encode()))
        world.lake.commit(str(number))
        world.age(days=3)
    return addresses


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
    found = sets["policy: audit"]
    assert (found["objects"], found["only_objects"]) == (9, 9)
    assert found["bytes"] == sum(3 * len(f"{path} 0") for path in ("audit/a", "audit/b/c", "data.md"))
    world.assert_readable()


def test_a_rule_about_paths_can_be_bounded_to_the_last_commits_and_to_branches() -> None:
    world = make_world(policy=policy("branches: main, last: 3, paths: 'audit/a'"))
    world.rules(1)
    world.lake.catalog.create_branch(world.lake.repository, "other", "main")
    on_other = history(world, 3, "other", path="audit/a")
    addresses = many_paths(world)
    left, _ = kept(world)
    newest = {found[-1] for found in addresses.values()}
    assert left == {*addresses["audit/a"][-3:], on_other[-1], *newest}


def test_ranges_that_were_looked_through_for_paths_once_are_not_read_again() -> None:
    world = make_world(policy=policy("paths: 'audit/**'"))
    world.rules(1)
    many_paths(world)
    left, _ = kept(world)
    read: list[str] = []
    honest = path_rules.addresses_below

    def noting(data: bytes, name: str, *more: Any) -> Any:
        read.append(name)
        return honest(data, name, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_rules, "addresses_below", noting)
        assert kept(world)[0] == left
        assert read == []
        # Other patterns have an index of their own; what the first ones kept goes now.
        smaller, _ = kept(world, policy=policy("paths: 'audit/a'"))
        assert read != []
    assert smaller < left


def test_what_falls_out_of_the_last_commits_goes_although_the_index_of_paths_has_it() -> None:
    world = make_world(policy=policy("last: 3, paths: 'audit/a'"))
    world.rules(1)
    addresses = many_paths(world)["audit/a"]
    assert set(addresses[-3:]) <= kept(world)[0]
    world.upload("x", b"another")
    world.lake.commit("another")
    world.age(days=3)
    left, _ = kept(world)
    assert set(addresses[-2:]) <= left
    assert addresses[-3] not in left


def test_a_damaged_index_of_paths_is_rebuilt_from_the_ranges() -> None:
    world = make_world(policy=policy("paths: 'audit/**'"))
    world.rules(1)
    many_paths(world)
    left, _ = kept(world)
    damaged = [key for key in world.lake.keys("_lakefs/") if "/dredge/paths/" in key and "/parts/" in key]
    assert damaged
    for key in damaged:
        world.lake.objects.put(key, b"damaged")
    assert kept(world)[0] == left


@pytest.mark.parametrize("what", ["metarange", "range"])
def test_a_missing_file_that_a_rule_about_paths_needs_stops_the_run(what: str) -> None:
    world = make_world()
    world.rules(1)
    many_paths(world)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    log = world.lake.catalog.log(world.lake.repository, "main", amount=100).results
    (oldest,) = (found.metarange_id for found in log if found.message == "0")
    key = f"_lakefs/{oldest}"
    if what == "range":
        (only,) = read_metarange(world.lake.objects.get(key), key).ranges
        key = f"_lakefs/{only.id}"
    open_deleter(world.lake.namespace).delete([key])
    with pytest.raises(RefusedError, match="missing"):
        world.collect(policy=policy("paths: '**'"))
    assert orphan in world.data()
    world.collect()  # nothing else needs it
    assert orphan not in world.data()


def test_full_addresses_under_paths_that_are_no_text_are_kept_too() -> None:
    world = make_world(policy=policy("paths: 'odd/**'"))
    world.rules(1)
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


def test_each_set_is_told_with_what_only_it_keeps() -> None:
    world = make_world(policy=policy("name: two, last: 2", "name: three, last: 3"))
    world.rules(1)
    addresses = history(world, 6)
    commits = {
        found.message: found.id
        for found in world.lake.catalog.log(world.lake.repository, "main", amount=100).results
    }
    world.lake.catalog.create_tag(world.lake.repository, "v0", commits["main 0"])
    world.lake.catalog.create_tag(world.lake.repository, "v4", commits["main 4"])
    left, sets = kept(world)
    assert left == {addresses[0], *addresses[-3:]}
    told = {name: (found["objects"], found["only_objects"]) for name, found in sets.items()}
    assert told == {
        "own walk": (0, 0),
        "tags": (2, 1),  # main 0 alone, main 4 with both rules
        "policy: two": (1, 0),
        "policy: three": (2, 1),
    }


def test_the_report_tells_what_each_set_keeps() -> None:
    world = make_world(policy=policy("name: recent, last: 3", "name: none, last: 1"))
    world.rules(1)
    history(world, 5)
    context = world.plan()
    world.run(context)
    report = context.folder.read_json("report.json")
    (row,) = (row for row in report["rows"] if row["kind"].startswith("policy: "))
    assert (row["kind"], row["verdict"], row["objects"]) == ("policy: recent", "kept", 2)
    assert row["size_bytes"] == 2 * len("main a 0")
    assert "the last 3 commits of 1 branches; 2 of them by nothing else" in row["why"]
    assert [found["name"] for found in report["kept"]] == [
        "own walk",
        "tags",
        "policy: recent",
        "policy: none",
    ]
    assert "policy: recent" in context.folder.writer.get("report.html").decode()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_counts_the_same(dry_run: bool) -> None:
    world = make_world(policy=policy("last: 3"))
    world.rules(1)
    history(world, 5)
    _, sets = kept(world, dry_run=dry_run)
    assert sets["policy: rule 1"]["objects"] == 2


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_staged_or_active_elsewhere_is_not_told_as_kept_by_a_set(dry_run: bool) -> None:
    world = make_world(policy=policy("last: 4"))
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    addresses = history(world, 4)
    # The newest of the expired ones lives on another branch's head, the one before is staged.
    ids = {found.message: found.id for found in catalog.log(name, "main", amount=100).results}
    catalog.create_branch(name, "other", ids["main 2"])
    catalog.stage_object(
        name,
        "other",
        "again",
        physical_address=f"{world.lake.namespace}/{addresses[1]}",
        checksum="c",
        size_bytes=8,
    )
    # The oldest object lives on under another path.
    catalog.stage_object(
        name,
        "main",
        "b",
        physical_address=f"{world.lake.namespace}/{addresses[0]}",
        checksum="c",
        size_bytes=8,
    )
    world.lake.commit()
    left, sets = kept(world, dry_run=dry_run, policy=policy("last: 5"))
    assert left == set(addresses)
    assert (sets["policy: rule 1"]["objects"], sets["policy: rule 1"]["commits"]) == (0, 3)
    catalog.delete_branch(name, "other")
    _, sets = kept(world, dry_run=dry_run, policy=policy("last: 5"))
    assert (sets["policy: rule 1"]["objects"], sets["policy: rule 1"]["commits"]) == (2, 3)


def test_without_rules_nothing_has_to_be_kept() -> None:
    world = make_world(policy=policy("last: 2", "paths: '**'"))
    addresses = history(world, 4)
    left, sets = kept(world)
    assert left == set(addresses)
    assert sets == {}


def revived(world: World, branch: str, commit_id: str) -> Callable[[], None]:
    return lambda: world.lake.catalog.create_branch(world.lake.repository, branch, commit_id)


def test_a_branch_made_from_an_expired_commit_keeps_by_policy_what_lies_before_it() -> None:
    """The re-check applies the policy to branches that the mark did not know."""
    world = make_world(policy=policy("branches: 'rel-*', last: 2"))
    world.rules(1)
    addresses = history(world, 5)
    ids = {c.message: c.id for c in world.lake.catalog.log(world.lake.repository, "main", amount=100).results}
    with world.during("changes", revived(world, "rel-1", ids["main 2"])):
        world.collect()
    assert world.data() == {*addresses[1:3], addresses[-1]}
    world.assert_readable("rel-1")


def test_a_branch_made_from_an_expired_commit_keeps_by_policy_its_paths() -> None:
    world = make_world(policy=policy("branches: 'rel-*', paths: 'audit/**'"))
    world.rules(1)
    addresses = many_paths(world)
    ids = {c.message: c.id for c in world.lake.catalog.log(world.lake.repository, "main", amount=100).results}
    with world.during("changes", revived(world, "rel-1", ids["1"])):
        world.collect()
    expected = {found[1] for found in addresses.values()} | {found[-1] for found in addresses.values()}
    assert world.data() == {*expected, addresses["audit/a"][0], addresses["audit/b/c"][0]}


def test_a_commit_that_another_rule_knew_already_is_looked_through_for_the_new_one() -> None:
    world = make_world(policy=policy("branches: main, paths: 'x'", "branches: 'rel-*', paths: 'audit/**'"))
    world.rules(1)
    addresses = many_paths(world)
    ids = {c.message: c.id for c in world.lake.catalog.log(world.lake.repository, "main", amount=100).results}
    with world.during("changes", revived(world, "rel-1", ids["1"])):
        world.collect()
    assert addresses["audit/a"][0] in world.data()
    assert addresses["x"][0] in world.data()
    assert addresses["data.md"][0] not in world.data()


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
        world.lake.catalog.delete_gc_rules(world.lake.repository)
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


def test_rules_that_change_between_runs_count_from_the_next_run_on() -> None:
    world = make_world()
    world.rules(100)
    addresses = history(world, 4)
    world.collect()
    assert world.data() == set(addresses)
    world.rules(7)
    world.collect()
    assert world.data() == set(addresses[1:])
    world.rules(100)  # what is gone is gone; what is left stays
    world.collect()
    assert world.data() == set(addresses[1:])


def test_a_head_with_an_empty_metarange_keeps_nothing_and_stops_nothing() -> None:
    """A commit that deleted the last object names the empty metarange, a file like any other."""
    world = make_world(policy=policy("last: 1"))
    world.rules(1)
    gone = world.upload("a", b"1")
    world.lake.commit("first")
    world.age(days=3)
    world.lake.catalog.delete_object(world.lake.repository, "main", "a")
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
    catalog.create_branch(name, "topic", "main")
    dangling = history(world, 2, "topic")
    head = catalog.get_branch(name, "topic").commit_id
    catalog.create_tag(name, "v1", head)
    catalog.delete_branch(name, "topic")
    left, sets = kept(world)
    assert left == {dangling[-1]}
    assert sets["tags"]["only_objects"] == 1
    assert kept(world, keep_tags=False)[0] == set()


def test_policies_do_not_reach_dangling_commits() -> None:
    world = make_world(policy=policy("last: all"))
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.create_branch(name, "topic", "main")
    history(world, 2, "topic")
    catalog.delete_branch(name, "topic")
    assert kept(world)[0] == set()


def test_a_hidden_branchs_history_is_judged_like_any_other() -> None:
    world = make_world()
    world.rules(1, secret=100)
    world.lake.catalog.create_branch(world.lake.repository, "secret", "main", hidden=True)
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


def test_an_optimized_run_tells_what_sets_keep_of_what_it_listed() -> None:
    world = make_world(policy=policy("last: 6"), slice_margin_hours=100)
    world.rules(1)
    addresses = history(world, 4)
    kept(world, mode="clean")
    addresses += history(world, 2, days=1.5, first=4)
    context = world.plan(mode="optimized")
    world.run(context)
    assert context.plan.mode == "optimized"
    (found,) = (
        item
        for item in summary_of(context, "list_committed").details["kept"]
        if item["name"] == "policy: rule 1"
    )
    assert 0 < found["objects"] < found["commits"] == 5
    assert set(addresses) <= world.data()


@pytest.mark.parametrize("mode", ["clean", "optimized"])
@pytest.mark.parametrize("other", ["last: 2", "last: 3, paths: 'audit/a'", "paths: '*'", ""])
def test_what_another_policy_lets_go_goes_in_any_kind_of_run(other: str, mode: str) -> None:
    world = make_world()
    world.rules(1)
    addresses = many_paths(world)
    before = policy("last: 3, paths: ['audit/**', '*.md']", "name: x, last: 2")
    first, _ = kept(world, policy=before, mode="clean")
    assert first == {*(address for found in addresses.values() for address in found[-2:])} | {
        addresses[path][-3] for path in ("audit/a", "audit/b/c", "data.md")
    }
    context = world.plan(mode=mode, policy=policy(other) if other else None)
    world.run(context)
    assert context.plan.mode == mode
    keeps = {
        "last: 2": lambda path: 2,
        "last: 3, paths: 'audit/a'": lambda path: 3 if path == "audit/a" else 1,
        "paths: '*'": lambda path: 1 if "/" in path else 4,
        "": lambda path: 1,
    }[other]
    expected = {address for path, found in addresses.items() for address in found[-keeps(path) :]}
    assert world.data() == expected & first
    world.assert_readable()
