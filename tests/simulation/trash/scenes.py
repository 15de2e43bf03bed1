"""Scenes of the trash cleaner's world: a few related moves, each a real or possible way to lose a row.

All numbers are drawn, so moves come too early or too late as well. Runs of a stage are a day or so apart: the first
sees the rows, the second may remove them.
"""

import random
from collections.abc import Mapping

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Move
from tests.simulation.trash import returning
from tests.simulation.trash.moves import BRANCHES, NAMES
from tests.simulation.trash.stage import FOR_EVER, FREEZES, Scene, Stage, by_call, frozen, moment_of, set_up


def ahead(chance: random.Random, stage: Stage) -> list[Move]:
    """A server with a clock hours ahead leaves unfinished work, with the time in its ids."""
    early, _ = stage.pair(chance)
    hours = chance.choice((1.0, 2.0, 4.0))
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    at = early - 200 - chance.random() * 300
    if chance.random() < 0.4:
        there = set_up(name, branch, at - 60)
        return [*there, Move(at, "index ahead", (name, branch, hours * HOUR, chance.choice((30.0, 2 * DAY))))]
    return [frozen(at, "create", (name, False), chance.choice(FREEZES["create"]), FOR_EVER, hours * HOUR)]


def skipped(chance: random.Random, stage: Stage) -> list[Move]:
    """A hook run with every hook skipped."""
    name, at = chance.choice(NAMES), chance.random() * (stage.starts[0] - 100)
    return [Move(at, "create", (name, False)), Move(at + 20, "skipped run", (name,))]


def life_without_record(chance: random.Random, stage: Stage) -> list[Move]:
    """A stalled deletion of an earlier instance removes the record of a later one."""
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    at = chance.random() * (stage.starts[0] - 900)
    moves = [Move(at, "create", (name, False))]
    freeze = chance.choice((("set", 1), ("delete", 1), ("delete", 2), ("delete", 3), ("delete", 4)))
    seconds = chance.choice((300.0, 2 * HOUR, 26 * HOUR))
    moves.append(frozen(at + 60, "delete", (name,), freeze, seconds))
    moves += [Move(at + 100, "delete", (name,)), Move(at + 140, "create", (name, False))]
    what = chance.choice(("nothing", "staged", "staged", "committed", "committed"))
    on = "main" if chance.random() < 0.6 else branch
    if on != "main":
        moves.append(Move(at + 160, "create branch", (name, on, "main")))
    if what != "nothing":
        moves.append(Move(at + 180, "upload", (name, on, "x/1")))
    if what == "committed":
        moves.append(Move(at + 200, "commit", (name, on)))
        if chance.random() < 0.6:
            moves.append(Move(at + 60 + seconds + 200, "lose the first commit", (name,)))
    if chance.random() < 0.3:
        moves.append(Move(at + 220, "tag", (name, on)))
    return moves


def back_at_a_deletion(chance: random.Random, stage: Stage) -> list[Move]:
    """A row unused a day ago is reused right at its deletion, or right after."""
    early, late = stage.pair(chance)
    name, branch = chance.choice((*NAMES, "lake-a")), chance.choice(("main", *BRANCHES))
    verb = chance.choice(("create", "create", "reset prefix", "reset prefix", "commit"))
    began = early - 60 - chance.random() * 300
    moves = (
        [] if verb == "create" else set_up(name, branch, began - 60, *chance.choice((("x/1",), ("x/1", "y"))))
    )
    args = (name, False) if verb == "create" else (name, branch)
    if chance.random() < 0.4:
        # Another removal, before it or with it.
        moves.append(frozen(began - 20, "create", ("spare", False), ("set_if", 1), FOR_EVER))
    freeze = chance.choice(FREEZES[verb][2:] if verb == "create" else FREEZES[verb])
    if chance.random() < 0.6:
        moves.append(frozen(began, verb, args, freeze, -float(chance.choice((1, 1, 1, 1, 2)))))
    else:
        moves.append(frozen(began, verb, args, freeze, late - 1 - began, moment=moment_of(chance)))
    return moves


