"""Scenes for the guards: each is to be noticed by one or a few of them."""

import random
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.gc.scenes.losses import expired_comes_back
from tests.simulation.gc.scenes.stage import (
    MOMENTS,
    Moves,
    Stage,
    branches,
    content,
    expired,
    garbage,
    moment,
    run_of,
)
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST, PATHS

MARKED = (
    ("subtract", "put"),
    ("check_limits", "list_branches"),
    ("check_limits", "put"),
    ("bulk_delete", "get"),
)
"""Calls between the mark's reading of staging and the re-check's."""
AFTER_COMMITS = (("subtract", "put"), ("subtract", "get"), ("check_limits", "get"), ("check_limits", "put"))


def kept_by_a_tag(chance: random.Random, stage: Stage) -> Moves:
    """Only a tag still leads to a commit kept by no rule."""
    branch, path = chance.choice(("one", "two")), stage.temper.path(chance)
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *branches(stage),
        Move(stage.past(43), "upload", (branch, path, content(chance))),
        Move(stage.past(42), "commit", (branch, 0)),
        Move(stage.past(41), "tag head", (branch,)),
    ]
    if chance.random() < 0.5:
        return [*moves, Move(stage.past(40), "delete branch", (branch,))]
    return [
        *moves,
        Move(stage.past(40), "delete", (branch, path)),
        Move(stage.past(39), "commit", (branch, 0)),
        Move(stage.past(9), "upload", (branch, path, content(chance))),
        Move(stage.past(8), "commit", (branch, 0)),
    ]


def only_hidden(chance: random.Random, stage: Stage) -> Moves:
    """Only a hidden branch has an object, committed or staged, with rules or without."""
    path, other = stage.temper.path(chance), stage.temper.path(chance)
    return [
        Move(stage.past(44), "rules", (chance.choice((None, None, 5)), 0)),
        *branches(stage),
        Move(stage.past(20), "upload", ("hidden", path, content(chance))),
        Move(stage.past(19), "commit", ("hidden", 0)),
        Move(stage.past(chance.choice((2, 3))), "upload the same", ("hidden", path)),
        Move(stage.past(2), "upload", ("hidden", other, content(chance))),
        *garbage(chance, stage, 1, 3),
    ]


def only_looked(chance: random.Random, stage: Stage) -> Moves:
    """A dry run finds garbage, after another one or before."""
    at = stage.at + chance.choice((0.0, 2 * HOUR))
    mode = chance.choice(("clean", "optimized"))
    return [
        *garbage(chance, stage, 1, 4),
        run_of(at, f"looks{stage.run}", mode, dry_run=True, by=chance.choice(("dag", "person"))),
    ]


def staged_after_the_mark(chance: random.Random, stage: Stage) -> Moves:
    """Old unreferenced objects are staged or linked again, after the mark has read staging."""
    moves = garbage(chance, stage, 2, 4)
    for number in range(chance.choice((1, 2))):
        where = stage.temper.branch(chance), stage.temper.path(chance)
        moves.append(moment(chance, stage, "stage", *where, -1 - number, among=MARKED))
    return moves


def up_again_after_the_mark(chance: random.Random, stage: Stage) -> Moves:
    """An expired commit is reused, after the mark has read commits."""
    moves = expired(chance, stage)
    verb = chance.choice(("hard reset", "hard reset", "tag"))
    old = OLDEST + chance.choice((1, 1, 1, 2))
    args: tuple[Any, ...] = (old,) if verb == "tag" else (stage.temper.branch(chance), old)
    return [*moves, moment(chance, stage, verb, *args, among=AFTER_COMMITS)]


def kept_by_a_cache(chance: random.Random, stage: Stage) -> Moves:
    """An expired commit is reused, after the mark has read commits; a cache on the way returns the old answer."""
    call, step = chance.choice(
        (("list_branches", "bulk_delete"), ("get", "bulk_delete"), ("stat_object", "check_limits"))
    )
    spell = "cached answer", round(3 * stage.length, 3), 1.0
    begin = max(0.0, stage.at - 1)
    return [*up_again_after_the_mark(chance, stage), Move(begin, "when", (step, call, 1, "weather", *spell))]


def table_is_missing(chance: random.Random, stage: Stage) -> Moves:
    """A range of the commits is lost or damaged before any run has read it."""
    verb = chance.choice(("lose range", "damage range"))
    moves = []
    branch, path = chance.choice(("main", "one", "two")), stage.temper.path(chance)
    for n in range(3):  # content of a head is also read by servers
        moves.append(Move(stage.past(20 - n), "upload", (branch, path, bytes(70 + n))))
        moves.append(Move(stage.past(19.5 - n), "commit", (branch, 0)))
    return [*moves, Move(stage.past(0.5), verb, (chance.randrange(40),)), *garbage(chance, stage, 0, 1)]


