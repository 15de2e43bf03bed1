"""Which commits are active: each of these loses data with a collector that trusts one answer."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import DredgeError, RefusedError
from dredge.gc.list_committed import ActiveCommits, find_active, take_in_heads, take_in_tags
from dredge.gc.list_committed.active import OWN, TAGS
from dredge.gc.run import Run
from dredge.lakefs import Commit, PreparedCommits, Rules
from tests.support.commits import committed_world
from tests.support.few_commits import (
    EXTRA,
    GRAPH,
    MAIN,
    RULES,
    TAG,
    TOPIC,
    Policy,
    Server,
    commit,
    csv,
    run_of,
)
from tests.support.gc import make_world, seen_with, summary_of


def test_trap_02_no_rules_means_that_every_commit_is_active() -> None:
    """Vendor: its fallback for "no rules" finds no committed address at all and deletes every one."""
    world = make_world()
    first = world.commit("a", b"first")
    second = world.commit("a", b"second")
    orphan = world.orphan("data/orphan")
    world.age(days=400)
    context = world.collected()
    assert world.data() == {first, second}
    assert orphan not in world.data()
    assert summary_of(context, "list_committed").counts["active_commits"] == 3


def test_trap_02_without_rules_dangling_commits_count_too() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    dangling = world.commit("topic", b"topic", "topic")
    catalog.branches.delete_branch(name, "topic")
    world.age(days=400)
    context = world.collected()
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
        world = make_world(keep_tags=keep_tags, rules=1)
        tagged = world.upload("a", b"first")
        commit = world.lake.commit("first")
        world.lake.catalog.tags.create_tag(world.lake.repository, "v1", commit.id)
        for content in (b"second", b"third"):
            world.age(days=3)
            world.commit("a", content)
        world.collect_after(days=3)
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
        world.commit("x", b"old", "one")
        world.age(days=59)
        world.commit("x", b"young", "two")
        world.commit("x", b"main")
        world.lake.catalog.branches.hard_reset(
            name, "main", catalog.branches.get_branch(name, "one").commit_id
        )
        if dangling:
            catalog.branches.delete_branch(name, "two")
        world.age(days=2)
        context = world.collected()
        assert replaced in world.data()
        summary = context.folder.read_summary("list_committed")
        assert summary is not None
        lost = any("walk" in text for text in summary.warnings)
        if lost:
            (own,) = (found for found in summary.details["kept"] if found["name"] == OWN)
            assert (own["commits"], own["ranges"]) == (1, 1)
    assert lost, "the server's walk never lost the commit, so the test proved nothing"


def test_trap_29_rules_of_zero_days_are_no_rules() -> None:
    world = make_world()
    first = world.commit("a", b"first")
    second = world.commit("a", b"second")
    world.rules(0)
    world.collect_after(days=400)
    assert world.data() == {first, second}


def test_trap_30_a_branch_that_was_made_again_falls_under_the_rule_of_its_name() -> None:
    world = make_world()
    world.rules(1, main=100)
    first = world.commit("a", b"first")
    world.age(days=20)
    world.commit("a", b"second")
    world.collect_after(days=20)
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


def test_tags_and_rules_of_a_policy_keep_commits_and_rules_about_paths_only_name_them() -> None:
    policy = Policy(("all", {"a"}, ()), ("logs", {"b"}, ("logs/*",)), ("none", set(), ()))
    found = find_active(run_of(Server(listed=csv("c", "d", "t")), policy))
    assert found.metaranges.keys() == {"a", "b", "c", "d", "t"}
    assert {item.name: set(item.commits) for item in found.kept} == {
        OWN: {"c", "d", "t"},
        TAGS: {"b"},
        "policy: all": {"a"},
        "policy: logs": {"b"},
        "policy: none": set(),
    }
    assert found.path_commits == {("policy: logs", "b")}
    assert ["'none'" in text for text in found.warnings] == [True]
    assert policy.asked == [[MAIN, TOPIC]]
    without = find_active(run_of(Server(listed=csv("c", "d", "t")), policy, keep_tags=False))
    assert without.metaranges.keys() == {"a", "c", "d", "t"}
    assert found.sources["policy: logs"] == 1


@pytest.mark.parametrize(
    ("rules", "listed", "warns"), [(None, None, False), (None, csv("d"), True), (RULES, None, False)]
)
def test_without_rules_or_a_list_every_commit_is_active(
    rules: Rules | None, listed: bytes | None, warns: bool
) -> None:
    found = find_active(run_of(Server(rules=rules, listed=listed)))
    assert found.all_commits
    assert found.metaranges == {name: f"m-{name}" for name in GRAPH}
    assert found.base == GRAPH.keys()
    assert [item.name for item in found.kept] == [TAGS]
    assert found.sources["all"] == len(GRAPH)
    assert bool(found.warnings) == warns


def active(**more: Any) -> ActiveCommits:
    usual: dict[str, Any] = {
        "metaranges": {name: f"m-{name}" for name in ("c", "d", "t")},
        "base": set(),
        "kept": [],
        "sources": {},
        "all_commits": False,
        "branches": [MAIN, TOPIC],
        "tags": [],
        "graph": GRAPH,
    }
    return ActiveCommits(**{**usual, **more})


def taken_in(found: ActiveCommits, run: Run, *seen: tuple[str, str]) -> set[str]:
    before = set(found.metaranges)
    take_in_heads(run, found, seen)
    assert all(found.metaranges[name] == f"m-{name}" for name in found.metaranges)
    return found.metaranges.keys() - before


@pytest.mark.parametrize("records", [{}, GRAPH | EXTRA])
def test_a_head_of_the_scan_keeps_what_it_would_keep_as_a_branch(records: dict[str, Commit]) -> None:
    server = Server(GRAPH | EXTRA)
    assert taken_in(active(records=records), run_of(server), ("main", "b"), ("topic", "t")) == {"b"}
    assert taken_in(active(records=records), run_of(server), ("gone", "y")) == {"x", "y"}
    found = active(records=records)
    assert taken_in(found, run_of(server), ("gone", "y"), ("main", "b")) == {"b", "x", "y"}
    assert found.graph == GRAPH, "what refs lead to is what it was"


def test_a_head_of_the_scan_that_nobody_knows_any_more_stops_the_run() -> None:
    with pytest.raises(RefusedError, match=r"gone.*lost"):
        taken_in(active(), run_of(Server()), ("gone", "lost"))
    server = Server(EXTRA | GRAPH | {"y": commit("y", "lost", days=5)})
    with pytest.raises(RefusedError, match="commit lost"):
        taken_in(active(), run_of(server), ("gone", "y"))


def test_a_tag_of_a_commit_that_nobody_knows_any_more_stops_the_run() -> None:
    with pytest.raises(RefusedError, match=r"v1.*\bb\b"):
        take_in_tags(run_of(Server({})), active(graph={}), [TAG])


class Asked(Server):
    def __init__(self, extra: dict[str, Commit], *listed: str, rules: Rules | None = RULES) -> None:
        super().__init__(GRAPH | extra, rules, csv("c", "d", "t", *listed))
        self.asked: list[str] = []
        self.logs: list[str] = []
        self.paged: list[str] = []

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        self.logs.append(ref)
        for found in super().log(repository, ref):
            self.paged.append(found.id)
            yield found

    def commit(self, repository: str, commit_id: str) -> Commit:
        if repository:
            self.asked.append(commit_id)
        return super().commit(repository, commit_id)


def found_active(server: Server) -> ActiveCommits:
    return find_active(run_of(server, keep_tags=False))


def kept(server: Server) -> set[str]:
    return found_active(server).metaranges.keys() - {"c", "d", "t"}


def test_the_parent_of_a_young_commit_is_active_though_the_servers_walk_left_it_out() -> None:
    server = Asked(EXTRA, "y")
    found = found_active(server)
    assert found.metaranges["x"] == "m-x"
    (own,) = found.kept
    assert (own.name, set(own.commits)) == (OWN, {"c", "d", "t", "x"})
    assert found.warnings
    assert "x" not in found.graph, "no ref leads there"
    assert server.asked == ["y", "x"]


def test_a_line_is_followed_as_long_as_it_is_young_also_where_refs_lead_to_it() -> None:
    line = {
        "z": commit("z", "w", days=3),
        "w": commit("w", "u", days=4),
        "u": commit("u", "b", days=5),
    }
    server = Asked(line, "z")
    assert kept(server) == {"z", "w", "u", "b"}
    assert server.asked == ["z", "w"], "u comes with the log of w, and b is in the history of a branch"


@pytest.mark.parametrize(
    ("parents", "asked"),
    [(("w",), ["y", "x"]), (("w", "b"), ["y", "x"]), (("w", "lost"), ["y", "x", "w"])],
    ids=["one", "merge", "merge of what is lost"],
)
def test_a_young_commit_behind_an_old_one_keeps_its_parent_as_well(
    parents: tuple[str, ...], asked: list[str]
) -> None:
    """Clients give commits any date. The rest of a line is read by pages; one that lakeFS cannot give, by commits."""
    line = {
        "y": commit("y", "x", days=5),
        "x": commit("x", *parents, days=80),
        "w": commit("w", "v", days=3),
        "v": commit("v", days=85),
    }
    server = Asked(line, "y")
    assert kept(server) == {"y", "x", "v"}
    assert server.asked == asked


def test_more_days_than_a_calendar_has_keep_all() -> None:
    assert kept(Asked(EXTRA, "y", rules=Rules(10**7))) == {"x", "y", "a", "b"}
    assert kept(Asked(EXTRA, "y", rules=Rules(-(10**7)))) == {"y"}


def test_a_commit_of_the_list_that_is_not_there_stops_the_run() -> None:
    with pytest.raises(RefusedError, match=r"\bx\b"):
        kept(Asked({"y": EXTRA["y"]}, "y"))
