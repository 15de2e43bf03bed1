"""Staged entries: long commits, scans with lost rows, copies invisible in answers."""

import random

from tests.simulation.clock import DAY, HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, content, garbage, moment, run_of
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST

AFTER_THE_SCAN = (
    ("list_committed", "list_branches"),
    ("list_committed", "prepare_commits_async"),
    ("subtract", "put"),
)
BEFORE_THE_RE_CHECK = (("check_limits", "put"), ("bulk_delete", "get"), ("bulk_delete", "list_branches"))


def long_commit(chance: random.Random, stage: Stage) -> Moves:
    """A commit takes hours, and its path is rewritten meanwhile; an earlier run has seen its content, and later runs,
    or the same run repeated, do not see it.
    """
    branch, path, data = stage.temper.branch(chance), stage.temper.path(chance), content(chance)
    days = chance.choice((0.0, 0.0, 0.0, 8.0))
    apart = chance.choice((HOUR, 2 * HOUR, 5 * HOUR))
    commit = stage.at + stage.length + 0.2 * HOUR + days * DAY
    later = [commit + HOUR + n * (stage.length + apart) for n in range(chance.choice((1, 2, 2)))]
    lasts = later[-1] - commit + 3 * stage.length + HOUR
    moves = [
        Move(stage.past(3), "upload", (branch, path, data)),
        Move(commit - 60, "when", ("commit", "put", 1, "dawdle", lasts)),
        Move(commit, "commit", (branch, 0)),
        Move(commit + 60, "upload", (branch, path, content(chance))),
    ]
    if chance.random() < 0.4:  # others are as long, and one of them is in a head
        other = stage.temper.branch(chance)
        moves += [
            Move(stage.past(20), "upload", (other, "e", data)),
            Move(stage.past(19), "commit", (other, 0)),
        ]
        found = chance.choice((stage.past(2.5), stage.at - 24.2 * HOUR))  # by this run, or by the next one
        moves.append(Move(found, "orphan", (data,)))
    if not days and chance.random() < 0.35:
        return [*moves, *_marked_again(chance, stage, later[0])]
    if chance.random() < 0.25:
        moves.append(Move(later[0] - 60, "damage run", (chance.choice(("plan", "mark")), 0)))
    if not days and chance.random() < 0.2:
        moves.append(
            Move(commit - 60, "run", run_of(0.0, f"beside{stage.run}", dry_run=True, root="runs").args)
        )
    return [*moves, *(run_of(at, f"after{stage.run}{n}") for n, at in enumerate(later))]


def _marked_again(chance: random.Random, stage: Stage, at: float) -> Moves:
    again = [Move(at, "clear", (f"run{stage.run}", "mark_uncommitted"))]
    if chance.random() < 0.5:
        return again
    spell = chance.choice(("proxy page", "throttled", "request lost")), 1500.0, 1.0
    return [
        *again,
        Move(at, "when", ("mark_uncommitted", "get", 1, "weather", *spell)),
        run_of(at + 2 * HOUR, f"after{stage.run}"),
    ]


def pages_are_lost(chance: random.Random, stage: Stage) -> Moves:
    """The server's pages of a scan are lost before they are read."""
    moves = [*branches(stage), *garbage(chance, stage, 0, 1)]
    for n, branch in enumerate(("main", "one", "two")[: chance.choice((1, 3))]):
        for number in range(chance.choice((1, 3))):  # the last path of a branch is always checked
            write = branch, f"{number}{stage.temper.path(chance)}", bytes(70 + n + 3 * number)
            moves.append(Move(stage.past(3), "upload", write))
    for step in ("mark_uncommitted", "bulk_delete"):
        times = chance.choice((2, 6))
        moves.append(Move(max(0.0, stage.at - 1), "each", (step, "list", 1, times, "lose page", -1)))
    return moves


def hidden_then_not(chance: random.Random, stage: Stage) -> Moves:
    """The same bytes are uploaded again over a head, hidden in a scan; then the branch is at another commit for a
    while, and back at the first one when staging is read again.
    """
    branch, path = chance.choice(("one", "two", "hidden")), stage.temper.path(chance)
    moves = [
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, bytes(chance.randrange(70, 90)))),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(chance.choice((3, 2))), "upload the same", (branch, path)),
    ]
    begin = max(0.0, stage.at - 1)
    moves.append(Move(begin, "when", (*chance.choice(AFTER_THE_SCAN), 1, "hard reset", branch, OLDEST)))
    newest = OLDEST + 1
    when = (*chance.choice(BEFORE_THE_RE_CHECK), 1, "hard reset", branch, newest)
    return [*moves, Move(begin, "when", when)]


