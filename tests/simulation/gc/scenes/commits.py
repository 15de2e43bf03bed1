"""Commits of hours, beside runs and tries with different views of their content; and content of older commits only, of
one line or of two merged ones.
"""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, content, garbage, run_of
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST


def marked_anew(chance: random.Random, stage: Stage) -> Moves:
    """A driver is taken for lost right before its try of the mark, and begins it after a commit has sealed the entries
    seen by its retry: it sees fewer, or does not end.
    """
    branch, path, name = stage.temper.branch(chance), stage.temper.path(chance), f"run{stage.run}"
    begin, mark = max(0.0, stage.at - 1), "mark_uncommitted"
    wake = chance.choice((("subtract", "put"), ("check_limits", "get"), ("bulk_delete", "get")))
    moves = [
        *branches(stage),
        *garbage(chance, stage, 1, 3),
        Move(stage.past(3), "upload", (branch, path, content(chance))),
        Move(begin, "when", (mark, "open_read lease.json", 1, "faint", 14 * HOUR)),
        Move(begin, "when", ("commit", "put", 1, "dawdle", 6 * HOUR + 4 * stage.length)),
        Move(begin, "when", ("list_committed", "list_branches", 1, "commit", branch, 0)),
        Move(begin, "when", ("subtract", "get", 1, "upload", branch, path, content(chance))),
        Move(begin, "when", (*wake, 1 + chance.randrange(3), "wake", f"{name} {mark}")),
    ]
    if chance.random() < 0.5:  # it comes to no end
        moves.append(Move(begin, "when", (mark, "prepare_uncommitted", 2, "faint", 20 * HOUR)))
    later = stage.at + stage.length + chance.choice((1.0, 2.0)) * HOUR
    if chance.random() < 0.5:
        return [*moves, Move(later, "clear", (name, chance.choice((mark, "list_committed"))))]
    return [*moves, run_of(later, f"after{stage.run}")]


def seen_elsewhere(chance: random.Random, stage: Stage) -> Moves:
    """Only a dry run has seen the content of a commit lasting most of a day; the next run is on another server."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    at = stage.at + stage.length + 60
    looked, commit = at + chance.choice((1.0, 10.0)) * HOUR, at + chance.choice((8.5, 11.0)) * HOUR
    lasts = chance.choice((17.0, 19.0)) * HOUR
    return [
        *branches(stage),
        Move(stage.at, "when", ("commit", "put", 1, "dawdle", lasts)),
        Move(at, "upload", (branch, path, content(chance))),
        run_of(looked, f"beside{stage.run}", dry_run=True),
        Move(commit + stage.length, "commit", (branch, 0)),
        Move(commit + stage.length + 60, "upload", (branch, path, content(chance))),
        run_of(at + 25.2 * HOUR, f"after{stage.run}", root=chance.choice(("runs", "runs", ""))),
    ]


def old_versions(chance: random.Random, stage: Stage) -> Moves:
    """Long active commits have content no longer on their branches; most live objects are young."""
    moves = branches(stage)
    moves.append(Move(stage.past(44), "rules", (chance.choice((None, 30, 30)), 0)))
    for n in range(chance.choice((3, 8))):
        branch, path = stage.temper.branch(chance), stage.temper.path(chance)
        moves.append(Move(stage.past(20 - 0.5 * n), "upload", (branch, path, bytes(100 + n))))
        moves.append(Move(stage.past(19.9 - 0.5 * n), "commit", (branch, 0)))
        moves.append(Move(stage.past(19.8 - 0.5 * n), "delete", (branch, path)))
        moves.append(Move(stage.past(19.7 - 0.5 * n), "commit", (branch, 0)))
    for n in range(chance.choice((0, 12))):
        write = stage.temper.branch(chance), f"{n}{stage.temper.path(chance)}", bytes(200 + n)
        moves.append(Move(stage.at - 2 * HOUR, "upload", write))
    return [*moves, *garbage(chance, stage, 0, 3)]


def two_lines(chance: random.Random, stage: Stage) -> Moves:
    """An old commit has an old child on one branch and a young one on another, and is the only one with its content: a
    walk must not end at the old child.
    """
    path, other = stage.temper.path(chance), chance.choice(("one", "two", "hidden"))
    moves = [
        Move(stage.past(44.5), "rules", (chance.choice((5, 5, 10, 30)), chance.choice((0, 0, 1, 2)))),
        *branches(stage),
        Move(stage.past(43), "upload", ("main", path, bytes(chance.randrange(70, 90)))),
        Move(stage.past(42), "commit", ("main", 0)),
        Move(stage.past(41), "hard reset", (other, OLDEST + 1)),
    ]
    young = chance.choice((1.5, 2.0, 3.0, 8.0))
    for branch, days in (("main", chance.choice((40, 35, 35, 6))), (other, young)):
        moves.append(Move(stage.past(days), chance.choice(("delete", "delete", "overwrite")), ()))
        args = (branch, path) if moves[-1].verb == "delete" else (branch, path, b"x", b"y")
        moves[-1] = Move(stage.past(days), moves[-1].verb, args)
        moves.append(Move(stage.past(days - 0.1), "commit", (branch, 0)))
    if chance.random() < 0.3:  # no branch leads to the old child
        moves.append(Move(stage.past(young - 0.3), "hard reset", ("main", OLDEST)))
    if chance.random() < 0.4:  # nor to the young one
        leave = chance.choice((("delete branch", (other,)), ("hard reset", (other, OLDEST))))
        moves.append(Move(stage.past(young - 0.4), *leave))
    return [*moves, *garbage(chance, stage, 0, 1)]
