"""Checks between a sweep and its requests: concurrent repeated tasks, failing looks, leases lost or released during a
sleep, a lease handed over by two tries of one task, reports of two tries.
"""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, expired, garbage, moment, run_of
from tests.simulation.gc.scenes.sweeping import LEDGER
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST


def done_again(chance: random.Random, stage: Stage) -> Moves:
    """The task of a running sweep is cleared, and its process continues."""
    begin, number = max(0.0, stage.at - 1), chance.choice((1, 1, 2, 3))
    when = "bulk_delete", chance.choice(("prepare_uncommitted", "list_branches", "get", "delete")), number
    return [
        *garbage(chance, stage, 3, 6),
        *expired(chance, stage),
        Move(begin, "when", (*when, "redo", f"run{stage.run}", "bulk_delete")),
        Move(begin, "when", (*when, "faint", chance.choice((60.0, 150.0, 290.0)))),
    ]


def claimed_late(chance: random.Random, stage: Stage) -> Moves:
    """A task is suspended right before it begins its try and taken for lost; its next try did the step, later ones are
    running, and it wakes and does the step once more. An old object is referenced meanwhile.
    """
    name, begin = f"run{stage.run}", max(0.0, stage.at - 1)
    task, *wake = chance.choice(
        (
            ("mark_uncommitted", "subtract", "put"),
            ("mark_uncommitted", "check_limits", "get"),
            ("mark_uncommitted", "check_limits", "put"),
            ("list_committed", "check_limits", "get"),
            ("subtract", "bulk_delete", "prepare_uncommitted"),
            ("check_limits", "bulk_delete", "prepare_uncommitted"),
            ("check_limits", "bulk_delete", "list_branches"),
        )
    )
    number = chance.choice((1, 1, 2))
    moves = [
        *garbage(chance, stage, 3, 6),
        *expired(chance, stage),
        Move(begin, "when", (task, "open_read lease.json", 1, "suspend", 14 * HOUR)),
        Move(begin, "when", (*wake, number, "wake", f"{name} {task}")),
        Move(begin, "when", (*wake, number, "faint", chance.choice((60.0, 150.0, 290.0)))),
    ]
    where = stage.temper.branch(chance), stage.temper.path(chance)
    named = (
        ("subtract", "put"),
        ("subtract", "put"),
        ("check_limits", "get"),
        ("check_limits", "list_branches"),
    )
    moves.append(Move(begin, "when", (*chance.choice(named), 1, "stage", *where, -1)))
    if chance.random() < 0.5:
        old = OLDEST + chance.choice((1, 1, 2))
        moves.append(moment(chance, stage, "hard reset", where[0], old, among=named))
    return moves


def given_up(chance: random.Random, stage: Stage) -> Moves:
    """The machine of a sweep is suspended, its task is marked as failed, the run ends, and the sweep continues."""
    name, begin = f"run{stage.run}", max(0.0, stage.at - 1)
    moves = garbage(chance, stage, 3, 6)
    call = chance.choice(("prepare_uncommitted", "list_branches", "get", "get", "list_repositories"))
    number = 1 + int(chance.random() ** 2 * 6)
    seconds = chance.choice((700.0, 1300.0, HOUR, 2 * HOUR))
    moves.append(Move(begin, "when", ("bulk_delete", call, number, "suspend", seconds)))
    moves.append(Move(begin, "when", ("bulk_delete", call, number, "mark failed", name)))
    if chance.random() < 0.3:
        moves.append(run_of(stage.at + stage.length + chance.choice((600.0, 2000.0)), f"other{stage.run}"))
    return moves


def nobody_looks(chance: random.Random, stage: Stage) -> Moves:
    """A sweep deletes for long, a head moves to an expired commit, and the driver's looks fail, or never worked."""
    begin = max(0.0, stage.at - 1)
    moves = [
        *branches(stage),
        *garbage(chance, stage, 10, 20),
        *expired(chance, stage),
        *expired(chance, stage),
    ]
    look = "put bulk_delete/_watch"
    kind, seconds = chance.choice(
        (
            ("store down", 0.0),
            ("store down", 0.2),
            ("proxy page", 0.0),
            ("throttled", 0.0),
            ("request lost", 0.0),
        )
    )
    number = 1 if kind == "store down" else chance.choice((1, 2, 3))
    lasts = seconds * stage.length / 400 + 0.01 if kind == "store down" else 20 * stage.length + 3000
    moves.append(Move(begin, "when", ("bulk_delete", look, number, "weather", kind, round(lasts, 3), 1.0)))
    for _ in range(chance.choice((1, 2))):
        again = stage.temper.branch(chance), OLDEST + chance.choice((1, 1, 1, 2, 2, 3))
        moves.append(Move(begin, "when", ("bulk_delete", "delete", 1, "hard reset", *again)))
    moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 12, "faint", chance.choice((30.0, 58.0)))))
    return moves