def rows_are_lost(chance: random.Random, stage: Stage) -> Moves:
    """A branch is missing in every scan of staging, and exists before and after."""
    gone = chance.choice(("one", "one", "one", "two"))  # a server notices when it is the last
    begin = max(0.0, stage.at - 1)
    # Committed entries exist in any scan, and in most looks at some objects.
    moves = [Move(stage.past(20), "upload", ("main", path, b"x")) for path in PATHS[:4]]
    moves += [Move(stage.past(19), "commit", ("main", 0)), *branches(stage, 4)]
    staged = chance.choice(("main", "hidden", "hidden"))
    since = stage.past(2.5)
    if chance.random() < 0.3:  # staged entries of the run before are in a head now
        since = stage.at - 26.5 * HOUR
        moves.append(Move(stage.past(2.5), "upload", (staged, "f", bytes(90))))
        moves.append(Move(since - 600, "commit", (staged, 0)))
    for n in range(chance.choice((1, 2, 4))):  # the last path of a branch is always checked
        moves.append(Move(since, "upload", (staged, f"e{n}", bytes(chance.choice((70, 80)) + n))))
    for branch in ("one", "two"):
        moves.append(Move(stage.past(2.4), "reset", (branch,)))
    seconds = chance.choice((0.05, 0.1, 0.2, 0.5, 1.0, 2.0))
    moves += [Move(-58.0, "clients hurry"), Move(-58.0, "servers have", ("rows_lost_on_branch_delete",))]
    again = "re-create branch", gone, OLDEST, seconds / HOUR
    call = f"get branches/{chance.choice(('main', 'main', 'main', gone))}"  # the scan has listed it by then
    return [*moves, Move(begin, "each", ("prepare_uncommitted", call, 1, 60, *again))]


def not_there(chance: random.Random, stage: Stage) -> Moves:
    """The same bytes are staged again, unseen, and a proxy answers "not found" to all requests of the guards, and of
    the sweep's repeated check as well.
    """
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    call = chance.choice(("stat_object", "stat_object", "list_branches"))
    seconds = round(chance.choice((0.02, 0.1)) * stage.length, 3)
    spell = "proxy 404", seconds, 1.0
    return [
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, bytes(chance.randrange(70, 90)))),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(chance.choice((3, 2))), "upload the same", (branch, path)),
        *garbage(chance, stage, 1),
        Move(max(0.0, stage.at - 1), "when", ("check_limits", call, 1, "weather", *spell)),
        Move(max(0.0, stage.at - 1), "when", ("bulk_delete", "stat_object", 1, "weather", *spell)),
    ]


def alike_later(chance: random.Random, stage: Stage) -> Moves:
    """A run waits for a person; meanwhile an old object is staged over an equal entry, invisible in any answer."""
    branch, path, name = stage.temper.branch(chance), stage.temper.path(chance), f"late{stage.run}"
    data = bytes(chance.randrange(70, 90))
    waits = chance.choice((HOUR, 3 * HOUR))
    moves = [*branches(stage), *garbage(chance, stage, 1, 2), Move(stage.past(3), "orphan", (data,))]
    if chance.random() < 0.5:  # the head has it from before
        moves += [
            Move(stage.past(20), "upload", (branch, path, data)),
            Move(stage.past(19), "commit", (branch, 0)),
        ]
    else:  # it comes into the head only now
        moves += [
            Move(stage.at + stage.length + 0.3 * waits, "upload", (branch, path, data)),
            Move(stage.at + stage.length + 0.35 * waits, "commit", (branch, 0)),
        ]
    answered = stage.at + stage.length + waits
    return [
        *moves,
        run_of(stage.at + 1, name, approval=("always", 12.0)),
        Move(answered - chance.choice((0.1, 0.5)) * waits, "stage alike", (branch, path)),
        Move(answered, "answer", (name, "approved", "anna", "Airflow")),
        Move(answered + 5, "answer", (name, "approved", "anna", "dredge gc")),
    ]


