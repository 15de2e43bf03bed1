"""Draws the histories of the collector's world: a past of some weeks, then some runs with writers and weather.

Beside moves drawn one by one there are scenes (`scenes`): a few moves together, seldom drawn as such.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.displacing import displaced
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.gc.scenes import BY_NAME, SCENES
from tests.simulation.gc.scenes.people import draw_answer, draw_by_people
from tests.simulation.gc.scenes.stage import Scene, Stage, expired, garbage, run_of
from tests.simulation.gc.settings import Drawing
from tests.simulation.gc.temper import Temper
from tests.simulation.history import Move
from tests.simulation.orchestrator import STEPS, TASKS
from tests.simulation.weather import KINDS
from tests.simulation.writers import BRANCHES, CONTENTS

PAST_DAYS = 45
RUN_CALLS = 400
"""Number of a run's driver calls, roughly, one after the other."""
PACES = (0.02, 0.02, 0.2, 2.0)
RATES = (0.02, 0.1, 0.5, 1.0)
CALM = 0.6
"""Share of histories with little beside a scene."""
DISPLACED = 0.3
"""Share of histories with any kind of move at any step."""
NOT_BESIDE = ("pace", "rest", "busy", "put over")
"""Moves not drawn at a step: the first three are the history's own; a writer over an unreferenced old address has no
promise.
"""
POLICIES = 4
"""Retention policies of runs; 0 is none."""


def draw_moves(chance: random.Random, focus: Focus = ANYTHING) -> list[Move]:
    """Draw a history; one with a focus is calm."""
    if not focus and chance.random() < DISPLACED:
        return _ordered(draw_displaced(chance))
    if focus or chance.random() < CALM:
        return _ordered(_draw_calm(chance, Drawing(chance, focus)))
    temper = Temper.draw(chance)
    pace = chance.choice(PACES)
    length = RUN_CALLS * pace
    starts = _draw_starts(chance, length)
    near = partial(_near, chance, starts, length)
    moves = [*_draw_past(chance, temper), Move(-60.0, "pace", (pace,))]
    for number, at in enumerate(starts):
        moves.append(Move(at, "run", (f"run{number}", *_draw_run(chance))))
        moves += _draw_answers(chance, moves[-1], length)
    for _ in range(chance.choice((0, 0, 0, 0, 1, 3))):
        verb, args = draw_by_people(chance)
        moves.append(Move(near() + chance.choice((0.0, 2 * HOUR, 26 * HOUR)), verb, args))
    for _ in range(chance.choice((0, 3, 10, 20))):
        moves.append(_at_work(chance, near(), *temper.write(chance)))
    for _ in range(chance.choice((0, 1, 2, 4))):
        seconds = round(chance.choice((0.03, 0.2, 1.0)) * length, 2)
        spell = chance.choice(temper.weather), seconds, chance.choice(RATES)
        moves.append(_at_work(chance, near(), "weather", spell))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        moves.append(Move(0.0, "kill", (_process(chance, starts), _call(chance))))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        seconds = chance.choice((30.0, 400.0, 2 * HOUR, 14 * HOUR))
        moves.append(Move(0.0, "sleep", (_process(chance, starts), _call(chance), seconds)))
    if chance.random() < 0.2:
        task = chance.choice(TASKS[:-1])
        moves.append(Move(near() + 3 * HOUR, "clear", (f"run{chance.randrange(len(starts))}", task)))
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        number = chance.randrange(len(starts))
        scene = chance.choice(SCENES)
        moves += scene(chance, Stage(temper, number, starts[number], length))
    moves.append(Move(-59.0, "rest", (chance.choice(("clean", "clean", "optimized")), chance.randrange(2))))
    return _ordered(moves)


def _draw_calm(chance: random.Random, draw: Drawing) -> list[Move]:
    temper, pace = Temper.calm(), draw.of("pace")
    length = RUN_CALLS * pace
    moves = [Move(-PAST_DAYS * DAY, "rules", (draw.of("rules"), 0)), Move(-60.0, "pace", (pace,))]
    moves += [Move(-44.9 * DAY, "create branch", (branch, "main")) for branch in BRANCHES[1:]]
    start = 0.0
    if draw.of("first"):
        moves.append(run_of(0.0, "first"))
        start = length + 28 * HOUR
    moves.append(run_of(start, "run0", draw.of("mode"), dry_run=draw.of("dry"), by=draw.of("by")))
    for scene in _scenes(chance, draw.focus):
        moves += scene(chance, Stage(temper, 0, start, length))
    return [*moves, Move(-59.0, "rest", (draw.of("rest"), 0))]