def named_afterwards(chance: random.Random, stage: Stage) -> list[Move]:
    """A removed row is reused afterwards, by an operation longer than the grace."""
    early, late = stage.pair(chance)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    verb = chance.choice(("create", "reset prefix", "reset prefix"))
    began = early - 60 - chance.random() * 300
    moves = [] if verb == "create" else set_up(name, branch, began - 60, "x/1")
    args = (name, False) if verb == "create" else (name, branch)
    wakes = late - began + stage.work + chance.choice((60.0, HOUR, 10 * HOUR))
    if chance.random() < 0.5:
        wakes, moment = late - began - 1, moment_of(chance)
    else:
        moment = ()
    freeze = chance.choice((("set_if", 1), ("set_if", 2)) if verb == "create" else (("set_if", 1),))
    # Other remains of that day, removed after it.
    moves += [Move(began - 30, "hook run", (name, FOR_EVER)), Move(began - 29, "own branch", (name, "gone"))]
    return [*moves, frozen(began, verb, args, freeze, wakes, moment=moment)]


def handed_over(chance: random.Random, stage: Stage) -> list[Move]:
    """Repositories are handed over before a run looks, and during a person's decision about its plan."""
    start = chance.choice(stage.starts)
    first, second = chance.sample(NAMES, 2)
    at = max(0.0, start - 600)
    moves = [Move(at, "create", (first, False)), Move(at + 5, "create", (second, False))]
    moves += [
        Move(at + 10, "upload", (first, "main", "x/1")),
        Move(start - 100, "delete", (first,)),
        Move(start + chance.choice((0.5 * stage.work, stage.work, 2 * HOUR)), "delete", (second,)),
    ]
    if chance.random() < 0.7:
        moves.append(by_call(chance, start, "give the record back", (first,)))
    return moves


def late_into_an_orphan(chance: random.Random, stage: Stage) -> list[Move]:
    """Unreferenced and unqueued staged changes get one more row, between two looks or within a run."""
    early, late = stage.pair(chance)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES[1:])
    began = early - 100 - chance.random() * 300
    paths = chance.choice(((), ("x/1",), ("x/1", "x/1", "y")))
    moves = set_up(name, branch, began - 60, *paths)
    seconds, moment = (late - early) * chance.random() + early - began, ()
    if chance.random() < 0.6:
        seconds, moment = late - began - 1, moment_of(chance, f"{name}-{branch}:")
    path = chance.choice(("x/1", "x/2"))
    moves.append(frozen(began, "upload", (name, branch, path), ("set", 1), seconds, moment=moment))
    gone = chance.choice(("delete branch", "delete branch", "reset"))
    if chance.random() < 0.7:
        moves.append(frozen(began + 20, gone, (name, branch), ("set", 1), FOR_EVER))
    else:
        moves.append(Move(began + 20, gone, (name, branch)))
    return moves


def named_while_looked_at(chance: random.Random, stage: Stage) -> list[Move]:
    """A row is reused while a run reads the store, page after page."""
    early, late = stage.pair(chance)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    began = early - 60 - chance.random() * 300
    moves = set_up(name, branch, began - 60, "x/1", "y")
    call = chance.choice(("scan b'other-", "scan b'other-", "scan b'pond-", "scan"))
    number = 1 + chance.randrange(40 if call == "scan" else 3)
    moment = (chance.choice(("scan", "scan", "clean")), call, number)
    return [
        *moves,
        frozen(began, "reset prefix", (name, branch), ("set_if", 1), late - began - 1, moment=moment),
    ]


def record_comes_back(chance: random.Random, stage: Stage) -> list[Move]:
    """The record of a deleted repository is restored from a copy, while its hook results are about to be deleted."""
    early, late = stage.pair(chance)
    name = chance.choice(NAMES)
    at = chance.random() * max(1.0, early - 700)
    moves = [Move(at, "create", (name, False)), Move(at + 30, "hook run", (name, 5.0))]
    moves.append(Move(at + 200, "delete", (name,)))
    return [*moves, by_call(chance, late, "give the record back", (name,))]


SCENES: Mapping[str, Scene] = {
    scene.__name__: scene
    for scene in (
        ahead,
        skipped,
        life_without_record,
        back_at_a_deletion,
        named_afterwards,
        handed_over,
        late_into_an_orphan,
        named_while_looked_at,
        record_comes_back,
        *returning.SCENES,
    )
}
"""By name."""