def carried_around(chance: random.Random, stage: Stage) -> Moves:
    """A commit hides staged entries from a scan, and its branch has them in staging again after the scan, with the
    commit left dangling.
    """
    branch, path = chance.choice(("two", "two", "one")), stage.temper.path(chance)
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *branches(stage),
        Move(stage.past(20), "upload", ("main", "a", b"x")),
        Move(stage.past(19), "commit", ("main", 0)),
        Move(stage.past(3), "upload", (branch, path, bytes(chance.randrange(70, 90)))),
        Move(-58.0, "clients hurry"),
    ]
    seconds = chance.choice((0.3, 0.6, 1.0, 2.0))
    call = chance.choice(("get branches/hidden", "get branches/main", "scan"))
    times = chance.choice((2, 4, 8))
    carry = "carry", branch, path, OLDEST, seconds / HOUR
    return [*moves, Move(max(0.0, stage.at - 1), "each", ("prepare_uncommitted", call, 1, times, *carry))]


def much_is_staged(chance: random.Random, stage: Stage) -> Moves:
    """Many objects are staged and committed for long, on all branches."""
    moves = branches(stage)
    for n in range(chance.choice((8, 15))):
        write = stage.temper.branch(chance), stage.temper.path(chance), bytes(60 + n)
        moves.append(Move(stage.past(20 - 0.5 * n), "upload", write))
        if chance.random() < 0.4:
            moves.append(Move(stage.past(19.9 - 0.5 * n), "commit", (write[0], 0)))
    return [*moves, *garbage(chance, stage, 1, 3)]


def dangling(chance: random.Random, stage: Stage) -> Moves:
    """Content of a young dangling commit, or of an old one kept only by its child."""
    branch, path = chance.choice(("one", "two")), stage.temper.path(chance)
    moves = [
        Move(stage.past(44), "rules", (chance.choice((5, 30)), chance.choice((0, 1)))),
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, bytes(chance.randrange(70, 90)))),
        Move(stage.past(19.5), "commit", (branch, 0)),
    ]
    for n in range(chance.choice((1, 2))):
        at = chance.choice((4.0, 3.0, 2.0)) - 0.3 * n
        other = chance.choice((branch, branch, "main"))
        moves.append(
            Move(stage.past(at), chance.choice(("delete", "delete", "upload the same")), (branch, path))
        )
        moves.append(Move(stage.past(at - 0.1), "upload", (other, "b", bytes(95 + n))))
        moves.append(Move(stage.past(at - 0.2), "commit", (other, 0)))
        moves.append(Move(stage.past(at - 0.25), "commit", (branch, 0)))
    if chance.random() < 0.5:
        moves.append(Move(stage.past(1.2), "hard reset", (branch, OLDEST)))
    if chance.random() < 0.5:
        begin = max(0.0, stage.at - 1)
        for step in ("list_committed", "bulk_delete"):
            moves.append(Move(begin, "each", (step, "get _lakefs/retention/gc/commits", 1, 3, "empty list")))
    return [*moves, *garbage(chance, stage, 0, 1)]


def up_again_though_poisoned(chance: random.Random, stage: Stage) -> Moves:
    """A head at the time of the scan was deleted, and servers do not find commits by their ids."""
    branch, path = chance.choice(("one", "two")), stage.temper.path(chance)
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, bytes(chance.randrange(70, 90)))),
        Move(stage.past(19), "commit", (branch, 0)),
    ]
    begin, step = max(0.0, stage.at - 1), chance.choice(("mark_uncommitted", "bulk_delete"))
    spell = "commit cache poisoned", round(3 * stage.length, 3), 1.0
    moves.append(Move(begin, "when", (step, "list_branches", 1, "weather", *spell)))
    moves.append(Move(begin, "when", (step, "prepare_uncommitted", 1, "metadata", branch, path)))
    moves.append(
        moment(
            chance,
            stage,
            "hard reset",
            branch,
            OLDEST,
            among=((step, "prepare_uncommitted"), (step, "diff_branch")),
        )
    )
    return moves


def copy_is_read(chance: random.Random, stage: Stage) -> Moves:
    """The key-value store is read from a stale replica, and an old object is staged over an equal entry, invisible in
    answers: all in the minutes between the mark and the re-check.
    """
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    begin, data = max(0.0, stage.at - 1), bytes(chance.randrange(70, 90))
    moves = [
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, data)),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(3), "orphan", (data,)),
        *garbage(chance, stage, 0, 1),
    ]
    copied = chance.choice((*AFTER_THE_SCAN, ("check_limits", "get"), ("bulk_delete", "get")))
    staged = chance.choice((("check_limits", "put"), *BEFORE_THE_RE_CHECK))
    moves.append(Move(begin, "when", (*copied, 1, "copy is read")))
    return [*moves, Move(begin, "when", (*staged, 1, "stage alike", branch, path))]
