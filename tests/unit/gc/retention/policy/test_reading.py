"""Retention policies as files: what is read, and what each complaint says of file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import ConfigError
from dredge.gc.retention.policy import (
    PolicyRule,
    compile_glob,
    literal_prefix,
    load_policy,
    may_match,
    read_policy,
)

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
        ("version: 1\nkeep:\n  - last: 1\n    paths:\n      - a\n      - 'b['\n", 6, "without ']'"),
        ("version: 1\nkeep:\n  - last: 1\n    paths: ['a\\']\n", 4, "backslash"),
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


@given(st.text("ab/*?[]\\!-", min_size=1, max_size=8), st.text("ab/*?[]", max_size=8))
def test_every_match_begins_with_the_literal_prefix(glob: str, text: str) -> None:
    try:
        pattern = compile_glob(glob)
    except ConfigError:
        return
    if pattern.fullmatch(text):
        assert text.startswith(literal_prefix(glob))


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
    page = (Path(__file__).parents[5] / "docs" / "retention.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    policy = read_policy(example, "docs/retention.md")
    assert [rule.name for rule in policy.rules] == ["releases", "audit", "recent models"]
    assert policy.rules[1] == PolicyRule("audit", ("main",), None, ("audit/**", "*.md"))
    assert compile_glob(policy.rules[2].paths[0]).fullmatch("models/a/b")