def alike_at_once(chance: random.Random, stage: Stage) -> Moves:
    """An old object is staged over an equal entry, invisible in any answer, right after the guards' request, or
    before; on an old or new branch; over an old or new entry.
    """
    path, data, begin = stage.temper.path(chance), bytes(chance.randrange(70, 90)), max(0.0, stage.at - 1)
    branch = chance.choice(("main", "main", "one"))
    moves = [
        Move(stage.past(20), "upload", ("main", path, data)),
        Move(stage.past(19), "commit", ("main", 0)),
        *garbage(chance, stage, 0, 1),
        *(Move(stage.past(3), "orphan", (data,)) for _ in range(chance.choice((1, 2)))),
    ]
    calls = (
        ("check_limits", "stat_object"),
        ("check_limits", "put"),
        ("check_limits", "put"),
        ("bulk_delete", "get"),
    )
    when = *chance.choice(calls), chance.choice((1, 2, 3, 4))
    if branch != "main":
        moves.append(Move(begin, "when", (*when, "re-create branch", branch, OLDEST + 1, 0.0)))
    role, call, number = when
    now: list[tuple[Any, ...]] = [("stage alike", branch, path)]
    if chance.random() < 0.4:
        was = bytes(len(data) + chance.choice((-1, 0, 0)) - 1) + b"1"  # as long or not, but none of its like
        moves[0] = Move(stage.past(20), "upload", ("main", path, was))
        path = f"{path} too"
        now = [("upload", branch, path, data), ("commit", branch, 0), ("stage alike", branch, path)]
    for later, move in enumerate(now, number + (branch != "main")):
        moves.append(Move(begin, "when", (role, call, later, *move)))
    return moves


def clocks_apart(chance: random.Random, stage: Stage) -> Moves:
    """A server's clock is ahead when it hands an address out, and behind when it links it."""
    off, link = chance.choice((400.0, 900.0, 2400.0)), stage.during(chance)
    moves = [Move(stage.past(5), "clocks off", (off,)), *garbage(chance, stage, 1)]
    for number in range(3):
        write = stage.temper.branch(chance), stage.temper.path(chance), bytes(90 + number)
        begun = link - 24 * HOUR - chance.random() * 1.8 * off
        moves.append(Move(begun, "hand out", write))
        moves.append(Move(link, "link the last", (-1 - number,)))
    begin = stage.at - chance.choice((1.0, HOUR))
    return [*moves, Move(min(begin, -55.0), "clocks off", (-off,))]


def exactly_old(chance: random.Random, stage: Stage) -> Moves:
    """Objects with times around the exact second of a run's cutoff."""
    first = stage.at - 25 * HOUR - 1
    step = chance.choice((0.5, 1.0)) * max(1.0, stage.length / 400)
    return [Move(first + step * number, "orphan", (bytes(60 + number),)) for number in range(12)]


def tables_are_broken(chance: random.Random, stage: Stage) -> Moves:
    """Ranges or the index of them are lost or damaged, before a run or between two."""
    verb = chance.choice(("lose range", "damage range", "lose index", "lose page"))
    branch = stage.temper.branch(chance)
    moves = [
        Move(stage.past(20), "upload", (branch, "a", content(chance))),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(18), "upload", (branch, "b", content(chance))),
        Move(stage.past(17), "commit", (branch, 0)),
    ]
    if verb == "lose page":
        moves.append(Move(stage.past(2.5), "upload", (branch, "e", content(chance))))
        when = chance.choice(("mark_uncommitted", "bulk_delete")), "get", 1 + chance.randrange(6)
        return [*moves, Move(max(0.0, stage.at - 1), "when", (*when, verb, chance.randrange(8)))]
    at = chance.choice((stage.past(0.5), stage.at + 1.5 * stage.length))
    if at > 0:
        moves.append(run_of(at + 60, f"next{stage.run}", chance.choice(("clean", "optimized"))))
    return [*moves, *(Move(at + n, verb, (chance.randrange(40),)) for n in range(3))]


def index_is_lost(chance: random.Random, stage: Stage) -> Moves:
    """The index of ranges is lost, while the collector has to wait for objects as long as others."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    data = bytes(chance.randrange(60, 90))
    return [
        Move(stage.past(20), "upload", (branch, path, data)),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(3), chance.choice(("upload the same", "upload the same", "delete")), (branch, path)),
        Move(stage.past(2.5), "orphan", (data,)),
        moment(chance, stage, "lose index", chance.choice((0, 0, 1)), among=AFTER_COMMITS),
    ]


def in_one_place(chance: random.Random, stage: Stage) -> Moves:
    """Another repository begins to use this one's namespace, before a run, or during it."""
    verb = chance.choice(("nest", "nest unseen", "share", "share"))
    moves = garbage(chance, stage, 1, 3)
    if chance.random() < 0.4:
        return [*moves, Move(stage.past(4), verb)]
    among = tuple(found for found in MOMENTS if found[0] in ("slice_listing", "mark_uncommitted", "subtract"))
    return [*moves, moment(chance, stage, verb, among=among)]


