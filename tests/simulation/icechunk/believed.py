"""Scenes with wrong or borderline input of a run: files with wrong chunk ids, incomplete inventories, objects locked by
the store, times right before and after a bound.
"""

import random

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Move
from tests.simulation.icechunk.stage import AUTO, CLEAN, FROM_INVENTORY, Stage, at_call, few, released


def unlisted(chance: random.Random, stage: Stage) -> list[Move]:
    """A manifest has a wrong chunk id, missing in the inventory; a part of the index may be damaged after the mark."""
    at = stage.start
    moves = [
        Move(at - 6 * DAY, "commit", ("main", chance.choice((1, 3)), 0.0, True)),
        *released(chance, at),
        Move(at - 4 * DAY, "commit", ("main", chance.choice((1, 3)), 0.0, chance.random() < 0.5)),
        Move(at - chance.choice((60.0, HOUR)), "inventory", ()),
        Move(at - 5, "flip a manifest", (chance.choice((0, 0, 1)), chance.choice((0.0, stage.length)))),
        stage.run(0, at, (*CLEAN, *FROM_INVENTORY)),
    ]
    if chance.random() < 0.5:
        args = (chance.randrange(3), chance.choice((0.0, HOUR)))
        moves.append(at_call(at, "list_candidates", "get", few(chance, 12), "flip a part", *args))
    return [*moves, stage.run(1, at + 26 * HOUR, chance.choice((CLEAN, AUTO)))]


def learned_wrongly(chance: random.Random, stage: Stage) -> list[Move]:
    """A manifest is read wrongly once; it shares chunks with an older one, deleted while no run lists chunks."""
    at, late = stage.start, stage.start + 26 * HOUR
    seconds = chance.choice((0.003, 0.01, 0.1)) * stage.length
    moves = [
        Move(at - 4 * DAY, "commit", ("main", 5, 0.0, True)),
        stage.run(0, at, CLEAN),
        Move(at + HOUR, "commit", ("main", chance.choice((1, 2)), 0.0, True)),
        at_call(late, "mark", "get manifests", 1, "flip a manifest", 0, seconds),
        stage.run(1, late, AUTO),
    ]
    for number in (2, 3):
        after = late + (number - 1) * 26 * HOUR
        moves += [
            Move(after - 25.5 * HOUR, "commit", ("main", 1, 0.0, False)),
            Move(after - 25.4 * HOUR, "library expires", (0.5, True)),
            stage.expire(
                number, after - 25.3 * HOUR, chance.choice(("document", "spec_v1")), 0.5, False, False
            ),
            stage.run(number, after, AUTO),
        ]
    return moves


def held_by_the_store(chance: random.Random, stage: Stage) -> list[Move]:
    """The store refuses to delete some unreferenced objects."""
    at = stage.start
    moves = [*released(chance, at), *released(chance, at + HOUR)]
    for _ in range(chance.choice((1, 1, 2))):
        folder = chance.choice(("snapshots", "manifests", "chunks"))
        moves.append(Move(at - 10, "hold a file", (folder, chance.randrange(6))))
    return [*moves, stage.run(0, at), stage.run(1, at + 26 * HOUR)]


def at_the_threshold(chance: random.Random, stage: Stage) -> list[Move]:
    """Snapshots are hours younger or older than an expiration's threshold."""
    at, days = stage.start, chance.choice((2.0, 5.0))
    moves = [
        Move(at - 9 * DAY, "commit", ("main", 1, 0.0, True)),
        Move(at - 8 * DAY, "create branch", ("a", 0)),
    ]
    for branch in ("main", "main", "main", "a", "b"):
        hours = chance.choice((-30.0, -13.0, -1.0, 1.0, 13.0, 23.0, 30.0))
        moves.append(Move(at - days * DAY + hours * HOUR, "commit", (branch, 1, 0.0, True)))
    if chance.random() < 0.6:
        moves.append(Move(at - HOUR, "commit", ("main", 1, 0.0, True)))
    refs = chance.random() < 0.5
    return [*moves, stage.expire(0, at, chance.choice(("document", "spec_v1")), days, refs, refs)]


def just_released(chance: random.Random, stage: Stage) -> list[Move]:
    """Snapshots released right before a run saw them, and runs less than a grace apart."""
    at, branch = stage.start, chance.choice(("a", "b"))
    apart = chance.choice((11.0, 13.0, 13.0, 20.0, 23.0)) * HOUR
    gone = chance.choice((("reset", (branch, 0)), ("delete branch", (branch,))))
    return [
        Move(at - 4 * DAY, "create branch", (branch, 0)),
        Move(at - 3 * DAY, "commit", (branch, chance.choice((1, 2)), 0.0, True)),
        Move(at - 3 * DAY + HOUR, "commit", (branch, 1, 0.0, chance.random() < 0.5)),
        Move(at - chance.choice((60.0, HOUR, 8 * HOUR)), *gone),
        *(stage.run(number, at + number * apart) for number in range(3)),
    ]


SCENES = (unlisted, learned_wrongly, held_by_the_store, at_the_threshold, just_released)
