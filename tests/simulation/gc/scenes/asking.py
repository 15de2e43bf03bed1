"""The subject of an answer: candidates made again, expired times, and other answers meanwhile."""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.people import draw_answer
from tests.simulation.gc.scenes.stage import Moves, Stage, garbage, moment, run_of
from tests.simulation.history import Move

AGAIN = ("list_committed", "subtract", "check_limits", "approve", "bulk_delete")
"""Tasks to clear a waiting run from."""


def asked_anew(chance: random.Random, stage: Stage) -> Moves:
    """A run is answered, its sweep fails, and it is cleared: its candidates are made again, or the answer is expired;
    it may be answered again.
    """
    name, hours = f"anew{stage.run}", chance.choice((0.5, 1.0, 3.0, 12.0))
    at = stage.at + 1
    limit = chance.choice((None, 1))
    approval = ("always" if limit is None else "over_limits"), hours
    moves = [*garbage(chance, stage, 3, 6), run_of(at, name, most=limit, approval=approval)]
    answered = at + stage.length + chance.choice((60.0, 0.5 * hours * HOUR, 0.9 * hours * HOUR))
    first = chance.choice(("approved", "approved", "rejected"))
    moves.append(Move(answered, "answer", (name, first, "anna", chance.choice(("Airflow", "dredge gc")))))
    moves.append(Move(answered + 10, "answer", (name, first, "anna", "Airflow")))
    spell = chance.choice(("store down", "proxy page")), 1200.0, 1.0
    moves.append(
        Move(at, "when", ("bulk_delete", chance.choice(("get", "prepare_uncommitted")), 1, "weather", *spell))
    )
    cleared = answered + chance.choice((0.8, 1.5, 4.0, 11.0, 12.5)) * HOUR
    if chance.random() < 0.5:  # then the guards run again, with another request
        moves.append(Move(at, "when", ("check_limits", "open_read lease.json", 1, "suspend", 14 * HOUR)))
        moves.append(Move(cleared - stage.length - 60, "wake", (f"{name} check_limits",)))
    moves.append(Move(cleared, "clear", (name, chance.choice(AGAIN))))
    if chance.random() < 0.5:
        moves.append(Move(cleared + 0.7 * stage.length + 60, "answer", (name, *draw_answer(chance))))
    if chance.random() < 0.3:
        later = cleared + chance.choice((HOUR, 3 * HOUR))
        moves.append(Move(later, "clear", (name, chance.choice(AGAIN))))
    return moves


def asked_late(chance: random.Random, stage: Stage) -> Moves:
    """A run waits for an answer, which comes late or twice, or another run begins."""
    name, hours = f"slow{stage.run}", chance.choice((0.5, 1.0, 12.0))
    by = chance.choice(("dag", "person", "person"))
    at = stage.at + (1 if by == "dag" else stage.length + HOUR)
    moves = [*garbage(chance, stage, 3, 6), run_of(at, name, approval=("always", hours), by=by)]
    asked = at + 0.7 * stage.length
    answered = asked + chance.choice((0.3, 0.9, 1.02, 1.2, 1.9)) * hours * HOUR
    for _ in range(chance.choice((1, 2, 2))):
        decision = chance.choice(("approved", "approved", "approved", "rejected"))
        moves.append(Move(answered, "answer", (name, decision, chance.choice(("anna", "bert")), "dredge gc")))
        answered += chance.choice((5.0, 0.3 * hours * HOUR, 0.6 * hours * HOUR))
    if chance.random() < 0.5:
        moves.append(run_of(asked + chance.choice((0.1, 0.5)) * hours * HOUR, f"other{stage.run}"))
    if by == "person":
        moves.append(Move(answered + 60, "resume", (name,)))
    return moves


def changed_while_asked(chance: random.Random, stage: Stage) -> Moves:
    """A run waits for an answer in Airflow; an earlier try of its guards, taken for lost, wakes with another result,
    and another request is made; then the answer to the first one comes.
    """
    name, at = f"changed{stage.run}", stage.at + stage.length + HOUR
    asked = at + 2 * stage.length + 900
    answer = "answer", (name, *draw_answer(chance)[:2], "Airflow")
    return [
        *garbage(chance, stage, 3, 6),
        run_of(at, name, approval=("always", 3.0)),
        Move(at - 1, "when", ("check_limits", "open_read lease.json", 1, "suspend", 14 * HOUR)),
        Move(asked, "wake", (f"{name} check_limits",)),
        Move(asked + 0.6 * stage.length + 60, "redo", (name, "approve")),
        Move(asked + chance.choice((0.5, 1.0, 1.5)) * stage.length + 90, *answer),
    ]


def woken_while_asked(chance: random.Random, stage: Stage) -> Moves:
    """A run waits for an answer; an earlier try of its plan, taken for lost, wakes and continues with the shared
    lease; another run waits for the lease.
    """
    name, hours = f"woken{stage.run}", chance.choice((1.0, 3.0, 12.0))
    at = stage.at + stage.length + HOUR
    asked = at + chance.choice((2, 3)) * stage.length + 900
    call = chance.choice(("list_level", "get", "open_read lease.json"))
    return [
        *(Move(at - 25 * HOUR, "orphan", (bytes(60 + number),)) for number in range(3)),
        run_of(at, name, approval=("always", hours)),
        Move(at - 1, "when", ("plan", call, 1, "suspend", 14 * HOUR)),
        Move(asked, "wake", (f"{name} plan",)),
        run_of(asked + chance.choice((0.1, 0.3, 0.6)) * hours * HOUR, f"other{stage.run}"),
        Move(asked + chance.choice((0.5, 0.9)) * hours * HOUR, "answer", (name, *draw_answer(chance))),
    ]


def told_no(chance: random.Random, stage: Stage) -> Moves:
    """A run was approved, and is rejected right before the deadline, or during a long deletion."""
    name, at = f"told{stage.run}", stage.at + 1
    moves = [*garbage(chance, stage, 8, 16), run_of(at, name, approval=("always", 3.0))]
    yes = at + stage.length + 60
    moves.append(Move(yes, "answer", (name, "approved", "anna", chance.choice(("Airflow", "dredge gc")))))
    moves.append(Move(yes + 30, "answer", (name, "approved", "anna", "Airflow")))
    no = "answer", name, "rejected", "bert", "dredge gc"
    if chance.random() < 0.4:
        moves.append(Move(yes + chance.choice((1.0, 5.0, 15.0)), "answer", no[1:]))
    else:
        among = (
            ("answer", "get"),
            ("bulk_delete", "get"),
            ("bulk_delete", "prepare_uncommitted"),
            ("bulk_delete", "list_branches"),
            ("bulk_delete", "delete"),
        )
        moves.append(moment(chance, stage, *no, among=among))
    seconds = chance.choice((30.0, 60.0))
    moves.append(Move(at, "each", ("bulk_delete", "put bulk_delete/_raw", 1, 8, "faint", seconds)))
    return moves
