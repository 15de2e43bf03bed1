"""Patterns of branch names are those of Go's path.Match."""

from __future__ import annotations

import pytest

from dredge.graveler.actions.errors import ActionFileError
from dredge.graveler.actions.globs import matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("main", "main", True),
        ("main", "main2", False),
        ("*", "", True),
        ("feature-*", "feature-a.b", True),
        ("feature-*", "feature-a/b", False),
        ("?ain", "main", True),
        ("[a-m]ain", "main", True),
        ("[^a-l]ain", "main", True),
        ("[^a-m]ain", "main", False),
        ("[xm]ain", "main", True),
        ("[z-a]ain", "main", False),
        (r"\*", "*", True),
        (r"[\]]", "]", True),
        ("a.c", "abc", False),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@pytest.mark.parametrize("pattern", ["[", "[a", "[]", "[a-]", "[-a]", "a\\", "[\\"])
def test_a_malformed_pattern_is_an_error_and_never_a_mismatch(pattern: str) -> None:
    with pytest.raises(ActionFileError, match="syntax error in pattern"):
        matches(pattern, "a")