def draw_displaced(chance: random.Random) -> list[Move]:
    """Draw a calm history with something to delete, and one step with unusual moves."""
    moves = _draw_calm(chance, Drawing(chance, Focus(settings={"by": ("dag",)})))
    (start,) = (move.at for move in moves if move.verb == "run" and move.args[0] == "run0")
    stage = Stage(Temper.calm(), 0, start, RUN_CALLS * 0.2)
    pool = [move for scene in BY_NAME.values() for move in scene(chance, stage)]
    pool += [Move(0.0, *stage.temper.write(chance)) for _ in range(60)]
    pool += [Move(0.0, *draw_by_people(chance)) for _ in range(6)]
    pool += [Move(0.0, "clear", ("run0", chance.choice(TASKS[:-1])))]
    pool = [move for move in pool if move.verb not in NOT_BESIDE]
    there = [*garbage(chance, stage, 3, 8), *expired(chance, stage)]
    kinds = [kind.name for kind in KINDS]
    return [*moves, *there, *displaced(chance, pool, STEPS, ("get", "get", "get", "put"), kinds, start)]


def _scenes(chance: random.Random, focus: Focus) -> list[Scene]:
    if focus.scenes:
        return [BY_NAME[chance.choice(focus.scenes)]]
    return chance.sample(list(BY_NAME.values()), chance.choice((1, 1, 2)))


def _ordered(moves: list[Move]) -> list[Move]:
    return [replace(move, at=round(move.at, 3)) for move in moves if move.at >= -PAST_DAYS * DAY]


def _at_work(chance: random.Random, at: float, verb: str, args: tuple[Any, ...]) -> Move:
    if chance.random() < 0.6:
        return Move(at, verb, args)
    return Move(at, "when", (chance.choice(STEPS), "get", 1 + chance.randrange(12), verb, *args))


def _draw_starts(chance: random.Random, length: float) -> list[float]:
    starts = [0.0]
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        apart = chance.choice(
            (chance.random() * length, 2 * length, length + 2 * HOUR, length + 30 * HOUR, length + 3 * DAY)
        )
        starts.append(round(starts[-1] + apart, 3))
    return starts


def _near(chance: random.Random, starts: Sequence[float], length: float) -> float:
    return round(chance.choice(starts) + chance.random() * length * chance.choice((1.0, 1.0, 3.0)), 3)


def _process(chance: random.Random, starts: Sequence[float]) -> str:
    worker = chance.choice(("", "", " task"))
    return f"run{chance.randrange(len(starts))} {chance.choice(TASKS)}{worker}"


def _call(chance: random.Random) -> int:
    return 1 + int(chance.random() ** 2 * 150)


def _draw_past(chance: random.Random, temper: Temper) -> list[Move]:
    at = -PAST_DAYS * DAY
    moves = [Move(at, "rules", (chance.choice((None, 1, 1, 5, 30)), chance.choice((0, 2, 2))))]
    for branch in BRANCHES:
        if branch != "main" and chance.random() < 0.7:
            moves.append(Move(at + 1, "create branch", (branch, "main")))
    for _ in range(chance.choice((2, 6))):
        write = "upload", (temper.branch(chance), temper.path(chance), chance.choice(CONTENTS))
        moves.append(Move(at + 2 + chance.random() * DAY, *write))
        if chance.random() < 0.5:
            moves.append(Move(at + 2 * DAY + chance.random() * HOUR, "commit", (write[1][0], 0)))
    at += 3 * DAY
    for _ in range(chance.choice((0, 10, 25, 40))):
        at += chance.random() ** 3 * 5 * DAY
        if at >= -60:
            break
        moves.append(Move(at, *temper.write(chance)))
    return moves


def _draw_run(chance: random.Random) -> tuple[Any, ...]:
    mode = chance.choice(("clean", "clean", "optimized", "auto"))
    window = None
    if mode != "clean" and chance.random() < 0.25:
        begin = chance.choice((24.0, 100.0, 400.0, 900.0))
        window = (begin, chance.choice((0.0, begin - 24.0 if begin > 24 else 0.0)))
    policy = chance.choice((0, 0, 0, *range(POLICIES)))
    by = chance.choice(("dag", "dag", "dag", "dag", "person"))
    approval = chance.choice(("over_limits",) * 5 + ("always", "never")), chance.choice((0.5, 2.0, 12.0))
    undo = chance.choice(("off", "off", "off", "auto", "quarantine"))
    most = chance.choice((None, None, None, 3))
    return mode, chance.random() < 0.1, most, policy, window, by, approval, undo


def _draw_answers(chance: random.Random, run: Move, length: float) -> list[Move]:
    name, most, (approval, hours) = run.args[0], run.args[3], run.args[7]
    if most is None and approval != "always":
        return []
    moves = []
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        at = (
            run.at
            + chance.random() * 1.5 * length
            + chance.choice((0.0, 0.3, 0.4 * hours, 1.1 * hours)) * HOUR
        )
        moves.append(Move(at, "answer", (name, *draw_answer(chance))))
        if run.args[6] == "person" and chance.random() < 0.8:
            moves.append(Move(at + chance.choice((60.0, HOUR)), "resume", (name,)))
    return moves
