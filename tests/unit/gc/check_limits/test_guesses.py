"""Guesses lie between the keys, look like them, and are spread."""

from __future__ import annotations

import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.gc.check_limits.canaries import between

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


DIGITS, LOWER, HEX = string.digits, string.ascii_lowercase, "0123456789abcdef"