def lost_meanwhile(chance: random.Random, stage: Stage) -> Moves:
    """The machine of a sweep is suspended with a request on its way, which has failed at its waking; or during a
    worker's check before a request. Another run has taken over.
    """
    begin = max(0.0, stage.at - 1)
    look = "stat bulk_delete/_watch", chance.choice((1, 2, 3))
    when = "bulk_delete", *chance.choice((("delete", chance.choice((1, 2))), look))
    moves = [
        *garbage(chance, stage, 4, 8),
        run_of(stage.at + chance.choice((60.0, 600.0)), f"other{stage.run}"),
    ]
    moves.append(Move(begin, "when", (*when, "suspend", chance.choice((700.0, 1300.0, 2400.0)))))
    if when[1] == "delete":
        moves.append(Move(begin, "when", (*when, "weather", "store down", 0.001, 1.0)))
    return moves


def both_sleep(chance: random.Random, stage: Stage) -> Moves:
    """A head moves right after the driver's look; the driver sleeps before it reports, and the worker until then."""
    begin, seconds = max(0.0, stage.at - 1), chance.choice((200.0, 280.0, 297.0))
    call = "bulk_delete", "list_repositories", chance.choice((3, 3, 4))
    moves = [
        *branches(stage),
        *garbage(chance, stage, 10, 20),
        *expired(chance, stage),
        *expired(chance, stage),
    ]
    for _ in range(2):
        again = stage.temper.branch(chance), OLDEST + chance.choice((1, 1, 1, 2, 2, 3))
        moves.append(Move(begin, "when", (*call, "hard reset", *again)))
    moves.append(Move(begin, "when", (*call, "faint", seconds)))
    moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 8, "dawdle", chance.choice((1.0, 2.0)))))
    after = chance.choice((2, 3, 4, 5))
    return [
        *moves,
        Move(begin, "when", ("bulk_delete", LEDGER, after, "faint", seconds + chance.choice((0.0, 2.0)))),
    ]


def handed_over(chance: random.Random, stage: Stage) -> Moves:
    """A run fails and is cleared, and its next lease task is suspended and taken for lost: its next try has handed a
    later lease over when it wakes.
    """
    name, begin = f"run{stage.run}", max(0.0, stage.at - 1)
    later = stage.at + stage.length + chance.choice((2.0, 3.0, 5.0)) * HOUR
    step = chance.choice(("check_limits", "bulk_delete"))
    call = chance.choice(("get plan.json", "open_read plan.json", "put_if_match plan.json", "put plan.json"))
    moves = [
        *garbage(chance, stage, 2, 4),
        Move(begin, "when", (step, "get", 1, "weather", "store down", 1800.0, 1.0)),
        Move(later, "when", ("acquire_lease", call, 1, "suspend", chance.choice((400.0, 900.0, HOUR)))),
        Move(later + 1, "clear", (name, chance.choice(("subtract", "check_limits", "bulk_delete")))),
    ]
    if chance.random() < 0.3:
        moves.append(run_of(later + 300, f"other{stage.run}"))
    return moves


def reported_twice(chance: random.Random, stage: Stage) -> Moves:
    """The writer of the report is suspended and taken for lost, and continues after a later try has written it."""
    step = chance.choice(("slice_listing", "subtract", "check_limits", "bulk_delete", "state"))
    calls = f"get {step}/_FAILED.json", "put deleted", "put deleted.text", "put analysis.json"
    call = chance.choice(calls)
    seconds = chance.choice((400.0, 900.0, HOUR))
    return [
        *garbage(chance, stage, 1, 3),
        Move(max(0.0, stage.at - 1), "when", ("save_report", call, 1, "suspend", seconds)),
    ]
