"""Scenes of late processes, continuing after another one has done the same, or after a restore."""

import random

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Move
from tests.simulation.icechunk.stage import CLEAN, Stage, at_call, few, released


def replaced_results(chance: random.Random, stage: Stage) -> list[Move]:
    """A driver taken for lost repeats a step, while another one rests before or during its sweep.

    The first may stop.
    """
    at = stage.start
    moves = [*released(chance, at), stage.run(0, at, CLEAN, dry=chance.random() < 0.5)]
    step = chance.choice(("list_candidates", "list_candidates", "mark"))
    moves.append(at_call(at, step, "put_if_absent _try", 1, "faint", 20_000.0))
    rests = chance.choice((1, 2, 1 + chance.randrange(30), *(15 + chance.randrange(10) for _ in range(2))))
    awake = (
        ("check_limits", "put guard", 1),
        ("check_limits", "get", few(chance, 20)),
        ("bulk_delete", "get", rests),
        ("bulk_delete", "get", rests),
    )
    moves.append(at_call(at, *chance.choice(awake), "wake", f"{stage.name}run0 collect"))
    seconds = chance.choice((30.0, 100.0, 280.0))
    moves.append(at_call(at, "bulk_delete", "get", rests, "faint", seconds))
    if chance.random() < 0.6:
        moves.append(at_call(at, "check_limits", "put_if_absent _try", 2, "faint", 20_000.0))
    return moves


def edited_away(chance: random.Random, stage: Stage) -> list[Move]:
    """An expiration taken for lost continues with a snapshot deleted meanwhile, with its branch."""
    at, branch = stage.start, chance.choice(("a", "b"))
    moves = [Move(at - 9 * DAY, "create branch", (branch, 0))]
    moves += [Move(at - (8 - number) * DAY, "commit", (branch, 1, 0.0, True)) for number in range(5)]
    moves.append(stage.expire(0, at, chance.choice(("document", "spec_v1")), 5.0, False, False))
    call = chance.choice(("put", "put", "put_if_match", "get", "stat"))
    seconds = chance.choice((5 * HOUR, 30 * HOUR, 30 * HOUR))
    moves.append(at_call(at, "expire", f"{call} snapshots", few(chance, 2), "faint", seconds))
    moves.append(Move(at + chance.choice((0.3, 0.5, 1.0)) * HOUR, "delete branch", (branch,)))
    return [*moves, *(stage.run(number, at + (1.2 + 26 * number) * HOUR, CLEAN) for number in range(2))]


def taken_back_midway(chance: random.Random, stage: Stage) -> list[Move]:
    """A sweep's deletions are restored before it is continued."""
    at, way = stage.start, chance.choice(("quarantine", "quarantine", "auto"))
    spell = ("store down", 3000.0, 1.0)
    return [
        *released(chance, at),
        stage.run(0, at, (*CLEAN, ("undo", way))),
        at_call(at, "bulk_delete", "delete", few(chance, 9), "weather", *spell),
        Move(at + 2 * HOUR, "restore", (0, chance.choice((1.0, 9.0)))),
        Move(at + chance.choice((3.0, 8.0)) * HOUR, "again", (f"{stage.name}run0",)),
        stage.run(1, at + 30 * HOUR, (*CLEAN, ("undo", way))),
    ]


SCENES = (replaced_results, edited_away, taken_back_midway)
