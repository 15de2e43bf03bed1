"""The stage of scenes in the trash cleaner's world: runs a day or so apart, frozen operations, moves at a call."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.clock import HOUR
from tests.simulation.history import Move

FREEZES: dict[str, tuple[tuple[str, int], ...]] = {
    "create": (("set", 1), ("set_if", 1), ("set_if", 2), ("set_if", 2), ("set_if", 3)),
    "reset prefix": (("set", 1), ("set_if", 1), ("set_if", 1), ("set_if", 1)),
    "delete": (("set", 1), ("delete", 1), ("delete", 2), ("delete", 4), ("delete_if", 1), ("set_if", 1)),
    "upload": (("set", 1),),
    "commit": (("set", 1), ("set_if", 1), ("set_if", 2)),
    "delete branch": (("delete", 1), ("set", 1)),
    "pull": (("set_if", 1),),
}
"""The operation of the store to freeze before."""
FOR_EVER = 300 * HOUR


@dataclass(frozen=True)
class Stage:
    starts: tuple[float, ...]  # when runs begin, in seconds
    work: float  # about how many seconds a run takes

    def pair(self, chance: random.Random) -> tuple[float, float]:
        """A run, and a later one allowed to remove its findings; the last run twice when none is as late."""
        pairs = [
            (early, late)
            for early in self.starts
            for late in self.starts
            if 24 * HOUR <= late - early <= 31 * HOUR
        ]
        return chance.choice(pairs) if pairs else (self.starts[-1], self.starts[-1])


type Scene = Callable[[random.Random, Stage], list[Move]]


def set_up(name: str, branch: str, at: float, *paths: str) -> list[Move]:
    moves = [Move(at, "create", (name, False)), Move(at + 5, "create branch", (name, branch, "main"))]
    return moves + [
        Move(at + 10 + 3 * number, "upload", (name, branch, path)) for number, path in enumerate(paths)
    ]


def frozen(
    at: float,
    verb: str,
    args: tuple[Any, ...],
    freeze: tuple[str, int],
    seconds: float,
    ahead: float = 0.0,
    moment: tuple[Any, ...] = (),
) -> Move:
    return Move(at, "frozen", (verb, args, *freeze, round(seconds, 3), ahead, moment))


def moment_of(chance: random.Random, about: str = "") -> tuple[Any, ...]:
    """A call that shows a clean's progress: a look at the store, or a deletion, a few times each."""
    calls = [("get snapshot", 6), ("get snapshot", 6), ("scan partitions", 12), ("delete_if", 3)]
    if about:
        calls += [(f"scan b'{about}", 5), (f"scan b'{about}", 5)]
    call, most = chance.choice(calls)
    return "clean", call, 1 + chance.randrange(most)


def by_call(chance: random.Random, at: float, verb: str, args: tuple[Any, ...]) -> Move:
    return Move(max(0.0, at - 1), "when", (*moment_of(chance), verb, *args))
