"""Multipart uploads ending during a run: the object is as old as the beginning of its upload, and its server stages
it a while later.
"""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, content, garbage, run_of
from tests.simulation.history import Move

ENDS = (
    ("plan", "get_repository"),
    ("slice_listing", "get"),
    ("slice_listing", "get"),
    ("slice_listing", "list"),
)
"""Calls of a run at the end of an upload: before it lists the slice, or right then."""
RE_CHECK = (
    ("list_branches", 3),
    ("list_tags", 1),
    ("prepare_commits_async", 1),
    ("get_gc_rules", 1),
    ("put recheck", 2),
)
"""Calls of a re-check and their number, so that no later look is slow."""
LATE = (100.0, 300.0, 500.0, 850.0, 850.0)
"""Seconds of a server from the completion of an upload to its staging."""


def parts_take_a_place(chance: random.Random, stage: Stage) -> Moves:
    """A multipart upload ends while a run lists, and replaces another object known to the run before."""
    branch, path, next_at = stage.temper.branch(chance), stage.temper.path(chance), stage.at + 24 * HOUR
    moves = [
        *branches(stage),
        Move(stage.past(chance.choice((5, 3))), "begin parts", (branch, path, content(chance))),
        Move(stage.at - chance.choice((3.0, 1.5, 27.0, 0.5)) * HOUR, "put at upload", (-1, content(chance))),
        run_of(next_at, f"next{stage.run}", chance.choice(("clean", "clean", "optimized"))),
    ]
    # A listed key is not written again.
    ends = chance.choice(("get_repository", "list_repositories"))
    moves.append(Move(next_at - 1, "when", ("plan", ends, 1, "complete parts", -1)))
    return [*moves, Move(next_at - 1, "when", ("parts", "set", 1, "dawdle", chance.choice(LATE)))]


def parts_during_the_re_check(chance: random.Random, stage: Stage) -> Moves:
    """A multipart upload ends while a run lists and is staged during its re-check; each call of the run may sleep a
    little before.
    """
    branch, path, begin = stage.temper.branch(chance), stage.temper.path(chance), max(0.0, stage.at - 1)
    moves = [
        *branches(stage),
        *garbage(chance, stage, 1, 2),
        Move(
            stage.past(3), "upload", (branch, "z", bytes(90))
        ),  # the last path of a branch is always checked
        Move(stage.past(3), "begin parts", (branch, path, content(chance))),
        Move(begin, "when", (*chance.choice(ENDS), 1, "complete parts", -1)),
        Move(begin, "when", ("parts", "set", 1, "dawdle", chance.choice(LATE))),
    ]
    before, seconds = chance.choice((0, 0, 0, 1)), chance.choice((200.0, 290.0, 290.0))
    if before:
        moves.append(Move(begin, "each", ("check_limits", "get", 1, before, "faint", seconds)))
    for call, times in RE_CHECK:
        moves.append(Move(begin, "each", ("bulk_delete", call, 1, times, "faint", seconds)))
    return moves


def parts_after_the_questions(chance: random.Random, stage: Stage) -> Moves:
    """The same bytes are uploaded again in parts, which end while a run lists; they are staged after the run's
    questions about branches, and the sweep sleeps before its re-check.
    """
    branch, path, data = stage.temper.branch(chance), stage.temper.path(chance), content(chance)
    begin = max(0.0, stage.at - 1)
    ends = "slice_listing", chance.choice(("list", "list", "get"))
    return [
        *branches(stage),
        Move(stage.past(20), "multipart", (branch, path, data, 0.0)),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(3), "begin parts", (branch, path, data)),
        Move(begin, "when", (*ends, 1, "complete parts", -1)),
        Move(begin, "when", ("parts", chance.choice(("set", "set_if")), 1, "dawdle", chance.choice(LATE))),
        Move(begin, "each", ("bulk_delete", "get", 1, chance.choice((3, 4, 5)), "faint", 290.0)),
    ]
