"""A policy as a value: which rules there may be, and which commits and branches each is about."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import ConfigError, FormatError
from dredge.gc.index.ranges import may_match
from dredge.gc.retention import (
    PolicyRule,
    RetentionPolicy,
    compile_glob,
    load_policy,
    main_parent,
    read_policy,
)
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


GOOD = """\
version: 1
keep:
  - name: releases
    branches: ["main", "release-*"]
    last: 10
  - branches: main
    paths: ["audit/**", "*.md"]
  - last: all   # of every branch
"""


def test_a_policy_is_read() -> None:
    policy = read_policy(GOOD, "policy.yaml")
    assert policy.rules == (
        PolicyRule("releases", ("main", "release-*"), 10),
        PolicyRule("rule 2", ("main",), None, ("audit/**", "*.md")),
        PolicyRule("rule 3", ("**",), None),
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "empty"),
        ("# nothing\n", 1, "empty"),
        ("keep: []\n", 1, "no 'version'"),
        ("version: 1\n", 1, "no 'keep'"),
        ("version: 2\nkeep: []\n", 1, "version 2 is unknown"),
        ("version: one\nkeep: []\n", 1, "whole number"),
        ("- 1\n", 1, "'name: value'"),
        ("version: 1\nkeep:\n  last: 1\n", 3, "must be a list"),
        ("version: 1\nversion: 1\nkeep: []\n", 2, "twice"),
        ("version: 1\nkeep:\n  - lats: 1\n", 3, "no 'lats'"),
        ("version: 1\nkeep:\n  - last: 1\n    last: 2\n", 4, "twice"),
        ("version: 1\nkeep:\n  - branches: main\n", 3, "neither 'last'"),
        ("version: 1\nkeep:\n  - last: 0\n", 3, "at least 1"),
        ("version: 1\nkeep:\n  - last: -1\n", 3, "whole number or 'all', not '-1'"),
        ("version: 1\nkeep:\n  - last: 1.5\n", 3, "not '1.5'"),
        ("version: 1\nkeep:\n  - last:\n", 3, "whole number"),
        ("version: 1\nkeep:\n  - last: '1'\n", 3, "not '1'"),
        ("version: 1\nkeep:\n  - last: [1]\n", 3, "not a sequence"),
        ("version: 1\nkeep:\n  - last: 1\n    name:\n", 4, "must be a text"),
        ("version: 1\nkeep:\n  - last: 1\n    name: ~\n", 4, "must be a text"),
        ("version: 1\nkeep:\n  - last: 1\n    name: [a]\n", 4, "must be a text"),
        ("version: 1\nkeep:\n  - last: 1\n    branches: []\n", 4, "empty list"),
        ("version: 1\nkeep:\n  - last: 1\n    paths:\n      - a\n      - ''\n", 6, "must be a text"),
        ("version: 1\nkeep:\n  - last: 1\n    paths:\n      - a\n      - 'b['\n", 3, "without ']'"),
        ("version: 1\nkeep:\n  - last: 1\n    paths: ['a\\']\n", 3, "backslash"),
        ("version: 1\nkeep:\n  - last: 1\n    branches: {a: b}\n", 4, "must be a list"),
        ("version: 1\nkeep:\n  - {name: a, last: 1}\n  - {name: a, last: 2}\n", 4, "rule of line 3"),
        ("version: 1\nkeep:\n  - {name: 'rule 2', last: 1}\n  - {last: 2}\n", 4, "rule of line 3"),
        ("version: 1\nkeep:\n  - last: 1\n    branches: *\n", 4, "in quotes"),
        ("version: 1\nkeep:\n  - last: 1\n   branches: a\n", 4, "not YAML"),
        ("version: 1\nkeep: []\n\x00", 1, "not YAML"),
        ("version: 1\nkeep: !!python/object/apply:os.system ['true']\n", 2, "a rule must"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_policy(text, "dir/policy.yaml")
    assert str(raised.value).startswith(f"dir/policy.yaml:{line}: ")
    assert words in str(raised.value)


def test_a_policy_is_found_by_path_by_uri_and_in_the_value_itself(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(GOOD)
    rules = read_policy(GOOD, "p").rules
    assert load_policy(str(file)).rules == rules
    assert load_policy(f"file://{file}").rules == rules
    assert load_policy(GOOD).rules == rules
    assert load_policy("{version: 1, keep: [{last: 3}]}").rules == (PolicyRule("rule 1", ("**",), 3),)


@pytest.mark.parametrize(
    ("glob", "matched", "others"),
    [
        ("*", ["a", "a b", ""], ["a/b"]),
        ("**", ["a", "a/b", "", "a\nb"], []),
        ("logs/*.txt", ["logs/a.txt", "logs/.txt"], ["logs/x/a.txt", "logs/a.txt.gz", "Logs/a.txt"]),
        ("logs/**", ["logs/a", "logs/x/y"], ["logs", "log/a", "x/logs/a"]),
        ("logs/", ["logs/a", "logs/x/y"], ["logs", "logss/a"]),
        ("**/a.txt", ["a.txt", "x/a.txt", "x/y/a.txt"], ["ba.txt", "x/ba.txt"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("**.md", ["a.md", ".md", "x/y.md"], ["a.mdx", "x/md"]),
        ("x/**", ["x/", "x/a/b"], ["x"]),
        ("a**/b", ["a/b", "ax/b", "a/x/b"], ["ab", "axb"]),
        ("a**b", ["ab", "a/x/b"], ["a/x/c"]),
        ("?.csv", ["a.csv", "é.csv"], ["/.csv", "ab.csv", ".csv"]),
        ("[a-c]1", ["a1", "c1"], ["d1", "/1"]),
        ("[!a-c]1", ["d1", "é1"], ["a1", "/1"]),
        ("[]]x", ["]x"], ["x"]),
        ("[&&~~||]", ["&", "~", "|"], ["a"]),
        ("a.b+(c)$^{2}", ["a.b+(c)$^{2}"], ["axb+(c)$^{2}"]),
        ("\\*\\[x", ["*[x"], ["a[x", "*x"]),
    ],
)
def test_patterns(glob: str, matched: list[str], others: list[str]) -> None:
    pattern = compile_glob(glob)
    assert [text for text in matched if not pattern.fullmatch(text)] == []
    assert [text for text in others if pattern.fullmatch(text)] == []


@given(
    st.text("ab/*?[]", min_size=1, max_size=6),
    st.text("ab/é", max_size=5),
    st.text("ab/é", max_size=5),
    st.text("ab/é", max_size=5),
)
def test_a_range_with_a_matching_path_is_never_left_out(glob: str, path: str, one: str, other: str) -> None:
    try:
        pattern = compile_glob(glob)
    except ConfigError:
        return
    keys = sorted(text.encode() for text in (path, one, other))
    if any(pattern.fullmatch(key.decode()) for key in keys):
        assert may_match([glob], keys[0], keys[-1])


def test_a_range_where_no_path_can_match_is_left_out() -> None:
    assert may_match(["audit/**"], b"a", b"z")
    assert may_match(["audit/**"], b"audit/x", b"audit/y")
    assert not may_match(["audit/**"], b"b", b"z")
    assert not may_match(["audit/**"], b"a", b"audit")
    assert may_match(["audit"], b"a", b"audit")
    assert may_match(["audit"], b"audit", b"b")
    assert may_match(["zzz", "**"], b"b", b"c")


def test_the_example_in_the_documentation_is_a_policy() -> None:
    page = (Path(__file__).parents[4] / "docs" / "retention.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    policy = read_policy(example, "docs/retention.md")
    assert [rule.name for rule in policy.rules] == ["releases", "audit", "recent models"]
    assert policy.rules[1] == PolicyRule("audit", ("main",), None, ("audit/**", "*.md"))
    assert compile_glob(policy.rules[2].paths[0]).fullmatch("models/a/b")
