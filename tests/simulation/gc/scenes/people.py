"""People: approvals, answers, restores, purges."""

import random
from typing import Any

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.losses import expired_comes_back, late_stage, staged_moves
from tests.simulation.gc.scenes.stage import MOMENTS, Moves, Stage, content, garbage, moment, run_of
from tests.simulation.history import Move


def draw_answer(chance: random.Random) -> tuple[str, str, str]:
    """Draw an answer to a run: decision, name, and place."""
    decision = chance.choice(("approved", "approved", "approved", "rejected"))
    return decision, chance.choice(("anna", "bert")), chance.choice(("Airflow", "Airflow", "dredge gc"))


def draw_by_people(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    """Draw an action of people after runs: verb and arguments."""
    if chance.random() < 0.5:
        return "restore", (chance.randrange(6), chance.choice((1.0, 3.0, 30.0)))
    return "purge", (chance.choice((1.0, 1.0, 2.0)), chance.random() < 0.2)


def asked_first(chance: random.Random, stage: Stage) -> Moves:
    """A run waits for a person, who answers early or late, with other answers as well; objects are reused meanwhile."""
    name, hours = f"asked{stage.run}", chance.choice((1.0, 3.0, 12.0))
    at = stage.at + chance.choice((0.0, stage.length + HOUR))
    by = chance.choice(("dag", "dag", "dag", "person"))
    run = name, "clean", False, chance.choice((None, 1, 3)), 0, None, by, ("always", hours), "off"
    moves = [Move(at, "run", run)]
    answered = (
        at + stage.length + chance.choice((60.0, 0.5 * hours * HOUR, 0.98 * hours * HOUR, 1.1 * hours * HOUR))
    )
    for _ in range(chance.choice((1, 1, 2, 3))):
        moves.append(Move(answered, "answer", (name, *draw_answer(chance))))
        if by == "person":
            moves.append(Move(answered + 60, "resume", (name,)))
        answered += chance.choice((0.0, 0.3 * stage.length, HOUR))
    if chance.random() < 0.3:
        moves.append(moment(chance, stage, "answer", name, *draw_answer(chance), among=MOMENTS[-8:]))
    later = Stage(stage.temper, stage.run, chance.choice((at, answered - stage.length)), stage.length)
    return moves + chance.choice((expired_comes_back, staged_moves, late_stage))(chance, later)


def taken_back(chance: random.Random, stage: Stage) -> Moves:
    """A run's deletions are restored and pinned for a while, purged, or both, and other runs follow."""
    at = stage.at + chance.choice((0.0, stage.length))
    undo = chance.choice(("auto", "quarantine", "quarantine"))
    run = "clean", False, None, 0, None, "dag", ("never", 1.0), undo
    moves = [Move(stage.past(3), "orphan", (content(chance),)) for _ in range(chance.choice((1, 4)))]
    moves.append(Move(at, "run", (f"undone{stage.run}", *run)))
    for _ in range(chance.choice((1, 2, 4))):
        at += chance.choice((0.5 * stage.length, stage.length + HOUR, 25 * HOUR, 50 * HOUR))
        moves.append(Move(at, *draw_by_people(chance)))
    for number in range(chance.choice((0, 1, 2))):
        at += chance.choice((0.0, HOUR, 26 * HOUR))
        moves.append(Move(at, "run", (f"undone{stage.run}{number}", *run)))
    return moves + (expired_comes_back(chance, stage) if chance.random() < 0.5 else [])


def beyond_limits(chance: random.Random, stage: Stage) -> Moves:
    """A run would exceed its limits; it is answered in time, late, or never, and the records may be edited."""
    name, hours = f"limited{stage.run}", chance.choice((1.0, 3.0))
    approval = chance.choice(("over_limits", "over_limits", "never")), hours
    by = chance.choice(("dag", "dag", "person"))
    at = stage.at + 1
    moves = [
        *garbage(chance, stage, 3, 6),
        run_of(
            at,
            name,
            most=chance.choice((1, 2)),
            by=by,
            approval=approval,
            undo=chance.choice(("off", "auto")),
        ),
    ]
    answered = at + stage.length + chance.choice((0.0, 0.3, 0.9, 1.2)) * hours * HOUR
    for _ in range(chance.choice((0, 0, 1, 2))):
        moves.append(Move(answered, "answer", (name, *draw_answer(chance))))
        answered += chance.choice((0.0, 10.0, HOUR))
        if by == "person":
            moves.append(Move(answered + 30, "resume", (name,)))
    if chance.random() < 0.3:
        moves += [
            Move(
                answered + 2 * hours * HOUR,
                "clear",
                (name, chance.choice(("subtract", "bulk_delete", "approve"))),
            ),
            Move(answered + 2 * hours * HOUR + 600, "answer", (name, *draw_answer(chance))),
        ]
    return moves


def answered_early(chance: random.Random, stage: Stage) -> Moves:
    """A rejection, or an approval and then a rejection, right while the sweep begins, checks again, or deletes."""
    name = f"early{stage.run}"
    at = stage.at + 1
    moves = [*garbage(chance, stage, 4, 8), run_of(at, name, approval=("always", 3.0))]
    moves.append(Move(at + stage.length + 60, "answer", (name, "approved", "anna", "Airflow")))
    moves.append(Move(at + stage.length + 61, "answer", (name, "approved", "anna", "dredge gc")))
    among = (
        ("approve", "get"),
        ("bulk_delete", "get"),
        ("bulk_delete", "prepare_uncommitted"),
        ("bulk_delete", "list_branches"),
        ("bulk_delete", "delete"),
    )
    for _ in range(chance.choice((1, 2))):
        no = "answer", name, "rejected", "bert", "dredge gc"
        moves.append(moment(chance, stage, *no, among=among))
    if chance.random() < 0.5:
        faint = chance.choice((70.0, 150.0, 250.0))
        moves.append(
            moment(chance, stage, "faint", faint, among=(("bulk_delete", "put"), ("bulk_delete", "delete")))
        )
    return moves


def made_final(chance: random.Random, stage: Stage) -> Moves:
    """A run's deletions are reused, or overwritten, and then purged, too early or in time."""
    at, undo = stage.at + chance.choice((0.0, stage.length)), chance.choice(("auto", "quarantine"))
    moves = [*garbage(chance, stage, 2, 4), run_of(at, f"final{stage.run}", undo=undo)]
    days = chance.choice((1.0, 1.0, 2.0))
    at += stage.length + chance.choice((0.5, 20.0, 30.0)) * HOUR
    if chance.random() < 0.5:
        moves.append(Move(at, "restore", (chance.randrange(3), chance.choice((1.0, 3.0, 30.0)))))
    if chance.random() < 0.3:
        moves.append(run_of(at + HOUR, f"again{stage.run}", undo=undo))
    for _ in range(chance.choice((1, 2))):
        at += chance.choice((2.0, 26.0, 50.0)) * HOUR
        moves.append(Move(at, "purge", (days, chance.random() < 0.4)))
    return moves
