"""Late looks of a sweep's driver and late questions of its workers: looks arriving last, workers asleep between two
questions.
"""

import random

from tests.simulation.gc.scenes.stage import Moves, Stage, branches, expired, garbage
from tests.simulation.gc.scenes.sweeping import LEDGER
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST


def _expired_and_some(chance: random.Random, stage: Stage) -> Moves:
    some = garbage(chance, stage, 0, 0, 2)
    return [*branches(stage), *some, *(move for _ in range(5) for move in expired(chance, stage))]


def _heads_move(chance: random.Random, stage: Stage, *call: object) -> Moves:
    begin = max(0.0, stage.at - 1)
    back = [(stage.temper.branch(chance), OLDEST + chance.choice((1, 2, 3, 4, 5))) for _ in range(4)]
    return [Move(begin, "when", (*call, "hard reset", *again)) for again in back]


def look_arrives_last(chance: random.Random, stage: Stage) -> Moves:
    """The driver of a sweep finds a moved head; an earlier look, taken for lost and sent again, arrives only then;
    workers sleep through both.
    """
    begin = max(0.0, stage.at - 1)
    call = "bulk_delete", "put bulk_delete/_watch", chance.choice((1, 2, 3))
    seconds = chance.choice((20.0, 30.0, 40.0, 50.0))
    return [
        *_expired_and_some(chance, stage),
        Move(begin, "when", (*call, "weather", "put arrives again", 0.5, 1.0)),
        *_heads_move(chance, stage, *call),
        Move(begin, "each", ("bulk_delete", LEDGER, 1, 12, "faint", seconds)),
    ]


def worker_sleeps(chance: random.Random, stage: Stage) -> Moves:
    """A worker of a sweep has read the driver's results, and falls asleep before its own checks; meanwhile a head
    moves, and the driver sees it. An earlier deletion may have failed after a long time, so the worker checks once
    more right before it sends it again.
    """
    begin = max(0.0, stage.at - 1)
    read, first = chance.choice((("open_read lease.json", 3), ("get bulk_delete/_try.json", 2)))
    call = "bulk_delete", read, first + chance.choice((0, 1, 2, 3, 4, 5))
    moves = [
        *_expired_and_some(chance, stage),
        *_heads_move(chance, stage, *call),
        Move(begin, "when", (*call, "faint", chance.choice((100.0, 200.0, 250.0, 290.0)))),
    ]
    if chance.random() < 0.5:
        again = "bulk_delete", "delete", chance.choice((1, 1, 2))
        moves.append(Move(begin, "when", (*again, "dawdle", chance.choice((2.0, 5.0, 20.0)))))
        moves.append(Move(begin, "when", (*again, "weather", "store down", 0.001, 1.0)))
    return moves
