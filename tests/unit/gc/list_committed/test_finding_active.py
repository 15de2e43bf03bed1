"""Every commit that one of the sources calls active is, and none is lost on the way from one to the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.config import AUTO
from dredge.gc.list_committed import sources
from dredge.gc.list_committed.active import OWN, TAGS, ActiveCommits, find_active, take_in_heads
from dredge.gc.list_committed.sources import RECORDS, SERVER, Found, find_history
from dredge.gc.run import Run
from dredge.lakefs import Commit, PreparedCommits, Ref, Rules

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RULES = Rules(10)


def commit(name: str, *parents: str, days: float) -> Commit:
    return Commit(name, parents, NOW - timedelta(days=days), f"m-{name}")


GRAPH = {
    item.id: item
    for item in (
        commit("a", days=90),
        commit("b", "a", days=60),
        commit("c", "b", days=20),
        commit("d", "c", days=5),
        commit("t", "a", days=50),
    )
}
"""a <- b <- c <- d, and t beside them. By the rules c and d are active."""
EXTRA = {"x": commit("x", days=80), "y": commit("y", "x", days=5)}
"""Of a line that no ref leads to: both are active where its commits are known."""
MAIN, TOPIC, TAG = Ref("main", "d"), Ref("topic", "t"), Ref("v1", "b")


class Policy:
    """Keeps commits by rules; notes of which branches it was asked."""

    def __init__(self, *keeps: tuple[str, set[str], tuple[str, ...]]) -> None:
        self._keeps = keeps
        self.asked: list[list[Ref]] = []

    def keeps(self, branches: Collection[Ref], _graph: object) -> list[Any]:
        self.asked.append([*branches])
        return [
            SimpleNamespace(
                rule=SimpleNamespace(name=name, last=3, paths=paths),
                branches=["main"] * bool(commits),
                commits=frozenset(commits),
            )
            for name, commits, paths in self._keeps
        ]


class Server:
    """A lakeFS server that has commits, refs and rules."""

    def __init__(
        self, commits: dict[str, Commit] = GRAPH, rules: Rules | None = RULES, listed: bytes | None = None
    ) -> None:
        self.commits = commits
        self.listed_rules = rules
        self.listed = listed
        self.refs = {"main": "d", "topic": "t", "v1": "b"}

    def branches(self, _: str) -> list[Ref]:
        return [TOPIC, MAIN]

    def tags(self, _: str) -> list[Ref]:
        return [TAG]

    def rules(self, _: str) -> Rules | None:
        return self.listed_rules

    def commit(self, _: str, commit_id: str) -> Commit:
        if commit_id not in self.commits:
            raise NotFoundError("no such commit")
        return self.commits[commit_id]

    def log(self, _: str, ref: str) -> Iterator[Commit]:
        waiting = [self.refs.get(ref, ref)]
        while waiting:
            found = self.commit("", waiting.pop())
            yield found
            waiting.extend(found.parents)

    def prepare_commits(self, *_: object) -> PreparedCommits | None:
        return None if self.listed is None else PreparedCommits("x", "memory://lake/list.csv")


def run_of(server: Server, policy: Policy | None = None, keep_tags: bool = True, **config: Any) -> Run:
    reader = SimpleNamespace(get=lambda _: server.listed)
    safety = SimpleNamespace(prepare_deadline_seconds=1)
    usual = {"read_kv": False, "live_source": AUTO, "safety": safety}
    plan = SimpleNamespace(
        run_id="run",
        repository="lake",
        namespace="memory://lake",
        default_branch="main",
        created_at=NOW,
        config=SimpleNamespace(policy=policy, keep_tags=keep_tags, **{**usual, **config}),
    )
    return cast("Run", SimpleNamespace(plan=plan, client=server, reader=reader))


def csv(*names: str, metarange: str = "") -> bytes:
    rows = [f"{name},false,{metarange or f'm-{name}'}\n" for name in names]
    return ("commit_id,expired,metarange_id\n" + "".join(rows)).encode()


def test_heads_the_servers_list_and_the_own_walk_are_active_together() -> None:
    server = Server(GRAPH | EXTRA, listed=csv("d", "t", "x"))
    found = find_active(run_of(server, keep_tags=False))
    assert found.metaranges == {name: f"m-{name}" for name in ("c", "d", "t", "x")}
    assert found.base == {"d", "t", "x"}
    assert found.sources == {"heads": 2, SERVER: 3, OWN: 3}
    (own,) = found.kept
    assert (own.name, set(own.commits)) == (OWN, {"c", "d", "t"})
    assert [text for text in found.warnings if "left out 1 commits" in text]
    assert (found.branches, found.tags, found.rules) == ([MAIN, TOPIC], [TAG], RULES)
    assert found.graph.keys() == {"a", "b", "c", "d", "t"}
    assert not found.all_commits


def test_where_the_server_lists_all_nothing_is_warned_of() -> None:
    found = find_active(run_of(Server(listed=csv("c", "d", "t")), keep_tags=False))
    assert found.warnings == []
    assert found.metaranges.keys() == {"c", "d", "t"}


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
    assert found.warnings == ["rule 'none' of the retention policy is about no branch that exists"]
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


def test_a_tag_is_followed_only_where_tags_keep() -> None:
    lost = Server(
        {name: item for name, item in GRAPH.items() if name != "b"} | {"d": commit("d", days=5)},
        listed=csv("d", "t"),
    )
    assert "b" not in find_active(run_of(lost, keep_tags=False)).graph
    with pytest.raises(RefusedError, match="does not exist"):
        find_active(run_of(lost))


def test_a_list_that_differs_from_the_log_or_is_empty_stops_the_run() -> None:
    with pytest.raises(FormatError, match="Nothing was deleted"):
        find_active(run_of(Server(listed=csv("d", "t", metarange="another"))))
    with pytest.raises(RefusedError, match="is empty although there are 2 branches"):
        find_active(run_of(Server(listed=csv())))


def test_a_repository_without_branches_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "branches", lambda *_: [])
    with pytest.raises(RefusedError, match="lists no branches of lake"):
        find_active(run_of(Server(listed=csv("d"))))


class Recorded:
    """What the key-value store has."""

    branches = [TOPIC, MAIN]
    tags = [TAG]
    commits = GRAPH | EXTRA


def from_records(monkeypatch: pytest.MonkeyPatch, server: Server, doubt: str = "", **config: Any) -> Found:
    standing = SimpleNamespace(doubt=doubt, location="postgres://x")
    monkeypatch.setattr(sources, "look", lambda *_: (Recorded(), standing))
    return find_history(run_of(server, read_kv=True, **config))


def test_records_give_the_active_commits_of_refs_and_of_lines_that_no_ref_leads_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = from_records(monkeypatch, Server())
    assert found.listed == {RECORDS: {name: f"m-{name}" for name in ("c", "d", "t", "x", "y")}}
    assert (found.branches, found.tags, found.graph) == ([MAIN, TOPIC], [TAG], GRAPH)
    assert (found.rules, found.all_commits, found.records) == (RULES, False, Recorded.commits)
    without = from_records(monkeypatch, Server(rules=None))
    assert (without.listed, without.all_commits) == ({}, True)


@pytest.mark.parametrize("keep_tags", [True, False])
def test_of_records_a_tag_without_its_commit_stops_the_run_where_tags_keep(
    keep_tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorded, "tags", [Ref("v2", "lost")])
    if keep_tags:
        with pytest.raises(RefusedError, match="v2 of lake leads to commit lost"):
            from_records(monkeypatch, Server())
    else:
        assert from_records(monkeypatch, Server(), keep_tags=False).graph == GRAPH


@pytest.mark.parametrize(
    "asked", [{"doubt": "it is a copy"}, {"live_source": "both"}, {"doubt": "x", "live_source": "both"}]
)
def test_in_doubt_or_where_it_is_asked_for_the_server_counts_besides(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = from_records(monkeypatch, Server(listed=csv("d", "t", "b")), **asked)
    assert found.listed[SERVER].keys() == {"b", "d", "t"}
    assert found.listed[RECORDS].keys() == {"c", "d", "t", "x", "y"}
    assert found.records == Recorded.commits
    assert bool([text for text in found.warnings if "lakeFS was asked, too" in text]) == ("doubt" in asked)
    without = from_records(monkeypatch, Server(rules=None), **asked)
    assert without.listed == {RECORDS: {name: f"m-{name}" for name in GRAPH}}
    assert without.all_commits


def test_records_that_differ_from_the_log_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Recorded, "commits", GRAPH | {"c": Commit("c", ("b",), GRAPH["c"].created_at, "another")}
    )
    with pytest.raises(FormatError, match="postgres://x: commit c has metarange"):
        from_records(monkeypatch, Server(listed=csv("d")), doubt="it is a copy")


def test_records_are_read_commits_last() -> None:
    """A ref that is read after the commits may name one that is not among them."""
    asked = []

    class Records:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return list

    sources._Recorded(cast("Any", Records()))
    assert asked == ["branches", "tags", "commits"]


def active(**more: Any) -> ActiveCommits:
    """The commits of main and topic by the rules."""
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
    """What becomes active besides."""
    before = set(found.metaranges)
    take_in_heads(run, found, seen)
    assert all(found.metaranges[name] == f"m-{name}" for name in found.metaranges)
    return found.metaranges.keys() - before


def test_heads_that_branches_have_still_add_nothing_and_ask_nobody() -> None:
    run = cast("Run", SimpleNamespace())
    assert taken_in(active(), run, ("main", "d"), ("topic", "t")) == set()


@pytest.mark.parametrize("records", [{}, GRAPH | EXTRA])
def test_a_head_of_the_scan_keeps_what_it_would_keep_as_a_branch(records: dict[str, Commit]) -> None:
    """By the rule of its branch, also where it is of another line, and whether records or the server tell of it."""
    server = Server(GRAPH | EXTRA)
    assert taken_in(active(records=records), run_of(server), ("main", "b"), ("topic", "t")) == {"b"}
    assert taken_in(active(records=records), run_of(server), ("gone", "y")) == {"x", "y"}
    found = active(records=records)
    assert taken_in(found, run_of(server), ("gone", "y"), ("main", "b")) == {"b", "x", "y"}
    assert found.graph == GRAPH, "what refs lead to is what it was"


def test_what_is_active_already_keeps_the_metarange_that_was_listed() -> None:
    found = active(metaranges={"b": "as listed", "d": "m-d", "t": "m-t"})
    take_in_heads(run_of(Server()), found, [("main", "b")])
    assert found.metaranges == {"b": "as listed", "c": "m-c", "d": "m-d", "t": "m-t"}


def test_what_the_records_have_is_not_asked_of_the_server() -> None:
    run = run_of(Server({}))
    assert taken_in(active(records=GRAPH | EXTRA), run, ("gone", "y")) == {"x", "y"}


def test_where_every_commit_counts_the_whole_history_of_a_head_does() -> None:
    server = Server(GRAPH | EXTRA)
    everything = {"a", "b", "x", "y"}
    assert taken_in(active(all_commits=True), run_of(server), ("gone", "y")) == everything
    assert taken_in(active(), run_of(Server(GRAPH | EXTRA, rules=None)), ("gone", "y")) == everything


def test_a_policy_counts_for_the_heads_of_the_scan() -> None:
    policy = Policy(("all", {"a"}, ()))
    assert taken_in(active(), run_of(Server(), policy), ("main", "b")) == {"a", "b"}
    assert policy.asked == [[Ref("main", "b")]]


def test_a_head_of_the_scan_that_nobody_knows_any_more_stops_the_run() -> None:
    with pytest.raises(RefusedError, match="branch gone was at commit lost while staging was read"):
        taken_in(active(), run_of(Server()), ("gone", "lost"))
    server = Server(EXTRA | GRAPH | {"y": commit("y", "lost", days=5)})
    with pytest.raises(RefusedError, match="leads to commit lost"):
        taken_in(active(), run_of(server), ("gone", "y"))


def test_a_head_that_is_in_the_history_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "commit", lambda *_: pytest.fail("asked"))
    assert taken_in(active(), run_of(Server()), ("main", "b")) == {"b"}
