"""Guesses of keys between two known ones: where to look in a range whose records were not read.

Names of objects are numbers, dates and ids between words, so bytes by chance between the ends of a range would nearly
all lie behind every number. A guess keeps what the two ends have in common, and takes the rest from the kinds of
characters that they have there.
"""

from __future__ import annotations

import random
import string
from itertools import takewhile

_DIGITS, _LOWER, _UPPER, _HEX = (
    text.encode()
    for text in (string.digits, string.ascii_lowercase, string.ascii_uppercase, "0123456789abcdef")
)


def between(first: bytes, last: bytes, chance: random.Random) -> bytes:
    """Guess some key between two.

    Args:
        first: a key.
        last: another one, before or after it.
        chance: makes the guess.

    Returns:
        A key that is not smaller than both and not larger than both; it need not be text.
    """
    low, high = sorted((first, last))
    begin = _in_common(low, high)
    end = _in_common(low[len(begin) :][::-1], high[len(begin) :][::-1])[::-1]
    lowest, highest = (key[len(begin) : len(key) - len(end)] for key in (low, high))
    guess = begin + _middle(lowest, highest, chance) + end
    return min(max(guess, low), high)


def _in_common(one: bytes, other: bytes) -> bytes:
    """What both begin with."""
    return bytes(
        letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    )


def _middle(low: bytes, high: bytes, chance: random.Random) -> bytes:
    """Characters of the kinds that the two have in each place, not before the one nor behind the other."""
    is_hex = _is_hex(low + high)
    found = bytearray()
    over = under = False  # whether what was chosen so far is above the lower, below the higher one
    for place in range(max(len(low), len(high))):
        least = low[place] if not over and place < len(low) else 0
        most = 255 if under else high[place] if place < len(high) else 0
        letters = _kind(low[place : place + 1] + high[place : place + 1], is_hex)
        fitting = [letter for letter in letters if least <= letter <= most]
        if not fitting:
            break
        found.append(chance.choice(fitting))
        over, under = over or found[-1] > least, under or found[-1] < most
    return bytes(found)


def _kind(seen: bytes, is_hex: bool) -> list[int]:
    """Every character of the kinds that were seen in a place."""
    found = set(seen)
    for kind in (_HEX,) if is_hex else (_DIGITS, _LOWER, _UPPER):
        if found & set(kind):
            found |= set(kind)
    return sorted(found)


def _is_hex(seen: bytes) -> bool:
    """Whether digits and letters are mixed as in hexadecimal numbers."""
    letters, digits = set(seen) & set(_LOWER), set(seen) & set(_DIGITS)
    return bool(letters and digits) and letters <= set(_HEX)
