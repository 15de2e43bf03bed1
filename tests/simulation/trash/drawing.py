"""Draws the histories of the trash cleaner's world: runs a day or so apart, and moves between and beside them.

Half of the histories are calm: little more than a scene or two around undisturbed runs.
"""

import random
from collections.abc import Sequence
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.displacing import displaced
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.history import Move
from tests.simulation.trash.cleaner import TASKS
from tests.simulation.trash.moves import BRANCHES, NAMES, draw_move
from tests.simulation.trash.scenes import SCENES
from tests.simulation.trash.stage import FREEZES, Stage
from tests.simulation.weather import KINDS

BY_PEOPLE = ("run", "again", "by hand", "restore", "unqueue")
WEATHER = tuple(kind.name for kind in KINDS if kind.door in ("kv", "store", "any"))
RUN_CALLS = 150
"""Number of a run's calls, roughly."""
DISPLACED = 0.3
"""Share of histories with any kind of move at any step."""
CALM = 0.4
"""Share of histories with little beside a scene."""


def draw_moves(chance: random.Random, focus: Focus = ANYTHING) -> list[Move]:
    """Draw a history; one with a focus on scenes is calm."""
    if not focus and chance.random() < DISPLACED:
        return _ordered(draw_displaced(chance))
    if focus.scenes or chance.random() < CALM:
        return _draw_calm(chance, focus.scenes)
    pace = chance.choice((0.02, 0.2, 2.0))
    moves = [Move(0.0, "pace", (pace,))]
    starts = [0.0]
    for _ in range(chance.choice((1, 2, 3, 4))):
        starts.append(starts[-1] + chance.choice((0.0, 0.01, 24.1, 24.1, 25.0, 25.0, 30.0)) * HOUR + 1)
    moves += _draw_runs(chance, starts, (0.0, 0.0, 0.0, 3 * HOUR, 26 * HOUR))
    work = RUN_CALLS * pace
    end = HOUR + starts[-1] + 2 * work
    for _ in range(chance.choice((1, 2, 4, 6))):
        moves += _draw_frozen(chance, [HOUR + start for start in starts], work)
    for _ in range(chance.choice((5, 15, 30, 60))):
        at = chance.random() * end
        if chance.random() < 0.5:
            at = HOUR + chance.choice(starts) + chance.random() * 2 * work
        if chance.random() < 0.2:
            at = chance.random() * HOUR
        verb, args = draw_move(chance)
        for _ in range(2 if chance.random() < 0.1 else 1):
            moves.append(Move(round(at, 3), verb, args))
            at += chance.random() * 0.2
    return _ordered(moves + _draw_accidents(chance, len(starts), end))


def _draw_calm(chance: random.Random, focus: Sequence[str]) -> list[Move]:
    pace = chance.choice((0.02, 0.2, 2.0))
    starts = [0.0]
    for _ in range(chance.choice((1, 1, 2))):
        starts.append(starts[-1] + chance.choice((24.1, 24.1, 25.0, 30.0)) * HOUR + 1)
    moves = [Move(0.0, "pace", (pace,)), *_draw_runs(chance, starts, (0.0, 0.0, 3 * HOUR))]
    if chance.random() < 0.9:  # of a store without any repository nothing is removed
        moves.append(Move(1.0, "create", ("other", False)))
    stage = Stage(tuple(HOUR + start for start in starts), RUN_CALLS * pace)
    for name in [chance.choice(focus)] if focus else chance.sample(tuple(SCENES), chance.choice((1, 1, 2))):
        moves += SCENES[name](chance, stage)
    for _ in range(chance.choice((0, 0, 3, 8))):
        verb, args = draw_move(chance)
        moves.append(Move(chance.random() * (HOUR + starts[-1]), verb, args))
    return _ordered(moves)


def draw_displaced(chance: random.Random) -> list[Move]:
    """Draw a calm history with unusual moves at one task of a run."""
    moves = _draw_calm(chance, ())
    starts = [move.at for move in moves if move.verb == "run"]
    stage = Stage(tuple(starts), RUN_CALLS * 0.2)
    pool = [move for scene in SCENES.values() for move in scene(chance, stage)]
    pool += [Move(0.0, *draw_move(chance)) for _ in range(60)]
    pool += [Move(0.0, *_draw_by_people(chance, verb, len(starts), 0)) for verb in BY_PEOPLE[1:]]
    pool = [move for move in pool if move.verb != "pace"]
    at = chance.choice(starts)
    return [*moves, *displaced(chance, pool, TASKS, ("scan", "scan", "stat", "get"), WEATHER, at)]


