"""Scenes of days: a restored database, a second installation, constant writers, a hook of hours, expired commits reused
after a run, and a purge after a wrong deletion.
"""

import random

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import MOMENTS, Moves, Stage, branches, expired, garbage, moment, run_of
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST

UNDO = ("off", "auto", "quarantine")


def _day_of_work(chance: random.Random, stage: Stage, at: float, most: int = 3) -> Moves:
    branch = stage.temper.branch(chance)
    moves = []
    for number in range(1 + chance.randrange(most)):
        path = f"day/{int(at) % 9973}-{number}"
        moves.append(Move(at + number, "upload", (branch, path, bytes(chance.randrange(150, 250)))))
    return [*moves, Move(at + 60, "commit", (branch, 0))]


def database_put_back(chance: random.Random, stage: Stage) -> Moves:
    """The database is restored from a backup of hours or days before; a run may have seen the lost records, or none
    has; the nightly runs continue.
    """
    end = stage.at + stage.length
    moves = [Move(stage.past(44), "rules", (chance.choice((None, 5, 30)), 0)), *branches(stage)]
    moves += [*_day_of_work(chance, stage, stage.past(20)), *garbage(chance, stage, 1, 3)]
    if chance.random() < 0.5:
        backup, lost = stage.past(chance.choice((2.0, 3.0, 6.0))), stage.past(1.5)
    else:
        backup = end + chance.choice((0.2, 1.0)) * HOUR
        lost = backup + chance.choice((0.2, 5.0)) * HOUR
    failed = max(end, lost) + chance.choice((0.3, 6.0, 11.0)) * HOUR
    moves += [Move(backup, "back up database", ()), *_day_of_work(chance, stage, lost)]
    for at in (failed + HOUR, failed + 26 * HOUR, failed + 50 * HOUR):
        number, undo = int(at / HOUR), chance.choice(UNDO)
        mode = chance.choice(("clean", "auto"))
        moves.append(run_of(at, f"night{number}", mode, undo=undo, dry_run=chance.random() < 0.1))
    for verb in chance.choice(((), ("make lost known", "lift block"), ("forget lost", "lift block"))):
        moves.append(Move(failed + chance.choice((3.0, 30.0)) * HOUR, verb, ()))
    if chance.random() < 0.2:  # in the middle of a night's run
        late = Stage(stage.temper, stage.run, failed + 26 * HOUR, stage.length)
        return [*moves, moment(chance, late, "put database back", among=MOMENTS)]
    return [*moves, Move(failed, "put database back", ())]


def two_installations(chance: random.Random, stage: Stage) -> Moves:
    """A copy of the database is set up beside production with its schedules; production continues; copies of the other
    one's deletions may be purged.
    """
    end = stage.at + stage.length
    cloned = chance.choice((stage.past(3), stage.past(1.2), end + HOUR))
    undo = chance.choice(UNDO)
    moves = [*branches(stage), *_day_of_work(chance, stage, stage.past(20))]
    same_url = chance.random() < 0.5
    moves += [*garbage(chance, stage, 1, 3), Move(cloned, "clone database", (same_url,))]
    # a server with the owner's URL and its last id looks like the owner, without a reference to this object
    if not same_url:
        staged = stage.temper.branch(chance), "staged since", bytes(chance.randrange(250, 290))
        moves.append(Move(cloned + 240, "upload", staged))
    moves += _day_of_work(chance, stage, cloned + chance.choice((0.1, 3.0)) * HOUR)
    at = max(end, cloned + 26.5 * HOUR)
    for number in range(chance.choice((1, 2, 3))):
        name = f"{stage.run}{number}"
        if chance.random() < 0.6:
            args = run_of(at, name, chance.choice(("clean", "auto")), undo=undo).args
            moves.append(Move(at, "run of clone", args))
        if chance.random() < 0.6:
            moves.append(run_of(at + 2 * HOUR, f"production{name}", undo=undo))
        at += chance.choice((4.0, 26.0)) * HOUR
    for _ in range(chance.choice((0, 1, 2))):
        at += chance.choice((2.0, 26.0)) * HOUR
        moves.append(Move(at, "purge", (1.0, False)))
    for verb in chance.choice(((), ("acknowledge",), ("acknowledge", "lift block"), ("own", "lift block"))):
        moves.append(Move(at + chance.choice((-4.0, 1.0)) * HOUR, verb, ()))
    return moves


