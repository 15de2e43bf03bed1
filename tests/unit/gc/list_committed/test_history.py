"""The history of refs, and the server's list of active commits."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.list_committed import active_by_rules, load_graph
from dredge.gc.list_committed.active import check_against_graph, close_graph, read_commits_csv
from dredge.lakefs import Commit, LakeFSClient, Ref, Rules
from lakefs_embedded.catalog import Commit as CatalogCommit
from lakefs_embedded.committed.entries import commit_id as compute_id
from tests.support.commits import committed_world
from tests.support.gc import make_world


def test_trap_08_ids_that_look_like_numbers_stay_text() -> None:
    rows = b"commit_id,expired,metarange_id\n1234567890123456e7890,false,\n00012,false,3e8\n"
    assert read_commits_csv(rows, "commits.csv") == {"1234567890123456e7890": "", "00012": "3e8"}


def test_trap_21_a_version_0_merge_follows_its_last_parent() -> None:
    world = make_world(rules=30)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "side", "main")
    on_side = world.upload("side", b"side", "side")
    side = world.lake.commit("side", "side")
    on_main = world.upload("main", b"main")
    main = world.lake.commit("main")
    world.age(days=40)
    merge = CatalogCommit(
        id="",
        committer="old",
        message="merge",
        creation_date=world.lake.clock(),
        metarange_id=main.metarange_id,
        parents=(main.id, side.id),
        version=0,
        generation=9,
    )
    merge = replace(
        merge,
        id=compute_id(
            merge.committer,
            merge.message,
            merge.metarange_id,
            merge.creation_date,
            merge.metadata,
            merge.parents,
        ),
    )
    catalog.commits.create_commit_record(name, merge)
    catalog.branches.hard_reset(name, "main", merge.id)
    catalog.branches.delete_branch(name, "side")
    world.collect_after(days=2)
    # The young merge keeps its main parent, which is the last one: the line of "side".
    assert {on_main, on_side} <= world.data()


def test_trap_41_a_head_without_its_commit_stops_the_run_before_the_server_is_asked() -> None:
    world, kept, orphan = committed_world()
    world.rules(30)
    asked: list[str] = []
    world.client.before = lambda name, _: asked.append(name)
    honest = world.client.branches
    world.client.branches = lambda name: [*honest(name), Ref("broken", "f" * 64)]
    with pytest.raises(RefusedError, match="hard reset"):
        world.collect()
    assert "prepare_commits" not in asked
    assert {kept, orphan} <= world.data()


class OneCommit:
    def __init__(self) -> None:
        self.record = Commit("a" * 64, (), make_world().lake.clock(), "m", 1)

    def log(self, repository: str, ref: str) -> object:
        raise NotFoundError("commit not found")

    def commit(self, repository: str, commit_id: str) -> Commit:
        return self.record


def test_trap_42_a_denied_id_is_looked_up_another_way() -> None:
    graph = load_graph(OneCommit(), "lake", [Ref("main", "a" * 64)])
    assert set(graph) == {"a" * 64}


NOW = datetime(2026, 3, 1, tzinfo=UTC)


def commit(name: str, *parents: str, days: float = 0, version: int = 1) -> Commit:
    return Commit(name, parents, NOW - timedelta(days=days), f"m-{name}", version)


LINE = {item.id: item for item in (commit("a"), commit("b", "a"), commit("c", "b"), commit("d", "c", "b"))}
"""a <- b <- c <- d, which is a merge with b."""


class Server:
    def __init__(self, logs: dict[str, list[str]], commits: dict[str, Commit] = LINE) -> None:
        self.logs = logs
        self.commits = commits
        self.asked: list[str] = []
        self.shown: list[str] = []

    def log(self, _repository: str, ref: str) -> Iterator[Commit]:
        self.asked.append(ref)
        if ref not in self.logs:
            raise NotFoundError("no such ref")
        for name in self.logs[ref]:
            self.shown.append(name)
            yield self.commits[name]

    def commit(self, _repository: str, commit_id: str) -> Commit:
        self.asked.append(commit_id)
        if commit_id not in self.commits:
            raise NotFoundError("no such commit")
        return self.commits[commit_id]


def loaded(server: Server, *refs: Ref, graph: dict[str, Commit] | None = None) -> dict[str, Commit]:
    return load_graph(cast("LakeFSClient", server), "lake", refs, graph)


def test_a_log_without_an_ancestor_is_not_taken_but_followed_by_ids() -> None:
    server = Server({"main": ["d", "c"]})
    assert loaded(server, Ref("main", "d")) == LINE
    assert sorted(server.asked) == ["a", "b", "c", "d", "main"]


def test_of_a_ref_that_has_moved_both_histories_count_and_no_commit_is_asked_for_twice() -> None:
    server = Server({"main": ["c", "b", "a"]})
    assert loaded(server, Ref("main", "d")) == LINE
    assert server.asked == ["main", "d"], "the log shows all but the commit itself"
    moved = LINE | {"x": commit("x"), "y": commit("y", "x")}
    server = Server({"main": ["b", "a"]}, moved)
    assert loaded(server, Ref("main", "y")) == {name: moved[name] for name in ("a", "b", "x", "y")}
    assert server.asked == ["main", "y", "x"]


@pytest.mark.parametrize("lost", ["a", "c", "d"])
def test_history_that_cannot_be_read_to_its_root_is_refused(lost: str) -> None:
    server = Server({}, {name: item for name, item in LINE.items() if name != lost})
    graph: dict[str, Commit] = {}
    with pytest.raises(RefusedError, match=f"commit {lost}"):
        loaded(server, Ref("main", "d"), graph=graph)
    assert graph == {}, "half a history is none"
    with pytest.raises(RefusedError, match=f"commit {lost}"):
        close_graph(server.commits, [Ref("main", "d")], "lake")


def test_in_doubt_a_commit_is_young_by_five_minutes() -> None:
    graph = {"a": commit("a", days=20), "b": commit("b", "a", days=10), "c": commit("c", "b")}
    branches, rules = [Ref("main", "c")], Rules(10)
    for minutes, kept in ((0, {"a", "b", "c"}), (4.9, {"a", "b", "c"}), (5.1, {"b", "c"})):
        found = active_by_rules(graph, branches, rules, NOW + timedelta(minutes=minutes))
        assert found == kept, minutes


def test_a_rule_of_a_branch_counts_for_that_branch() -> None:
    graph = {"a": commit("a", days=40), "b": commit("b", "a", days=30), "c": commit("c", "b", days=20)}
    rules = Rules(1, {"long": 35})
    assert active_by_rules(graph, [Ref("main", "c")], rules, NOW) == {"c"}
    assert active_by_rules(graph, [Ref("long", "c")], rules, NOW) == {"a", "b", "c"}


def test_a_parent_without_a_record_is_refused() -> None:
    with pytest.raises(RefusedError):
        active_by_rules({"b": commit("b", "a")}, [Ref("main", "b")], Rules(10), NOW)


HEADER = b"commit_id,expired,metarange_id\n"


@pytest.mark.parametrize(
    "data",
    [
        b"commit_id,metarange_id,expired\na,m,false\n",
        b"",
        HEADER + b",false,m\n",
        HEADER + b"a,false\n",
        HEADER + b"a,false,m,more\n",
        HEADER + b"a,true,m\n",
        HEADER + b'a,false,"m\n',
        HEADER + b"\xff,false,m\n",
    ],
)
def test_what_is_no_list_of_active_commits_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"commits\.csv"):
        read_commits_csv(data, "commits.csv")


def test_a_list_that_differs_from_the_log_is_refused_and_dangling_commits_are_not_in_the_log() -> None:
    check_against_graph({"a": "m-a", "dangling": "m"}, LINE, "commits.csv")
    changed: Any = LINE | {"a": replace(LINE["a"], metarange_id="another")}
    with pytest.raises(FormatError, match="'another'"):
        check_against_graph({"a": "m-a", "b": "m-b"}, changed, "commits.csv")
