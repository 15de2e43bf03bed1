"""Results of earlier runs used by an optimized run: young, released, kept, or newly referenced objects."""

import random
from typing import Any

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, content, garbage, run_of
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST


def known_and_young(chance: random.Random, stage: Stage) -> Moves:
    """A staged entry seen by a run is dropped, and its object is young when the next run asks the store for it; or
    the store does not answer.
    """
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    hours = chance.choice((2.0, 10.0, 20.0, 30.0))
    after = stage.at + stage.length + chance.choice((0.2, 1.0)) * HOUR
    moves = [
        *branches(stage),
        Move(stage.at - hours * HOUR, "upload", (branch, path, bytes(chance.randrange(60, 90)))),
        Move(after, "reset path", (branch, path)),
        run_of(after + 600, f"next{stage.run}", chance.choice(("optimized", "optimized", "auto"))),
    ]
    if chance.random() < 0.6:
        moves += [Move(after + 300, "lock away", (2 * n + 1,)) for n in range(chance.choice((1, 3)))]
    return moves


def let_go(chance: random.Random, stage: Stage) -> Moves:
    """Content of commits expiring between two runs, or kept only by a policy missing in the next run."""
    branch, path = stage.temper.branch(chance), chance.choice(("a", "dir/c", "dir/d"))
    days = chance.choice((1, 1, 5))
    moves = [
        Move(stage.past(44), "rules", (days, 0)),
        *branches(stage),
        Move(stage.past(4), "upload", (branch, path, bytes(chance.randrange(60, 90)))),
        Move(stage.past(chance.choice((0.8, 0.2))), "commit", (branch, 0)),
        Move(stage.at - HOUR, "delete", (branch, path)),
        Move(stage.at - 0.5 * HOUR, "commit", (branch, 0)),
    ]
    at = stage.at + stage.length + chance.choice((2 * HOUR, 26 * HOUR))
    policy = chance.choice((0, 0, 1, 2, 3))
    return [*moves, run_of(at, f"next{stage.run}", chance.choice(("optimized", "clean")), policy=policy)]


def kept_by_a_policy(chance: random.Random, stage: Stage) -> Moves:
    """Only a policy's rule about paths keeps expired content; the next run has another policy."""
    branch, begin = chance.choice(("main", "one", "two")), max(0.0, stage.at - 1)
    path = "a" if branch != "main" else chance.choice(("dir/c", "dir/d"))
    policy = 2 if branch == "main" else 3
    moves = [
        Move(stage.past(44), "rules", (1, 0)),
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, bytes(chance.randrange(60, 90)))),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(18), "upload", (branch, path, content(chance))),
        Move(stage.past(17), "commit", (branch, 0)),
    ]
    at = stage.at + stage.length + chance.choice((0.2, 2.0)) * HOUR
    mode = chance.choice(("clean", "optimized"))
    moves.append(run_of(at, f"policy{stage.run}", mode, policy=policy))
    if chance.random() < 0.5:  # a branch is new, and what its policy keeps is new with it
        among = (("subtract", "put"), ("check_limits", "put"))
        old = OLDEST + chance.choice((1, 2, 2))
        when = *chance.choice(among), 1, "create branch from commit", "two", old
        moves += [
            Move(stage.past(16), "delete branch", ("two",)),
            Move(chance.choice((begin, at - 1)), "when", when),
        ]
    return moves


def young_and_named_no_more(chance: random.Random, stage: Stage) -> Moves:
    """Objects in finished slices, young at their listing and unreferenced now."""
    moves = branches(stage)
    for n in range(chance.choice((1, 3))):
        branch, path = stage.temper.branch(chance), stage.temper.path(chance)
        hours = chance.choice((2.0, 10.0, 20.0, 24.9))
        moves.append(Move(stage.at - hours * HOUR, "upload", (branch, path, bytes(60 + n))))
        moves.append(
            Move(stage.at - (hours - 0.5) * HOUR, chance.choice(("reset path", "delete")), (branch, path))
        )
    if chance.random() < 0.5:  # an address of long ago, uploaded to only now
        late = stage.temper.branch(chance), stage.temper.path(chance), bytes(90), 100.0, 0.0, False
        moves.append(Move(stage.at - 100 * HOUR - chance.choice((2.0, 10.0, 20.0)) * HOUR, "link", late))
    at = stage.at + stage.length + chance.choice((2 * HOUR, 26 * HOUR))
    windows: tuple[tuple[float, float] | None, ...] = (None, None, (900.0, 0.0), (100.0, 0.0))
    window = chance.choice(windows)
    return [*moves, run_of(at, f"next{stage.run}", "optimized", window=window)]


def committed_since(chance: random.Random, stage: Stage) -> Moves:
    """Staged entries of earlier runs are committed before the next one."""
    moves = branches(stage)
    for n in range(chance.choice((1, 3))):
        branch, path = stage.temper.branch(chance), stage.temper.path(chance)
        moves.append(Move(stage.past(chance.choice((2, 3))), "upload", (branch, path, bytes(60 + n))))
        moves.append(Move(stage.at + stage.length + (0.2 + 0.1 * n) * HOUR, "commit", (branch, 0)))
    return [*moves, run_of(stage.at + stage.length + HOUR, f"next{stage.run}", "optimized")]


def kept_by_the_sweep(chance: random.Random, stage: Stage) -> Moves:
    """Objects kept by the sweep, as reused or indistinguishable from live ones, are unreferenced soon after."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    orphans = garbage(chance, stage, 1, 3)
    moves = [*branches(stage), *orphans]
    among = (("check_limits", "put"), ("bulk_delete", "get"))
    begin = max(0.0, stage.at - 1)
    where: tuple[Any, ...] = (*chance.choice(among), 1, "stage", branch, path, -1)
    if chance.random() < 0.5:  # in a slice that later runs pass over
        days = chance.choice((3, 12))
        moves.append(Move(stage.past(days), "upload", (branch, path, bytes(chance.randrange(60, 90)))))
        moves.append(Move(stage.past(days - 0.1), "reset path", (branch, path)))
        where = (*chance.choice(among), 1, "stage", branch, path, -1 - len(orphans))
    moves.append(Move(begin, "when", where))
    return [*moves, Move(stage.at + 1.5 * stage.length + 60, "reset path", (branch, path))]


def states_cross(chance: random.Random, stage: Stage) -> Moves:
    """A run ends long after the end of another one planned later."""
    name = f"run{stage.run}"
    seconds = chance.choice((2 * HOUR, 14 * HOUR))
    moves = [*branches(stage), *garbage(chance, stage, 1, 2)]
    for n in range(2):
        branch, path = stage.temper.branch(chance), stage.temper.path(chance)
        at = stage.at + stage.length + (0.4 + 0.2 * n) * HOUR
        moves.append(Move(stage.past(3), "upload", (branch, path, bytes(60 + n))))
        moves.append(Move(at, "reset path", (branch, path)))
    when = (
        "save_report",
        chance.choice(("get", "put", "list")),
        1 + chance.randrange(12),
        "suspend",
        seconds,
    )
    other = run_of(
        stage.at + stage.length + 1.5 * HOUR, f"other{stage.run}", chance.choice(("clean", "optimized"))
    )
    if chance.random() < 0.5:
        moves.append(Move(0.0, "sleep", (f"{name} save_report", 1 + chance.randrange(60), seconds)))
        return [*moves, other]
    return [*moves, Move(max(0.0, stage.at - 1), "when", when), other]
