"""Real or possible losses around one run, mostly during it."""

import random
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.gc.scenes.stage import (
    MOMENTS,
    SLEEPS,
    SWEEPING,
    Moves,
    Scene,
    Stage,
    content,
    head_moves,
    moment,
)
from tests.simulation.history import Move
from tests.simulation.writers import BRANCHES, OLDEST


def the_same_again(chance: random.Random, stage: Stage) -> Moves:
    """The same bytes are uploaded again over a committed path, and the head moves during a run's look."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    moves = [
        Move(stage.past(20), "upload", (branch, path, content(chance))),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(chance.choice((3, 2, 1.5))), "upload the same", (branch, path)),
    ]
    if chance.random() < 0.4:
        moves.append(Move(stage.past(1.2), "commit", (branch, 0)))  # refused: nothing has changed
    if chance.random() < 0.5:
        verb, args = head_moves(chance, branch, path)
        moves.append(moment(chance, stage, verb, *args))
    return moves


def storm(chance: random.Random, stage: Stage) -> Moves:
    """Weather of one kind around the calls of one step, with live objects dependent on its answers."""
    step, call = chance.choice(MOMENTS)
    kind = chance.choice(stage.temper.weather)
    scene: Scene = chance.choice((the_same_again, staged_moves, expired_comes_back))
    seconds = round(chance.choice((0.005, 0.03, 0.1)) * stage.length, 3)
    if chance.random() < 0.6:
        kind, step, calls, scene = chance.choice(STORMS)
        call = chance.choice(calls)
    if kind == "staging cut short":
        seconds = 3 * stage.length
    number = 1 + int(chance.random() ** 2 * 6)
    spell = (kind, seconds, chance.choice((0.5, 1.0)))
    moves = [Move(max(0.0, stage.at - 1), "when", (step, call, number, "weather", *spell))]
    return moves + scene(chance, stage)


def claimed(chance: random.Random, stage: Stage) -> Moves:
    """A client's metadata of an object is copied along, and a second copy looks like the first."""
    branch, other = stage.temper.branch(chance), stage.temper.branch(chance)
    first, path = stage.temper.path(chance), stage.temper.path(chance)
    return [
        Move(stage.past(20), "link", (branch, first, content(chance), 0.0, 0.1, True)),
        Move(stage.past(19.5), "commit", (branch, 0)),
        Move(stage.past(19), "copy", (other, path, first, branch)),
        Move(stage.past(18), "commit", (other, 0)),
        Move(stage.past(chance.choice((2, 3))), "copy", (other, path, first, branch)),
    ]


def branches_come_and_go(chance: random.Random, stage: Stage) -> Moves:
    """Much is staged for long, and a branch is made and deleted all the time while staging is read."""
    at, begin = stage.past(2 + chance.random()), max(0.0, stage.at - 1)
    gone = chance.choice(("one", "one", "one", "two", "hidden"))
    moves = [Move(stage.past(4), "create branch", (branch, "main")) for branch in BRANCHES[1:]]
    for branch in BRANCHES:
        if chance.random() < 0.5:
            moves.append(Move(at, "upload", (branch, stage.temper.path(chance), content(chance))))
        else:  # the server that scans it writes no row for it
            moves.append(Move(at, "reset", (branch,)))
    # A scan is there in the mark, and one in the re-check, or more. Much shorter than a run it is not there.
    call, calls = chance.choice(("get", "scan", "scan")), chance.choice((0.0, 1.0, 5.0, 10.0, 15.0, 30.0))
    again = "re-create branch", gone, OLDEST, calls * stage.length / 400 / HOUR
    for _ in range(chance.choice((0, 0, 1))):
        verb = chance.choice((again, ("delete branch", gone)))
        moves.append(Move(begin, "when", ("prepare_uncommitted", call, 1 + chance.randrange(25), *verb)))
    every, times = chance.choice((1, 1, 1, 2, 4)), chance.choice((5, 20, 60))
    moves.append(Move(begin, "each", ("prepare_uncommitted", call, every, times, *again)))
    for _ in range(chance.choice((0, 0, 0, 12))):
        at = stage.during(chance)
        moves.append(Move(at, "create branch", (gone, "main")))
        moves.append(Move(at + chance.random() * 0.05 * stage.length, "delete branch", (gone,)))
    return moves