def _ordered(moves: Sequence[Move]) -> list[Move]:
    return [Move(round(max(0.0, move.at), 3), move.verb, move.args) for move in moves]


def _draw_runs(chance: random.Random, starts: Sequence[float], approvals: Sequence[float]) -> list[Move]:
    moves = []
    for number, start in enumerate(starts):
        args = (f"dag{number}", number > 0 and chance.random() < 0.1, chance.choice(approvals))
        moves.append(Move(HOUR + start, "run", args))
    return moves


def _draw_frozen(chance: random.Random, runs: Sequence[float], work: float) -> list[Move]:
    later = chance.choice(runs)
    wakes = later + chance.random() * 1.5 * work
    # Often it froze right before a run that saw its traces a day before.
    days = [run for run in runs if run <= later - 24 * HOUR]
    if days and chance.random() < 0.7:
        began = chance.choice(days) - 60 - chance.random() * 600
    else:
        began = max(60.0, wakes - chance.choice((1.0, 20.0, 24.5)) * HOUR)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    verb = chance.choice(tuple(FREEZES))
    call, number = chance.choice(FREEZES[verb])
    given: dict[str, tuple[Any, ...]] = {
        "create": (name, False),
        "delete": (name,),
        "upload": (name, branch, "x/1"),
        "pull": (name, branch, "main"),
    }
    args = given.get(verb, (name, branch))
    before = (
        ("create", (name, False)),
        ("create branch", (name, branch, "main")),
        ("upload", (name, branch, "x/1")),
    )
    after: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    if verb == "delete":
        after = (("delete", (name,)), *before, ("commit", (name, branch)))
    elif chance.random() < 0.5:
        after = (("reset", (name, branch)),)
    moves = [
        Move(round(began - 50 + 10 * n, 3), *each)
        for n, each in enumerate(before if verb != "create" else ())
    ]
    seconds = round(wakes - began, 3)
    if chance.random() < 0.5:  # it wakes in the very moment in which something is about to go
        seconds = -float(chance.choice((1, 1, 2, 3, 5)))
    moves.append(Move(round(began, 3), "frozen", (verb, args, call, number, seconds, 0.0, ())))
    return moves + [Move(round(began + 20 + 10 * n, 3), *each) for n, each in enumerate(after)]


def _draw_accidents(chance: random.Random, runs: int, end: float) -> list[Move]:
    moves = []
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        begin, seconds = chance.random() * end, chance.random() ** 2 * end
        spell = (chance.choice(WEATHER), round(seconds, 2), chance.choice((0.01, 0.1, 0.5)))
        moves.append(Move(round(begin, 3), "weather", spell))
    for _ in range(chance.choice((0, 1, 2, 4))):
        moves.append(Move(0.0, "kill", (_draw_process(chance, runs), chance.randrange(1, 150))))
    for _ in range(chance.choice((0, 1, 2))):
        seconds = chance.choice((30.0, 400.0, 2 * HOUR, 20 * HOUR, 20 * HOUR, 30 * HOUR, 50 * HOUR))
        moves.append(Move(0.0, "sleep", (_draw_process(chance, runs), chance.randrange(1, 150), seconds)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        at = round(chance.random() * (end + DAY), 3)
        verb = chance.choice(BY_PEOPLE[1:])
        moves.append(Move(at, *_draw_by_people(chance, verb, runs, len(moves))))
    return moves


def _draw_by_people(chance: random.Random, verb: str, runs: int, number: int) -> tuple[str, tuple[Any, ...]]:
    args: dict[str, tuple[Any, ...]] = {
        "again": (f"dag{chance.randrange(runs)}",),
        "by hand": (f"hand{number}",),
        "restore": (chance.randrange(4),),
    }
    return verb, args.get(verb, ())


def _draw_process(chance: random.Random, runs: int) -> str:
    if chance.random() < 0.5:
        return f"server{chance.randrange(2)}"
    return f"dag{chance.randrange(runs)} {chance.choice(TASKS)}"
