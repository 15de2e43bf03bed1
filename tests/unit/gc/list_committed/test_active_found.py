"""Every commit that one of the sources calls active is, and none is lost on the way from one to the other."""

from __future__ import annotations

from typing import Any

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
from dredge.gc.run import Run
from dredge.lakefs import Commit, Rules
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


@pytest.mark.parametrize("records", [{}, GRAPH | EXTRA])
def test_a_head_of_the_scan_keeps_what_it_would_keep_as_a_branch(records: dict[str, Commit]) -> None:
    """By the rule of its branch, also where it is of another line, and whether records or the server tell of it."""
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
