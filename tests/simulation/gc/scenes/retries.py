"""Tries taken for lost but still running, beside their replacements."""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, expired, garbage, run_of
from tests.simulation.gc.scenes.sweeping import LEDGER
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST

GIVEN_UP = (
    ("bulk_delete", "list_branches"),
    ("bulk_delete", "prepare_uncommitted"),
    ("bulk_delete", "put bulk_delete/_watch"),
    ("save_report", "get"),
    ("save_report", "put"),
    ("subtract", "get"),
    ("subtract", "put"),
    ("list_committed", "put"),
    ("mark_uncommitted", "put"),
    ("check_limits", "put"),
)
"""Calls of drivers at the loss of their connection."""


def beside_its_retry(chance: random.Random, stage: Stage) -> Moves:
    """A driver is taken for lost and continues, concurrently with its retry; a head moves to an expired commit, maybe
    known to only one of the two.
    """
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), *garbage(chance, stage, 10, 20), *expired(chance, stage)]
    step, call = chance.choice(GIVEN_UP)
    number = 1 + int(chance.random() ** 2 * 8)
    moves.append(Move(begin, "when", (step, call, number, "give up")))
    if chance.random() < 0.3:
        moves.append(Move(begin, "when", (step, call, number + 1 + chance.randrange(8), "give up")))
    if chance.random() < 0.5:
        seconds = chance.choice((10.0, 30.0))
        moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 12, "faint", seconds)))
    if chance.random() < 0.5:
        old = OLDEST + chance.choice((1, 1, 1, 2, 3))
        when = step, chance.choice(("get", "put")), 1 + chance.randrange(20)
        moves.append(Move(begin, "when", (*when, "hard reset", stage.temper.branch(chance), old)))
    return moves


def lease_runs_out(chance: random.Random, stage: Stage) -> Moves:
    """A sweep takes long, and the renewal of its lease takes longer than the lease; another run waits for it."""
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), *garbage(chance, stage, 15, 20)]
    step = chance.choice(("bulk_delete", "bulk_delete", "bulk_delete", "check_limits"))
    seconds, number = chance.choice((400.0, 900.0, 2000.0)), chance.choice((1, 2, 2, 3))
    moves.append(Move(begin, "when", (step, "put_if_match lease.json", number, "dawdle", seconds)))
    faint = chance.choice((100.0, 250.0))
    moves.append(Move(begin, "each", ("bulk_delete", LEDGER, chance.choice((1, 3)), 20, "faint", faint)))
    by = chance.choice(("dag", "dag", "person"))
    moves.append(
        run_of(stage.at + chance.choice((stage.length, HOUR)) * chance.random(), f"next{stage.run}", by=by)
    )
    return moves


ORPHANS = ("slice_listing", "mark_uncommitted", "list_committed", "list_committed", "subtract")
AFTERWARDS = (
    ("subtract", "get"),
    ("subtract", "put"),
    ("check_limits", "get"),
    ("check_limits", "put"),
    ("bulk_delete", "get"),
    ("bulk_delete", "prepare_uncommitted"),
    ("bulk_delete", "delete"),
)


def begun_anew(chance: random.Random, stage: Stage) -> Moves:
    """A driver is taken for lost right before its try of a step, and begins it after later steps have used the results
    of its retry; an expired commit is reused in between.
    """
    name, begin = f"run{stage.run}", max(0.0, stage.at - 1)
    task = chance.choice(ORPHANS)
    moves = [*branches(stage), *garbage(chance, stage, 2, 10), *expired(chance, stage)]
    moves.append(Move(begin, "when", (task, "open_read lease.json", 1, "faint", 14 * HOUR)))
    old = OLDEST + chance.choice((1, 1, 1, 2, 3))
    back = chance.choice(("subtract", "check_limits")), chance.choice(("get", "put")), 1
    moves.append(Move(begin, "when", (*back, "hard reset", stage.temper.branch(chance), old)))
    if chance.random() < 0.5:  # then a sweep checks again
        again = "hard reset", stage.temper.branch(chance), OLDEST + chance.choice((1, 2, 3))
        moves.append(Move(begin, "when", ("bulk_delete", "delete", 1, *again)))
        moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 6, "faint", 30.0)))
    wake = *chance.choice(AFTERWARDS), 1 + int(chance.random() ** 2 * 8)
    moves.append(Move(begin, "when", (*wake, "wake", f"{name} {task}")))
    return moves


def asleep_meanwhile(chance: random.Random, stage: Stage) -> Moves:
    """The machine of a run is suspended before it deletes, and another run has or had the lease when it continues."""
    begin, seconds = max(0.0, stage.at - 1), chance.choice((700.0, 1300.0, HOUR))
    step = chance.choice(("list_committed", "subtract", "check_limits", "check_limits", "bulk_delete"))
    call = chance.choice(("get", "put", "list_branches"))
    other = run_of(stage.at + chance.random() * 300, f"other{stage.run}", dry_run=chance.random() < 0.7)
    return [
        *branches(stage),
        *garbage(chance, stage, 4, 10),
        *expired(chance, stage),
        Move(begin, "when", (step, call, 1 + chance.randrange(4), "suspend", seconds)),
        other,
    ]
