"""Scenes of the trash cleaner's world with late or restored rows: hook runs, removed rows, tokens queued by mistake,
queued changes with one more row.
"""

import random
from collections.abc import Callable
from typing import Any

from tests.simulation.clock import HOUR
from tests.simulation.history import Move
from tests.simulation.trash.moves import BRANCHES, NAMES
from tests.simulation.trash.stage import FOR_EVER, Stage, by_call, frozen, moment_of, set_up


def hook_run_ends_late(chance: random.Random, stage: Stage) -> list[Move]:
    """A hook run of a day and more ends while the traces of its beginning are about to be deleted."""
    early, late = stage.pair(chance)
    name = chance.choice(NAMES)
    at = max(0.0, early - chance.choice((200.0, 900.0, HOUR)))
    moves = [Move(max(0.0, at - 30), "create", (name, False)), Move(at, "begin hook run", (name,))]
    return [*moves, by_call(chance, late, "end hook run", (name,))]


def taken_back(chance: random.Random, stage: Stage) -> list[Move]:
    """A run's removals are restored, and the next run follows within the grace."""
    early, late = stage.pair(chance)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    began = early - 60 - chance.random() * 300
    if chance.random() < 0.5:
        moves = [frozen(began, "create", (name, False), chance.choice((("set", 1), ("set_if", 2))), FOR_EVER)]
    else:
        moves = set_up(name, branch, began - 60, "x/1", "y")
        moves.append(frozen(began, "reset prefix", (name, branch), ("set_if", 1), FOR_EVER))
    back = late + stage.work * chance.choice((1.0, 2.0, 3.0)) + 60
    moves.append(Move(back, "restore", (chance.randrange(4),)))
    for number in range(chance.choice((1, 2))):
        after = back + chance.choice((300.0, HOUR, 9 * HOUR, 25 * HOUR))
        moves.append(Move(after, "run", (f"after{number}", False, 0.0)))
    return moves


def queued_by_mistake(chance: random.Random, stage: Stage) -> list[Move]:
    """A live token is removed from the drop queue, and this is undone."""
    start = chance.choice(stage.starts)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    at = max(0.0, start - chance.choice((300.0, HOUR)))
    moves = [*set_up(name, branch, at, "x/1"), Move(at + 40, "queue a live token", (name, branch))]
    moves.append(Move(at + 60, "unqueue"))
    return [*moves, Move(at + chance.choice((100.0, 2 * HOUR)), "restore", (chance.randrange(3),))]


def late_into_a_queue(chance: random.Random, stage: Stage) -> list[Move]:
    """Queued staged changes without a branch get one more row, between two looks or within a run."""
    early, late = stage.pair(chance)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES[1:])
    began = early - 100 - chance.random() * 300
    moves = set_up(name, branch, began - 60, *chance.choice(((), ("x/1",))))
    seconds, moment = (late - early) * chance.random() + early - began, ()
    if chance.random() < 0.6:
        seconds, moment = late - began - 1, moment_of(chance, f"{name}-{branch}:")
    moves.append(frozen(began, "upload", (name, branch, "x/2"), ("set", 1), seconds, moment=moment))
    stops = "delete", chance.choice((1, 2, 2, 3))
    moves.append(frozen(began + 20, "delete branch", (name, branch), stops, FOR_EVER))
    return moves


def put_back(chance: random.Random, stage: Stage) -> list[Move]:
    """The store, or one of its tables, is restored to an earlier time, between two looks or within a run."""
    early, late = stage.pair(chance)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    at = early - chance.choice((900.0, 3000.0))
    moves = [*set_up(name, branch, at, "x/1"), Move(at + 30, "back up", ())]
    for number in range(chance.choice((1, 2, 3))):
        moves.append(Move(at + 60 + 20 * number, *chance.choice(SINCE)(name, branch)))
    moves.append(Move(at + 130, "upload", (name, chance.choice(("main", branch, "since")), "x/2")))
    back = chance.choice((("put database back", ()), *(("put table back", (table,)) for table in range(3))))
    if chance.random() < 0.3:
        return [*moves, by_call(chance, late, *back)]
    return [*moves, Move(chance.choice((early - 60, early + HOUR, early + HOUR, late - HOUR)), *back)]


SINCE: tuple[Callable[[str, str], tuple[str, tuple[Any, ...]]], ...] = (
    lambda name, _branch: ("create branch", (name, "since", "main")),
    lambda name, branch: ("commit", (name, branch)),
    lambda name, branch: ("upload", (name, branch, "y")),
    lambda name, branch: ("delete branch", (name, branch)),
    lambda name, _branch: ("delete", (name,)),
    lambda name, branch: ("reset", (name, branch)),
)
"""Possible actions since the backup."""

SCENES = (hook_run_ends_late, taken_back, queued_by_mistake, late_into_a_queue, put_back)
