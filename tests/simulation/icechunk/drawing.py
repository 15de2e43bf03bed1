"""Draws the histories of Icechunk's world: a past of some weeks, then some runs with writers around them.

Many histories are calm: little more than a scene with its runs.
"""

import random
from collections.abc import Sequence
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.displacing import displaced
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.history import Move
from tests.simulation.icechunk.maintenance import STEPS, TASKS
from tests.simulation.icechunk.scenes import SCENES
from tests.simulation.icechunk.stage import AUTO, CLEAN, Stage, released
from tests.simulation.icechunk.writers import draw_write
from tests.simulation.weather import KINDS

WEATHER = tuple(kind.name for kind in KINDS if kind.door in ("store", "any"))
DISPLACED = 0.3
"""Share of histories with any kind of move at any step."""
PAST_DAYS = 20
CALM = 0.5
"""Share of histories with little beside a scene."""


def draw_moves(chance: random.Random, focus: Focus = ANYTHING) -> list[Move]:
    """Draw a history; one with a focus on scenes is calm."""
    pace = chance.choice((0.02, 0.2, 2.0))
    moves = [Move(-30.0, "pace", (pace,))]
    length = 300 * pace
    if not focus and chance.random() < DISPLACED:
        return _ordered(moves + draw_displaced(chance, length))
    if focus.scenes or chance.random() < CALM:
        moves += _draw_past(chance, chance.choice((0, 2, 8)))
        scene = chance.choice(focus.scenes or tuple(SCENES))
        moves += SCENES[scene](chance, Stage("calm", 0.0, length))
        return _ordered(moves)
    moves += _draw_past(chance, chance.choice((5, 15, 30)))
    starts = [0.0]
    for _ in range(chance.choice((0, 1, 2, 3))):
        starts.append(
            starts[-1] + chance.choice((0.0, 1.0, 25.0, 25.0, 60.0)) * HOUR + chance.random() * length
        )
    moves += [_draw_run(chance, number, start) for number, start in enumerate(starts)]
    end = starts[-1] + length
    for _ in range(chance.choice((0, 5, 15, 30))):
        at = chance.random() * end
        if chance.random() < 0.6:
            at = chance.choice(starts) + chance.random() * length
        if chance.random() < 0.4:
            moves.append(_at_work(chance, at, *draw_write(chance)))
        else:
            moves.append(Move(round(at, 3), *draw_write(chance)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        moves += _come_back(chance, starts)
    if chance.random() < 0.3:
        start = chance.choice((0.0, chance.random() * end))
        moves += SCENES[chance.choice(tuple(SCENES))](chance, Stage("scene", start, length))
    return _ordered(moves + _draw_accidents(chance, len(starts), end))


def draw_displaced(chance: random.Random, length: float) -> list[Move]:
    """Draw two runs and an expiration with something to delete, and one step with unusual moves."""
    stage, late = Stage("calm", 0.0, length), chance.choice((25.0, 26.0, 50.0)) * HOUR
    moves = [*_draw_past(chance, chance.choice((2, 8))), *released(chance, 0.0), *released(chance, 0.0)]
    moves += [stage.run(0, 0.0), stage.run(1, late, chance.choice((CLEAN, AUTO, ())))]
    rule = chance.choice(("document", "spec_v1")), chance.choice((0.0, 2.0)), False, False
    moves.append(stage.expire(0, chance.choice((0.0, late)) + 2 * length, *rule))
    pool = [move for scene in SCENES.values() for move in scene(chance, stage)]
    pool += [Move(0.0, *draw_write(chance)) for _ in range(60)]
    pool += [Move(0.0, *_draw_by_people(chance)), Move(0.0, "again", (f"calmrun{chance.randrange(2)}",))]
    pool = [move for move in pool if move.verb != "pace"]
    calls, at = ("get", "get", "put", "list"), chance.choice((0.0, late, late))
    return [*moves, *displaced(chance, pool, STEPS, calls, WEATHER, at)]


def _ordered(moves: Sequence[Move]) -> list[Move]:
    # What belongs before the past is done right before its end.
    return [
        Move(round(move.at, 3), move.verb, move.args) for move in moves if move.at >= -(PAST_DAYS + 10) * DAY
    ]


def _draw_past(chance: random.Random, most: int) -> list[Move]:
    moves = []
    at = -PAST_DAYS * DAY
    for _ in range(most):
        at += chance.random() ** 2 * 3 * DAY
        if at >= -60:
            break
        moves.append(Move(at, *draw_write(chance)))
    return moves


def _at_work(chance: random.Random, at: float, verb: str, args: tuple[Any, ...]) -> Move:
    call = chance.choice(("get", "get", "put", "list", "delete"))
    number = 1 + int(chance.random() ** 2 * 12)
    return Move(round(max(0.0, at), 3), "when", (chance.choice(STEPS[:4]), call, number, verb, *args))


def _come_back(chance: random.Random, starts: Sequence[float]) -> list[Move]:
    branch = chance.choice(("a", "b"))
    released = -chance.random() * 3 * DAY
    moves = [
        Move(-9 * DAY, "create branch", (branch, chance.randrange(12))),
        Move(-8 * DAY, "commit", (branch, chance.choice((1, 2, 5)), 0.0, True)),
        Move(-7 * DAY, "commit", (branch, 1, 0.0, True)),
        Move(round(released, 2), *chance.choice((("reset", (branch, 0)), ("delete branch", (branch,))))),
    ]
    start = max(0.0, chance.choice(starts) - 1)
    for _ in range(chance.choice((1, 2))):
        verb = chance.choice(("reset late", "reset late", "reset", "create branch", "tag"))
        name = chance.choice(("v1", "v2")) if verb == "tag" else chance.choice(("main", "a", "b"))
        moves.append(_at_work(chance, start, verb, (name, chance.randrange(12))))
    for _ in range(chance.choice((0, 1, 3))):
        moves.append(_at_work(chance, start, "faint", (chance.choice((70.0, 150.0, 290.0)),)))
    return moves


def _draw_run(chance: random.Random, number: int, start: float) -> Move:
    if chance.random() < 0.35:
        rule = chance.choice(("document", "spec_v1"))
        flags = (chance.random() < 0.3, chance.random() < 0.3)
        args: tuple[Any, ...] = (f"expire{number}", rule, chance.choice((0.0, 2.0, 5.0)), *flags)
        return Move(round(start, 3), "expire", args)
    most = chance.choice((None, None, None, 2))
    args = (f"run{number}", chance.random() < 0.1, most, ())
    return Move(round(start, 3), "collect", args)


def _draw_accidents(chance: random.Random, runs: int, end: float) -> list[Move]:
    moves = []
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        begin, seconds = chance.random() * end, chance.random() ** 2 * end
        spell = (chance.choice(WEATHER), round(seconds, 2), chance.choice((0.01, 0.1, 0.5)))
        moves.append(Move(round(begin, 3), "weather", spell))
    for _ in range(chance.choice((0, 0, 1, 2))):
        moves.append(Move(0.0, "kill", (_draw_process(chance, runs), chance.randrange(1, 120))))
    for _ in range(chance.choice((0, 0, 1, 2))):
        seconds = chance.choice((30.0, 400.0, 2 * HOUR, 14 * HOUR, 30 * HOUR))
        moves.append(Move(0.0, "sleep", (_draw_process(chance, runs), chance.randrange(1, 120), seconds)))
    for _ in range(chance.choice((0, 0, 0, 1))):
        moves.append(Move(round(end + chance.random() * DAY, 3), "again", (f"run{chance.randrange(runs)}",)))
    for _ in range(chance.choice((0, 0, 0, 1))):
        moves.append(Move(chance.random() * (end + DAY), *_draw_by_people(chance)))
    return moves


def _draw_by_people(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    return chance.choice(
        (("restore", (chance.randrange(4), chance.choice((1.0, 5.0)))), ("purge", (1.0, False)))
    )


def _draw_process(chance: random.Random, runs: int) -> str:
    number = chance.randrange(runs)
    return chance.choice((f"run{number} {chance.choice(TASKS)}", f"run{number} collect", f"expire{number}"))
