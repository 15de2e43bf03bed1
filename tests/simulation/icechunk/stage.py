"""The stage of scenes in Icechunk's world: runs, unreferenced objects, and moves at a call."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Move

type More = tuple[tuple[str, Any], ...]
CLEAN: More = (("mode", "clean"),)
AUTO: More = (("mode", "auto"),)
FROM_INVENTORY: More = (("inventory", "memory://inventory/tables"),)
BRANCHES = ("main", "a", "b")


@dataclass(frozen=True)
class Stage:
    name: str  # begins the names of its runs
    start: float  # when the first run begins, in seconds
    length: float  # about how many seconds a run takes

    def run(
        self, number: int, at: float, more: More = (), most: int | None = None, dry: bool = False
    ) -> Move:
        return Move(at, "collect", (f"{self.name}run{number}", dry, most, more))

    def expire(self, number: int, at: float, *args: Any) -> Move:
        return Move(at, "expire", (f"{self.name}expire{number}", *args))


type Scene = Callable[[random.Random, Stage], list[Move]]


def released(chance: random.Random, before: float) -> list[Move]:
    """Commits of some days ago, unreferenced since a while before a time, and sessions without a commit."""
    branch = chance.choice(("a", "b"))
    at = before - chance.choice((30.0, 50.0, 80.0)) * HOUR
    moves = [Move(at - 3 * DAY, "create branch", (branch, chance.randrange(12)))]
    for number in range(chance.choice((1, 2, 3))):
        at_commit = at - 2 * DAY + number * HOUR
        moves.append(
            Move(at_commit, "commit", (branch, chance.choice((1, 2, 5)), 0.0, chance.random() < 0.4))
        )
    for _ in range(chance.choice((1, 2))):
        moves.append(Move(at - 2 * DAY, "abandon", (branch, chance.choice((1, 3)), 0.0)))
    gone = (("reset", (branch, 0)), ("delete branch", (branch,)), ("delete branch", (branch,)))
    moves.append(Move(at, *chance.choice(gone)))
    return [*moves, Move(at + 60, "library expires", (1.0, True))]


def at_call(at: float, role: str, call: str, number: int, verb: str, *args: Any) -> Move:
    """A move made at a step's n-th call of some kind from a time on."""
    return Move(max(0.0, at - 1), "when", (role, call, number, verb, *args))


def few(chance: random.Random, most: int) -> int:
    """A number from 1, mostly a small one."""
    return 1 + int(chance.random() ** 2 * most)