def never_at_rest(chance: random.Random, stage: Stage) -> Moves:
    """A client commits all the time, also during the sweep."""
    branch, begin = stage.temper.branch(chance), max(0.0, stage.at - 1)
    calls = ("list_branches", "get", "put", "list_repositories")
    each = chance.choice(calls), chance.choice((1, 2, 5)), chance.choice((20, 60))
    moves = [*branches(stage), *garbage(chance, stage, 3, 6), *expired(chance, stage)]
    moves.append(Move(begin, "each", ("bulk_delete", *each, "ingest", branch)))
    old = OLDEST + 1 + chance.randrange(3)
    verb = chance.choice(("revert", "cherry-pick", "tag"))
    if verb != "tag" and chance.random() < 0.5:
        moves.append(Move(begin, "each", ("bulk_delete", *each, verb, stage.temper.branch(chance), old)))
    return [*moves, Move(-58.0, "busy", (branch, chance.choice((0.1, 0.5))))]


def hook_takes_hours(chance: random.Random, stage: Stage) -> Moves:
    """A revert or cherry-pick of an expired commit waits in a hook: its tree is written, without a ref."""
    verb, branch = chance.choice(("revert", "cherry-pick")), stage.temper.branch(chance)
    before, hours = chance.choice((0.01, 0.1, 0.5, 5.0)), chance.choice((0.2, 0.5, 6.0, 20.0))
    waits = Move(max(0.0, stage.at - 1), "when", (verb, "set_if b'commits/", 1, "dawdle", hours * HOUR))
    at = stage.at + stage.length + (before + 1) * HOUR
    brings = verb, (branch, OLDEST + 1 + chance.randrange(3))
    moves = [*branches(stage), *expired(chance, stage), *garbage(chance, stage, 0, 2), waits]
    if chance.random() < 0.3:
        return [*moves, moment(chance, stage, brings[0], *brings[1])]
    if chance.random() < 0.5:  # otherwise the stage's run has deleted the reverted content
        return [*moves, Move(max(0.0, stage.at - before * stage.length), *brings)]
    return [*moves, Move(at, *brings), run_of(at + before * HOUR, f"hook{stage.run}")]


def back_after_the_run(chance: random.Random, stage: Stage) -> Moves:
    """Content of an expired commit only is deleted, and then reused: by a longer rule, a branch, a tag, a revert."""
    undo, at = chance.choice(("auto", "quarantine", "off")), stage.at + stage.length + HOUR
    moves = [*branches(stage), *expired(chance, stage), run_of(at, f"took{stage.run}", undo=undo)]
    at += stage.length + chance.choice((1.0, 20.0)) * HOUR
    old = OLDEST + 1 + chance.randrange(2)
    moves.append(
        chance.choice(
            (
                Move(at, "rules", (chance.choice((None, 90)), 0)),
                Move(at, "tag", (old,)),
                Move(at, "create branch from commit", ("back", old)),
                Move(at, "revert", ("main", old + 1)),
                Move(at, "cherry-pick", ("main", old)),
            )
        )
    )
    for number in range(chance.choice((0, 1, 2))):
        at += chance.choice((2.0, 26.0)) * HOUR
        moves.append(run_of(at, f"later{stage.run}{number}", undo=undo))
    return [*moves, Move(at + chance.choice((2.0, 26.0)) * HOUR, "purge", (1.0, False))]


SCENES = (database_put_back, two_installations, never_at_rest, hook_takes_hours, back_after_the_run)
