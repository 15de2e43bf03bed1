"""Guesses lie between the keys, look like them, and are spread."""

from __future__ import annotations

import random
import string

from hypothesis import given
from hypothesis import strategies as st

from dredge.gc.check_limits.canaries import between

KEYS = st.binary(max_size=12)


@given(KEYS, KEYS, st.integers(0, 9))
def test_a_guess_lies_between(first: bytes, last: bytes, seed: int) -> None:
    low, high = sorted((first, last))
    assert low <= between(first, last, random.Random(seed)) <= high


DIGITS, LOWER, HEX = string.digits, string.ascii_lowercase, "0123456789abcdef"
