"""Moves at the moments of other scenes: any kind of move meets any step, and weather with it.

A scene makes its moves at the dangers known to its author, so without this each kind of move happens at the same few
steps in all histories. The draws here need no known danger.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from tests.simulation.history import OF_THE_BASE, Move

SECONDS = (1.0, 30.0, 400.0)
RATES = (0.1, 0.5, 1.0)
CALLS = 12
"""A move comes at one of the first calls, up to this number."""


def displaced(
    chance: random.Random,
    pool: Iterable[Move],
    steps: Sequence[str],
    calls: Sequence[str],
    kinds: Sequence[str],
    at: float,
) -> list[Move]:
    """Draw some moves and some weather for one step, each kind as often as any other."""
    by_verb: dict[str, list[tuple[Any, ...]]] = {}
    for verb, args in map(_made, pool):
        if verb not in OF_THE_BASE:
            by_verb.setdefault(verb, []).append(args)
    found: list[tuple[Any, ...]] = []
    for verb in chance.sample(sorted(by_verb), min(len(by_verb), chance.choice((1, 2, 4)))):
        found.append((verb, *chance.choice(by_verb[verb])))
    for kind in chance.sample(kinds, min(len(kinds), chance.choice((0, 1, 2, 2)))):
        found.append(("weather", kind, chance.choice(SECONDS), chance.choice(RATES)))
    step = chance.choice(steps)
    return [Move(max(0.0, at - 1), "when", (step, *_moment(chance, calls), *each)) for each in found]


def _made(move: Move) -> tuple[str, tuple[Any, ...]]:
    first = {"when": 3, "each": 4}.get(move.verb)
    return (move.verb, move.args) if first is None else (move.args[first], tuple(move.args[first + 1 :]))


def _moment(chance: random.Random, calls: Sequence[str]) -> tuple[str, int]:
    return chance.choice(calls), 1 + int(chance.random() ** 2 * CALLS)