def expired_comes_back(chance: random.Random, stage: Stage) -> Moves:
    """Content of an expired commit only is reused during a run."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    moves = [
        Move(stage.past(44), "rules", (1, chance.choice((0, 2)))),
        Move(stage.past(43), "upload", (branch, path, content(chance))),
        Move(stage.past(42), "commit", (branch, 0)),
        Move(stage.past(30), "delete", (branch, path)),
        Move(stage.past(29), "commit", (branch, 0)),
        Move(stage.past(9), "upload", (branch, path, content(chance))),
        Move(stage.past(8), "commit", (branch, 0)),
    ]
    for _ in range(chance.choice((1, 2, 3))):
        old = OLDEST + chance.randrange(4)
        verb = chance.choice(("create branch from commit", "hard reset", "revert", "cherry-pick", "tag"))
        args: tuple[Any, ...] = (old,) if verb == "tag" else (stage.temper.branch(chance), old)
        if chance.random() < 0.6:
            moves.append(moment(chance, stage, verb, *args))
        else:
            moves.append(Move(stage.during(chance), verb, args))
    if chance.random() < 0.3:
        moves.append(Move(stage.during(chance), "rules", (chance.choice((None, 30)), 2)))
    return moves


def staged_moves(chance: random.Random, stage: Stage) -> Moves:
    """Long staged entries are committed, merged, reset or moved during a run."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    moves = [Move(stage.past(chance.choice((2, 3, 20))), "upload", (branch, path, content(chance)))]
    if chance.random() < 0.5:
        moves.append(Move(stage.past(1.5), "commit", (branch, 0)))
        moves.append(Move(stage.past(1.4), "metadata", (branch, path)))
    for _ in range(chance.choice((1, 2, 3, 5))):
        verb, args = head_moves(chance, branch, path)
        if chance.random() < 0.5:
            moves.append(moment(chance, stage, verb, *args))
        else:
            moves.append(Move(stage.during(chance), verb, args))
    return moves


def orphan(chance: random.Random, stage: Stage) -> Moves:
    """A worker is lost but continues, and wakes during the retry, or a later step."""
    task = chance.choice(
        ("slice_listing", "mark_uncommitted", "list_committed", "list_committed", "subtract", "check_limits")
    )
    if chance.random() < 0.4:
        task = chance.choice(("bulk_delete", "bulk_delete task", "save_report", "acquire_lease", "plan"))
    call = 1 + int(chance.random() ** 2 * 60)
    moves = [Move(0.0, "sleep", (f"run{stage.run} {task}", call, chance.choice(SLEEPS)))]
    if chance.random() < 0.5:
        moves.append(Move(0.0, "sleep", (f"run{stage.run} {task}", call + 5, chance.choice(SLEEPS))))
    return moves + chance.choice((expired_comes_back, staged_moves, late_stage))(chance, stage)


def late_link(chance: random.Random, stage: Stage) -> Moves:
    """An address handed out a day ago is linked at the last moment; servers disagree about the deadline."""
    hours = chance.choice((23.5, 24.0, 24.2, 25.1, 25.5, 26.0))
    moves = []
    for number in range(chance.choice((1, 3))):
        write = stage.temper.branch(chance), stage.temper.path(chance), content(chance)
        link = stage.during(chance)
        moves.append(Move(link - hours * HOUR, "hand out", write))
        moves.append(Move(link, "link the last", (-1 - number,)))
    return moves


def late_stage(chance: random.Random, stage: Stage) -> Moves:
    """An old, maybe unreferenced, address is staged during a run."""
    moves = [Move(stage.past(3), "orphan", (content(chance),))]
    for _ in range(chance.choice((1, 2, 4))):
        where = stage.temper.branch(chance), stage.temper.path(chance)
        moves.append(moment(chance, stage, "stage", *where, chance.choice((-1, -2, -3, 0, 1, 7))))
    return moves


def late_parts(chance: random.Random, stage: Stage) -> Moves:
    """A multipart upload ends right at the beginning of a run, and its server stages it later."""
    where = stage.temper.branch(chance), stage.temper.path(chance), content(chance)
    end = stage.at + chance.random() * 0.3 * stage.length
    return [
        Move(end - 30 * HOUR, "begin parts", where),
        moment(chance, stage, "complete parts", -1, among=MOMENTS[:3]),
        Move(end, "weather", ("slow server", round(0.5 * stage.length, 2), chance.choice((0.5, 1.0)))),
    ]


