"""Guesses lie between the keys, look like them, and are spread."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.gc.check_limits.guesses import _middle, between

KEYS = st.binary(max_size=12)


@given(KEYS, KEYS, st.integers(0, 9))
def test_a_guess_lies_between(first: bytes, last: bytes, seed: int) -> None:
    low, high = sorted((first, last))
    assert low <= between(first, last, random.Random(seed)) <= high


@pytest.mark.parametrize(
    ("first", "last", "form"),
    [
        ("t/part-000123.parquet", "t/part-004567.parquet", r"t/part-00[0-4][0-9]{3}\.parquet"),
        ("a/0f3c9e", "a/e1d200", r"a/[0-9a-e][0-9a-f]{5}"),
        ("day=2024-01-03/x", "day=2025-12-09/y", r"day=202[45]-[0-9]{2}-[0-9]{2}/[a-z]"),
    ],
)
def test_a_guess_looks_like_the_keys_and_is_seldom_the_same(first: str, last: str, form: str) -> None:
    chance = random.Random(3)
    found = {between(first.encode(), last.encode(), chance).decode() for _ in range(100)}
    like = [guess for guess in found if re.fullmatch(form, guess)]
    assert len(found) > 80
    assert len(like) > 0.8 * len(found)


class Every:
    """Makes every choice, one after the other: what any chance could come to."""

    def __init__(self) -> None:
        self.left: list[list[int]] = [[]]

    def guesses(self, low: bytes, high: bytes) -> set[str]:
        found = set()
        while self.left:
            self.path, self.place = self.left.pop(), 0
            chance: Any = self
            found.add(_middle(low, high, chance).decode())
        return found

    def choice(self, letters: Sequence[int]) -> int:
        if self.place == len(self.path):
            self.left += [[*self.path, other] for other in letters[1:]]
            self.path.append(letters[0])
        self.place += 1
        return self.path[self.place - 1]


def numbers(first: int, last: int, width: int) -> set[str]:
    return {f"{number:0{width}}" for number in range(first, last + 1)}


DIGITS, LOWER, HEX = string.digits, string.ascii_lowercase, "0123456789abcdef"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("09", "20", numbers(9, 20, 2)),
        ("099", "201", numbers(99, 201, 3)),
        ("895", "902", numbers(895, 902, 3)),
        ("0", "9", set(DIGITS)),
        ("7", "7", {"7"}),
        ("1", "z", {*DIGITS[1:], *LOWER}),
        ("a", "h", set(LOWER[:8])),
        ("A", "c", {*string.ascii_uppercase, *"abc"}),
        ("aa", "ff", {a + b for a in "abcdef" for b in LOWER if "aa" <= a + b <= "ff"}),
        ("99", "aa", {a + b for a in "9a" for b in HEX if "99" <= a + b <= "aa"}),
        ("9g", "ag", {a + b for a in "9a" for b in LOWER if "9g" <= a + b <= "ag"}),
        ("1", "12", {"10", "11", "12"}),
        ("12", "5", {*numbers(12, 19, 2), *numbers(20, 49, 2), "5"}),
        ("", "2", {"0", "1", "2"}),
        ("-", "_", {"-", "_"}),
    ],
)
def test_every_text_of_the_same_kinds_between_the_two_may_be_guessed_and_no_other(
    low: str, high: str, expected: set[str]
) -> None:
    """Also where the one is longer; what both begin and end with is no matter of chance."""
    assert Every().guesses(low.encode(), high.encode()) == expected