def back_from_the_head(chance: random.Random, stage: Stage) -> Moves:
    """Content of a head is staged again while staging is read: by new metadata, and a reset of the branch."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    moves = [
        *branches(stage),
        Move(stage.past(44), "rules", (1, 0)),
        Move(stage.past(20), "upload", (branch, path, content(chance))),
        Move(stage.past(19), "commit", (branch, 0)),
    ]
    step = chance.choice(("mark_uncommitted", "bulk_delete"))
    call = chance.choice(("prepare_uncommitted", "list_branches", "diff_branch"))
    number = chance.choice((1, 1, 2))
    begin = max(0.0, stage.at - 1)
    first, second = ("metadata", branch, path), ("hard reset", branch, OLDEST)
    wait = chance.choice((0.0, 0.001, 0.01)) * stage.length
    moves.append(Move(begin, "when", (step, call, number, *first)))
    return [*moves, Move(begin + wait, "when", (step, call, number + chance.choice((0, 0, 1)), *second))]


def orphan_of_before(chance: random.Random, stage: Stage) -> Moves:
    """A worker sleeps while its run fails and is cleared, and wakes beside the new results unknown to it."""
    name = f"run{stage.run}"
    task, first = chance.choice(
        (("subtract", "list_committed"), ("list_committed", "mark_uncommitted"), ("check_limits", "subtract"))
    )
    later = stage.at + 3 * HOUR
    back = [move for move in expired_comes_back(chance, stage) if move.at < 0]
    old = OLDEST + chance.choice((1, 1, 2, 3))
    wake = chance.choice(
        (("check_limits", "get"), ("bulk_delete", "get"), ("subtract", "get"), ("check_limits", "put"))
    )
    return [
        *back,
        Move(0.0, "sleep", (f"{name} {task}", 1 + int(chance.random() ** 2 * 60), 14 * HOUR)),
        Move(
            max(0.0, stage.at - 1), "when", ("check_limits", "get", 1, "weather", "store down", 1800.0, 1.0)
        ),
        Move(later, "create branch from commit", (chance.choice(("two", "one")), old)),
        Move(later, "hard reset", (stage.temper.branch(chance), old)),
        Move(later + 600, "clear", (name, first)),
        Move(later + 599, "when", (*wake, 1 + chance.randrange(4), "wake", f"{name} {task}")),
    ]


def woken_beside_its_retry(chance: random.Random, stage: Stage) -> Moves:
    """A step is suspended and taken for lost, its run fails and is cleared, and it ends beside the new results
    unknown to it.
    """
    name = f"run{stage.run}"
    task, first = chance.choice(
        (("subtract", "list_committed"), ("subtract", "mark_uncommitted"), ("check_limits", "subtract"))
    )
    later, begin = stage.at + 3 * HOUR, max(0.0, stage.at - 1)
    wake = chance.choice(
        (("subtract", "put"), ("check_limits", "get"), ("check_limits", "put"), ("bulk_delete", "get"))
    )
    return [
        *expired(chance, stage),
        *expired(chance, stage),
        Move(begin, "when", (task, "put", chance.choice((1, 2, 3)), "suspend", 14 * HOUR)),
        Move(begin, "when", ("check_limits", "get", 1, "weather", "store down", 1800.0, 1.0)),
        Move(
            later,
            "hard reset",
            (chance.choice(("one", "two", "hidden")), OLDEST + chance.choice((1, 1, 2, 3))),
        ),
        Move(later + 600, "clear", (name, first)),
        Move(later + 599, "when", (*wake, 1 + chance.randrange(4), "wake", f"{name} {task}")),
    ]


def after_a_while(chance: random.Random, stage: Stage) -> Moves:
    """A failed run is cleared after hours or days."""
    name = f"run{stage.run}"
    spell = chance.choice(("store down", "proxy page")), 1800.0, 1.0
    hours = chance.choice((3.0, 25.0, 50.0, 80.0))
    task = chance.choice(("bulk_delete", "bulk_delete", "check_limits", "subtract"))
    moves = [*garbage(chance, stage, 3), *(m for m in expired_comes_back(chance, stage) if m.at < 0)]
    moves.append(
        Move(
            max(0.0, stage.at - 1),
            "when",
            ("bulk_delete", chance.choice(("get", "put")), 1, "weather", *spell),
        )
    )
    old = OLDEST + chance.choice((1, 1, 2, 3))
    moves.append(Move(stage.at + hours * HOUR - 600, "hard reset", (stage.temper.branch(chance), old)))
    return [*moves, Move(stage.at + min(hours * HOUR, 6 * DAY), "clear", (name, task))]