def two_at_once(chance: random.Random, stage: Stage) -> Moves:
    """A run falls asleep during its deletion, another one follows, and objects are reused in between."""
    mode = chance.choice(("clean", "optimized"))
    by = chance.choice(("dag", "person"))
    other = f"other{stage.run}"
    at = stage.at + chance.choice((0.0, stage.length, HOUR + stage.length, 2 * HOUR))
    worker = chance.choice(("", " task"))
    moves = [
        Move(at, "run", (other, mode, False, None, 0, None, by)),
        Move(
            0.0,
            "sleep",
            (f"run{stage.run} bulk_delete{worker}", 1 + chance.randrange(60), chance.choice(SLEEPS)),
        ),
    ]
    again = Stage(stage.temper, stage.run, at, stage.length)
    return moves + chance.choice((expired_comes_back, staged_moves, late_stage))(chance, again)


def again_and_again(chance: random.Random, stage: Stage) -> Moves:
    """Runs follow each other over days, each with the results of the earlier ones."""
    moves: Moves = []
    at = stage.at
    for number in range(chance.choice((2, 3, 4))):
        at += stage.length + chance.choice((2 * HOUR, 26 * HOUR, 3 * DAY))
        mode = chance.choice(("optimized", "optimized", "auto"))
        policy = chance.choice((0, 0, 1, 2))
        moves.append(Move(at, "run", (f"later{stage.run}{number}", mode, False, None, policy, None, "dag")))
        for _ in range(chance.choice((1, 3, 6))):
            moves.append(Move(at - chance.random() * 30 * HOUR, *stage.temper.write(chance)))
    return [move for move in moves if move.at > 0]


def damage(chance: random.Random, stage: Stage) -> Moves:
    """Objects of the store are damaged, lost or locked before or during a run."""
    verb = chance.choice(("lose range", "damage range", "lose index", "lock away", "lock away", "lose page"))
    at = chance.choice((stage.past(0.5), stage.during(chance)))
    moves = [Move(at, verb, (chance.randrange(40),))]
    if chance.random() < 0.5:
        moves.append(Move(stage.at + stage.length * 2, "mend", ()))
    return moves


def others_inside(chance: random.Random, stage: Stage) -> Moves:
    """Another repository uses this one's namespace, on this server or on another one's."""
    verb = chance.choice(("nest", "nest unseen", "share", "share"))
    at = chance.choice((stage.past(4), stage.past(4), stage.during(chance)))
    args: tuple[Any, ...] = ()
    return [Move(at, verb, args)]


def deleted_while_idle(chance: random.Random, stage: Stage) -> Moves:
    """Much garbage and sleeping workers make a sweep long, and heads move to old commits meanwhile."""
    moves = [Move(stage.past(3), "orphan", (content(chance),)) for _ in range(chance.choice((5, 15)))]
    for _ in range(chance.choice((1, 2, 4))):
        number, seconds = 1 + int(chance.random() ** 2 * 30), chance.choice((70.0, 150.0, 250.0, 290.0))
        when = "bulk_delete", chance.choice(("get", "put", "put_if_absent")), number, "faint", seconds
        moves.append(Move(max(0.0, stage.at - 1), "when", when))
    for _ in range(chance.choice((1, 2))):
        verb, old = chance.choice(("create branch from commit", "hard reset")), OLDEST + chance.randrange(4)
        moves.append(moment(chance, stage, verb, stage.temper.branch(chance), old, among=SWEEPING))
    return moves + expired_comes_back(chance, stage) + expired_comes_back(chance, stage)


def neighbours(chance: random.Random, stage: Stage) -> Moves:
    """A client works in another repository with a similar name."""
    moves = []
    for _ in range(chance.choice((4, 10, 20))):
        verb, args = stage.temper.write(chance)
        if not verb.startswith("s3 "):
            moves.append(
                Move(
                    chance.choice((stage.past(chance.random() * 9), stage.during(chance))),
                    "beside",
                    (verb, *args),
                )
            )
    return moves


STORMS: tuple[tuple[str, str, tuple[str, ...], Scene], ...] = (
    ("proxy 404", "check_limits", ("stat_object", "list_objects"), the_same_again),
    ("proxy 404", "mark_uncommitted", ("diff_branch", "list_objects", "stat_object"), staged_moves),
    ("staging cut short", "mark_uncommitted", ("list_branches",), branches_come_and_go),
    ("cached answer", "bulk_delete", ("list_branches",), expired_comes_back),
)
"""Weather with dangerous wrong answers: kind, step, calls, and dependent objects."""
