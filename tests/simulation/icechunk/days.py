"""Scenes of days: restored old refs, and a writer of an old release after an upgrade."""

import random

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Move
from tests.simulation.icechunk.stage import AUTO, CLEAN, Stage, released


def refs_put_back(chance: random.Random, stage: Stage) -> list[Move]:
    """Refs are restored to hours or days before; a run may have seen the lost commits, or none has; the nightly runs
    continue.
    """
    at, modes = stage.start, (CLEAN, AUTO, ())
    moves = [Move(at - 8 * DAY, "commit", ("main", 2, 0.0, False)), *released(chance, at)]
    moves.append(Move(at - 7 * DAY, "create branch", ("b", 0)))
    backup = at - chance.choice((60.0, 40.0, 30.0)) * HOUR
    moves.append(Move(backup, "back up refs", ()))
    for number in range(chance.choice((1, 2, 3))):
        branch, hours = chance.choice(("main", "main", "b")), chance.choice((0.2, 1.0, 3.0))
        moves.append(
            Move(backup + (number + hours) * HOUR, "commit", (branch, 2, 0.0, chance.random() < 0.5))
        )
    moves.append(stage.run(0, at, chance.choice(modes)))
    failed = at - chance.choice((-2.0, -12.0, 1.0)) * HOUR
    if chance.random() < 0.3:
        moves.append(Move(failed + chance.choice((1.0, 30.0)) * HOUR, "commit", ("main", 1, 0.0, True)))
    if chance.random() < 0.3:
        moves.append(Move(failed + chance.choice((3.0, 30.0)) * HOUR, "forget lost", ()))
    late = [stage.run(number, at + number * 26 * HOUR, chance.choice(modes)) for number in (1, 2, 3)]
    return [*moves, Move(failed, "put refs back", (chance.random() < 0.3,)), *late]


def old_writer(chance: random.Random, stage: Stage) -> list[Move]:
    """A repository is upgraded and keeps its refs, and a writer of an old release continues, or starts again later."""
    at = stage.start
    upgraded = at - chance.choice((2.0, 30.0, 60.0)) * HOUR
    moves = [Move(at - 8 * DAY, "commit", ("main", 2, 0.0, False)), *released(chance, at - DAY)]
    moves += [Move(at - 7 * DAY, "create branch", ("b", 0)), Move(upgraded, "upgrade", (0, 0.0))]
    for hours in chance.choice(((0.5,), (0.5, 1.0), (26.0,), (1.0, 50.0))):
        moves.append(Move(upgraded + hours * HOUR, "old writer commits", (chance.choice(("main", "b")), 2)))
    for number in range(4):
        moves.append(stage.run(number, at + number * 26 * HOUR, chance.choice((CLEAN, AUTO, ()))))
    return moves


SCENES = (refs_put_back, old_writer)
