"""Chance from names, independent of earlier draws.

A history shrinks well when leaving one move out changes nothing else. So no stream of random numbers is shared: every
draw is a hash of the seed and of the names of its subject ("driver 1", "call 17", "latency").
"""

import random
from hashlib import blake2b

_MASK = (1 << 64) - 1


def stable_hash(*names: object) -> int:
    """A 64-bit hash of some names, the same in every process."""
    text = "\x1f".join(map(str, names))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def mix(value: int, number: int) -> int:
    """A 64-bit hash of a hash and a number (splitmix64)."""
    found = (value + number * 0x9E3779B97F4A7C15) & _MASK
    found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & _MASK
    return found ^ (found >> 31)


def unit(value: int) -> float:
    """A number from 0 to less than 1 from a hash."""
    return (value >> 11) / (1 << 53)


def chance_of(*names: object) -> random.Random:
    return random.Random(stable_hash(*names))
