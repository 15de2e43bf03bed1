"""Requests of people's runs executed long after the end of these runs."""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, run_of
from tests.simulation.history import Move


def back_a_day_late(chance: random.Random, stage: Stage) -> Moves:
    """A worker of a restore falls asleep with a request on its way, the restore dies, and the request is done after
    another run's listing; its slice is finished.
    """
    days, at = chance.choice((9.0, 20.0, 30.0)), stage.at + stage.length + HOUR
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    moves = [
        Move(stage.past(days + 0.1 * n), "hand out", (branch, path, bytes(60 + n)))
        for n in range(chance.choice((1, 2)))
    ]
    moves.append(run_of(at, f"back{stage.run}", undo=chance.choice(("quarantine", "auto"))))
    restored = at + stage.length + HOUR
    for call in ("put_stream data/", "delete_versions"):
        when = "restore", call, chance.choice((1, 1, 2))
        moves.append(Move(restored, "when", (*when, "faint", chance.choice((20.0, 26.0, 28.0, 40.0)) * HOUR)))
        moves.append(Move(restored, "when", (*when, "weather", "store down", 3 * HOUR, 1.0)))
    moves.append(Move(restored, "restore", (0, 1.0)))
    mode = chance.choice(("clean", "optimized"))
    hours = chance.choice((24.3, 25.1, 25.3, 26.5))
    return [*moves, run_of(restored + hours * HOUR, f"next{stage.run}", mode)]
