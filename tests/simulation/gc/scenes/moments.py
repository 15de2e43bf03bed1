"""Moves of entries around a scan of staging during its reading: a scan has no single moment."""

import random

from tests.simulation.gc.scenes.stage import Moves, Stage, branches, garbage
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST

SCAN = "prepare_uncommitted"
ORDER = ("hidden", "main", "one", "two")
"""Branches in the order of a scan."""
AFTER_THE_MARK = (("subtract", "put"), ("check_limits", "put"))


def _at(begin: float, role: str, call: str, number: int, verb: str, *args: object) -> Moves:
    when = role, call, number
    return [Move(begin, "when", (*when, "dawdle", 5.0)), Move(begin, "when", (*when, verb, *args))]


def _others(stage: Stage, *names: str) -> Moves:
    return [
        Move(stage.past(3), "upload", (branch, f"z{n}", bytes(90 + n)))
        for n, branch in enumerate(dict.fromkeys(names))
    ]


def carried_over(chance: random.Random, stage: Stage) -> Moves:
    """Staged entries are moved to a branch already scanned, by a commit left dangling: in the mark, in the re-check, or
    in both.
    """
    path, begin = stage.temper.path(chance), max(0.0, stage.at - 1)
    first = chance.choice((2, 3, 3))
    source, target, last = (ORDER[first - n] for n in range(3))
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *branches(stage),
        Move(stage.past(20), "upload", ("main", "a", b"x")),
        Move(stage.past(19), "commit", ("main", 0)),
        Move(stage.past(3), "upload", (source, path, bytes(chance.randrange(70, 90)))),
        *_others(stage, target, last),
        *garbage(chance, stage, 0, 1),
        Move(-58.0, "clients hurry"),
    ]
    if chance.random() < 0.5:  # unreferenced when the mark reads staging
        moves.append(Move(stage.past(2), "reset path", (source, path)))
        moves.append(Move(begin, "when", (*chance.choice(AFTER_THE_MARK), 1, "stage", source, path, 1)))
        again = _at(
            begin,
            SCAN,
            f"get branches/{source}",
            chance.choice((2, 2, 3)),
            "carry over",
            source,
            target,
            path,
            -1,
        )
        return [*moves, *again]
    moves += _at(begin, SCAN, f"get branches/{source}", 1, "carry over", source, target, path, -1)
    again = _at(
        begin, SCAN, f"get branches/{target}", chance.choice((2, 2, 3)), "carry over", target, last, path, -1
    )
    return [*moves, *again]


def _left_by_two(chance: random.Random, stage: Stage, path: str) -> Moves:
    return [
        *branches(stage),
        Move(stage.past(20), "upload", ("two", path, bytes(chance.randrange(70, 90)))),
        Move(stage.past(19), "commit", ("two", 0)),
        Move(stage.past(18), "delete", ("two", path)),
        Move(stage.past(17), "commit", ("two", 0)),
        Move(stage.past(16), "hard reset", ("two", OLDEST)),
    ]


def taken_from_behind(chance: random.Random, stage: Stage) -> Moves:
    """Content of an old commit kept by a branch's rule only is staged elsewhere while staging is read, and the branch
    is reset; or content of its head is staged on itself.
    """
    path, begin = stage.temper.path(chance), max(0.0, stage.at - 1)
    target = chance.choice(("hidden", "main", "one", "two"))
    moves = [
        Move(stage.past(44), "rules", (1, chance.choice((30, 30, 0)))),
        *_left_by_two(chance, stage, path),
        *_others(stage, target),
        *garbage(chance, stage, 0, 1),
        Move(-58.0, "clients hurry"),
    ]
    back = OLDEST + chance.choice((2, 2, 1))
    moves.append(Move(begin, "when", (*chance.choice(AFTER_THE_MARK), 1, "hard reset", "two", back)))
    role, call = chance.choice((("bulk_delete", "list_branches"), (SCAN, "get branches/two")))
    number = chance.choice((2, 3, 3, 4)) if role == "bulk_delete" else 2
    return [*moves, *_at(begin, role, call, number, "carry over", "two", target, path, OLDEST + 1)]


def taken_from_a_tag(chance: random.Random, stage: Stage) -> Moves:
    """An expired commit is tagged, mostly after the mark; during the re-check its content is staged on another branch,
    and the tag is deleted.
    """
    path, begin = stage.temper.path(chance), max(0.0, stage.at - 1)
    target = chance.choice(("hidden", "main", "one", "two"))
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *_left_by_two(chance, stage, path),
        *garbage(chance, stage, 0, 1),
        Move(-58.0, "clients hurry"),
    ]
    if chance.random() < 0.9:
        moves.append(Move(begin, "when", (*chance.choice(AFTER_THE_MARK), 1, "tag", OLDEST + 1)))
    else:
        moves.append(Move(stage.past(3), "tag", (OLDEST + 1,)))
    call, number = chance.choice(
        (("list_branches", 2), ("list_branches", 3), ("list_tags", 1), ("list_tags", 2))
    )
    return [*moves, *_at(begin, "bulk_delete", call, number, "take from tag", target, path, OLDEST + 1)]


def left_behind(chance: random.Random, stage: Stage) -> Moves:
    """Staged entries move into a dangling commit, or one with only a tag, with old tables: between two reads of the
    re-check, so one reads staging too late and another one commits too early.
    """
    path, begin = stage.temper.path(chance), max(0.0, stage.at - 1)
    source, target = chance.sample(("main", "one", "hidden"), 2)
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *_left_by_two(chance, stage, path),
        *garbage(chance, stage, 0, 1),
        Move(-58.0, "clients hurry"),
        Move(begin, "when", (*chance.choice(AFTER_THE_MARK), 1, "stage", source, path, 0)),
    ]
    call = chance.choice((SCAN, SCAN, "list_branches", "list_tags"))
    tag = chance.choice((True, False, False))
    moved = "leave behind", source, target, path, OLDEST + 1, tag
    return [*moves, *_at(begin, "bulk_delete", call, chance.choice((1, 1, 2, 3)), *moved)]
