"""A policy as a value: which rules there may be, and which commits and branches each is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError
from dredge.gc.retention.policy import PolicyRule, RetentionPolicy, main_parent
from dredge.lakefs import Commit, Ref
from dredge.runs.payload import from_json, to_json

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BRANCHES = [Ref("main", "d"), Ref("rel/1", "t"), Ref("rel-2", "b")]


def commit(name: str, *parents: str, version: int = 1) -> Commit:
    return Commit(name, parents, NOW, f"m-{name}", version)


GRAPH = {
    found.id: found
    for found in (commit("a"), commit("b", "a"), commit("c", "b"), commit("d", "c", "t"), commit("t", "a"))
}
"""a <- b <- c <- d, and t beside them, which d merges."""


@pytest.mark.parametrize(
    ("last", "expected"), [(1, "d"), (2, "cd"), (3, "bcd"), (4, "abcd"), (5, "abcd"), (None, "abcd")]
)
def test_a_rule_keeps_as_many_commits_of_the_main_line_as_it_says(last: int | None, expected: str) -> None:
    (keep,) = RetentionPolicy((PolicyRule("r", ("main",), last),)).keeps(BRANCHES, GRAPH)
    assert keep.branches == ("main",)
    assert keep.commits == {*expected}


def test_each_rule_is_about_the_branches_that_any_of_its_patterns_names() -> None:
    rules = (
        PolicyRule("two", ("main", "rel-*"), 1),
        PolicyRule("none", ("release",), 1),
        PolicyRule("all", last=1),
        PolicyRule("lines", ("rel*/*",)),
    )
    keeps = RetentionPolicy(rules).keeps(iter(BRANCHES), GRAPH)
    assert [(keep.rule.name, keep.branches, set(keep.commits)) for keep in keeps] == [
        ("two", ("main", "rel-2"), {"b", "d"}),
        ("none", (), set()),
        ("all", ("main", "rel/1", "rel-2"), {"b", "d", "t"}),
        ("lines", ("rel/1",), {"a", "t"}),
    ]


def test_the_main_parent_is_the_first_one_but_of_the_oldest_commits_the_last() -> None:
    assert main_parent(commit("x")) is None
    assert main_parent(commit("x", version=0)) is None
    assert [main_parent(commit("x", "one", "two", version=version)) for version in (0, 1, 2)] == [
        "two",
        "one",
        "one",
    ]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"name": ""}, "name is empty"),
        ({"branches": ()}, "names no branches"),
        ({"last": 0}, "at least 1"),
        ({"last": -1}, "at least 1"),
        ({"branches": ("main", "b[")}, "without ']'"),
        ({"paths": ("ok", "p\\")}, "backslash"),
        ({"paths": ("",)}, "pattern is empty"),
        ({"branches": ("[z-a]",)}, "cannot be read"),
    ],
)
def test_a_rule_that_could_keep_nothing_or_cannot_be_read_is_refused(
    rule: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        PolicyRule(**{"name": "r", **rule})
    assert words in str(raised.value)
    assert PolicyRule("r", last=1).last == 1


def test_a_policy_of_a_plan_that_cannot_be_read_is_refused() -> None:
    known = to_json(RetentionPolicy((PolicyRule("one"),)))
    assert from_json(RetentionPolicy, known).rules == (PolicyRule("one"),)
    for broken in (
        {"name": "p"},
        known | {"rules": [{}]},
        known | {"rules": [{"name": 1}]},
        known | {"rules": [{"name": "one", "last": "2"}]},
        known | {"rules": None},
    ):
        with pytest.raises(FormatError):
            from_json(RetentionPolicy, broken)
