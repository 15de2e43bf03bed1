"""Every commit that one of the sources calls active is, and none is lost on the way from one to the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.errors import RefusedError
from dredge.gc.list_committed.active import (
    OWN,
    TAGS,
    ActiveCommits,
    find_active,
    take_in_heads,
    take_in_tags,
)
from dredge.gc.list_committed.sources import SERVER
from dredge.gc.run import Run
from dredge.lakefs import Commit, Ref, Rules
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


def test_heads_the_servers_list_and_the_own_walk_are_active_together() -> None:
    server = Server(GRAPH | EXTRA, listed=csv("d", "t", "x"))
    found = find_active(run_of(server, keep_tags=False))
    assert found.metaranges == {name: f"m-{name}" for name in ("c", "d", "t", "x")}
    assert found.base == {"d", "t", "x"}
    assert found.sources == {"heads": 2, SERVER: 3, OWN: 3}
    (own,) = found.kept
    assert (own.name, set(own.commits)) == (OWN, {"c", "d", "t"})
    assert found.warnings
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
    with pytest.raises(RefusedError, match=r"\bb\b"):
        find_active(run_of(lost))


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
    with pytest.raises(RefusedError, match=r"gone.*lost"):
        taken_in(active(), run_of(Server()), ("gone", "lost"))
    server = Server(EXTRA | GRAPH | {"y": commit("y", "lost", days=5)})
    with pytest.raises(RefusedError, match="commit lost"):
        taken_in(active(), run_of(server), ("gone", "y"))


@pytest.mark.parametrize(
    ("graph", "records", "server"),
    [(GRAPH, {}, {}), ({}, GRAPH, {}), ({}, {}, GRAPH)],
    ids=["history", "records", "server"],
)
def test_the_commit_of_a_tag_counts_and_is_asked_for_only_where_nothing_read_tells_of_it(
    graph: dict[str, Commit], records: dict[str, Commit], server: dict[str, Commit]
) -> None:
    found = active(graph=graph, records=records)
    take_in_tags(run_of(Server(server)), found, [TAG])
    assert found.metaranges == {name: f"m-{name}" for name in ("b", "c", "d", "t")}


def test_a_tag_of_what_is_active_already_changes_nothing() -> None:
    found = active(metaranges={"b": "as listed"})
    take_in_tags(run_of(Server({})), found, [TAG])
    assert found.metaranges == {"b": "as listed"}


def test_a_tag_of_a_commit_that_nobody_knows_any_more_stops_the_run() -> None:
    with pytest.raises(RefusedError, match=r"v1.*\bb\b"):
        take_in_tags(run_of(Server({})), active(graph={}), [TAG])
