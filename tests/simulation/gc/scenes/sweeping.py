"""During the deletion: the driver's looks, the workers' reasons to stop, concurrent actors."""

import random
from typing import Any

from tests.simulation.clock import HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, branches, content, expired, garbage, moment, run_of
from tests.simulation.history import Move
from tests.simulation.writers import OLDEST

LEDGER = "put bulk_delete/_raw"
"""A worker records its deletions."""


def _plenty(chance: random.Random, stage: Stage) -> Moves:
    return garbage(chance, stage, 10, 20)


def _again(chance: random.Random, stage: Stage) -> tuple[Any, ...]:
    return "hard reset", stage.temper.branch(chance), OLDEST + chance.choice((1, 1, 1, 2, 2, 3))


def heads_move(chance: random.Random, stage: Stage) -> Moves:
    """A sweep deletes for long, and meanwhile a head moves to an expired commit; the driver may see it, or not."""
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), *_plenty(chance, stage), *expired(chance, stage), *expired(chance, stage)]
    first = chance.choice((1, 2, 3))
    if chance.random() < 0.5:
        kinds = ("proxy page", "throttled", "request lost", "store down", "put arrives again")
        kind = chance.choice(kinds)
        call = chance.choice(
            ("list_branches", "list_branches", "put bulk_delete/_watch", "list_repositories")
        )
        spell = kind, round(2 * stage.length, 2), 1.0
        moves.append(
            Move(begin, "when", ("bulk_delete", call, chance.choice((1, 3, 4, 5)), "weather", *spell))
        )
    for _ in range(chance.choice((1, 2))):
        moves.append(Move(begin, "when", ("bulk_delete", "delete", first, *_again(chance, stage))))
    if chance.random() < 0.5:
        seconds = chance.choice((30.0, 60.0))
        moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 6, "faint", seconds)))
    return moves


def driver_is_silent(chance: random.Random, stage: Stage) -> Moves:
    """The driver of a sweep sleeps or dies while its workers delete, and a head moves to an expired commit."""
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), *_plenty(chance, stage), *expired(chance, stage), *expired(chance, stage)]
    seconds = chance.choice((280.0, 290.0, HOUR))
    call = chance.choice(("list_branches", "list_repositories", "put bulk_delete/_watch"))
    moves.append(Move(begin, "when", ("bulk_delete", call, chance.choice((3, 4, 5)), "faint", seconds)))
    moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 12, "faint", chance.choice((25.0, 40.0)))))
    for _ in range(chance.choice((1, 2))):
        moves.append(Move(begin, "when", ("bulk_delete", "delete", 2, *_again(chance, stage))))
    return moves


def overtaken(chance: random.Random, stage: Stage) -> Moves:
    """The machine of a sweep is suspended, another try of it or another run begins, and it continues after that."""
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), *_plenty(chance, stage), *expired(chance, stage)]
    seconds = chance.choice((500.0, 700.0, 900.0, 1300.0, HOUR))
    call = chance.choice(
        (LEDGER, LEDGER, "delete", "list_branches", "put_if_match", "get lease.json", "prepare_uncommitted")
    )
    number = 1 + int(chance.random() ** 2 * 5)
    moves.append(Move(begin, "when", ("bulk_delete", call, number, "suspend", seconds)))
    if chance.random() < 0.6:
        at = stage.at + chance.choice((0.0, stage.length, 300.0, 600.0))
        moves.append(run_of(at, f"other{stage.run}", by=chance.choice(("dag", "person"))))
    if chance.random() < 0.4:
        moves.append(Move(begin, "when", ("bulk_delete", "delete", 2, *_again(chance, stage))))
    return moves


def late_answers(chance: random.Random, stage: Stage) -> Moves:
    """A delete request fails after a long time, and another run has taken over before it is sent again."""
    begin = max(0.0, stage.at - 1)
    seconds = chance.choice((20.0, 200.0, 700.0, 1300.0))
    moves = [*_plenty(chance, stage), Move(begin, "when", ("bulk_delete", "delete", 1, "dawdle", seconds))]
    spell = chance.choice(("store down", "store answer lost")), seconds + 60.0, 1.0
    moves.append(Move(begin, "when", ("bulk_delete", "delete", 1, "weather", *spell)))
    moves.append(run_of(stage.at + chance.choice((0.0, 300.0)), f"other{stage.run}"))
    return moves


def others_come(chance: random.Random, stage: Stage) -> Moves:
    """Another repository begins to use the namespace, or another collector ends a run there, at any step of a run."""
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), *garbage(chance, stage, 4, 10)]
    verb = chance.choice(("share", "share", "other collector"))
    where = chance.choice(
        (
            ("slice_listing", "list", 1),
            ("subtract", "put", 1),
            ("check_limits", "put", 1),
            ("bulk_delete", "get", 1),
            ("bulk_delete", "prepare_uncommitted", 1),
            ("bulk_delete", "delete", 1),
            ("bulk_delete", "delete", 2),
        )
    )
    moves.append(Move(begin, "when", (*where, verb)))
    if chance.random() < 0.7:
        moves.append(Move(begin, "each", ("bulk_delete", LEDGER, 1, 8, "faint", chance.choice((30.0, 60.0)))))
    return moves


def some_stay(chance: random.Random, stage: Stage) -> Moves:
    """The store does not delete all requested objects, or denies a deletion it made."""
    begin = max(0.0, stage.at - 1)
    kind = chance.choice(
        ("some keys fail", "some keys fail", "some keys fail after all", "store answer lost")
    )
    seconds = chance.choice((0.05, 3.0)) * stage.length + 1
    moves = garbage(chance, stage, 3, 6)
    when = "bulk_delete", "delete", chance.choice((1, 2)), "weather", kind, seconds, 1.0
    return [*moves, Move(begin, "when", when)]


def clocks_jump(chance: random.Random, stage: Stage) -> Moves:
    """The servers' clocks are set during a run, before or after its requests."""
    among = (("slice_listing", "list"), ("slice_listing", "put"), ("mark_uncommitted", "list_branches"))
    off = chance.choice((400.0, 2400.0, -2400.0))
    return [*garbage(chance, stage, 2), moment(chance, stage, "clocks off", off, among=among)]


def no_answers(chance: random.Random, stage: Stage) -> Moves:
    """The same bytes are staged again, unseen, and branches do not answer, once or twice; a person is waited for, and
    then they answer.
    """
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    data = bytes(chance.randrange(70, 90))
    name = f"unsure{stage.run}"
    moves = [
        *branches(stage),
        Move(stage.past(20), "upload", (branch, path, data)),
        Move(stage.past(19), "commit", (branch, 0)),
        Move(stage.past(chance.choice((3, 2))), "upload the same", (branch, path)),
        *garbage(chance, stage, 1),
        *(Move(stage.past(2.5), "orphan", (data,)) for _ in range(chance.choice((0, 2)))),
    ]
    kind = chance.choice(("proxy page", "proxy page", "throttled", "request lost"))
    call = chance.choice(("stat_object", "stat_object", "list_objects"))
    for step, shares in (("check_limits", (0.02, 0.1, 0.3)), ("bulk_delete", (0.0, 0.1, 0.3, 0.3))):
        spell = kind, round(chance.choice(shares) * stage.length, 3), 1.0
        moves.append(Move(max(0.0, stage.at - 1), "when", (step, call, 1, "weather", *spell)))
    if chance.random() < 0.5:
        at = stage.at + 2 * stage.length + 2 * HOUR
        moves.append(run_of(stage.at + 1, name, most=chance.choice((1, None)), approval=("always", 12.0)))
        moves.append(Move(at, "answer", (name, "approved", "anna", "Airflow")))
    return moves


def parts_settle(chance: random.Random, stage: Stage) -> Moves:
    """A multipart upload of some days ends while a run lists, and is staged after all looks; earlier runs may have seen
    such an object, or another one under its name.
    """
    branch, path, data = stage.temper.branch(chance), stage.temper.path(chance), content(chance)
    begin = max(0.0, stage.at - 1)
    moves = [*branches(stage), Move(stage.past(3), "begin parts", (branch, path, data))]
    if chance.random() < 0.5:  # then it is not seen as staged
        moves += [
            Move(stage.past(20), "upload", (branch, path, data)),
            Move(stage.past(19), "commit", (branch, 0)),
        ]
    ends = chance.choice(
        (("mark_uncommitted", "list_branches"), ("slice_listing", "get"), ("slice_listing", "list"))
    )
    moves.append(Move(begin, "when", (*ends, 1, "complete parts", -1)))
    late = chance.choice((0.5, 1.0, 1.5)) * stage.length + chance.choice((0.0, 600.0, 1000.0, 2000.0))
    moves.append(Move(begin, "when", ("parts", chance.choice(("set", "set_if")), 1, "dawdle", late)))
    if chance.random() < 0.5:
        step = chance.choice(("subtract", "check_limits", "bulk_delete"))
        seconds = chance.choice((280.0, 290.0))
        calls = chance.choice((3, 4, 5))
        moves.append(
            Move(
                begin,
                "each",
                (step, chance.choice(("get", "prepare_uncommitted")), 1, calls, "faint", seconds),
            )
        )
    if chance.random() < 0.4:
        moves.append(run_of(stage.at + stage.length + chance.choice((60.0, 1200.0)), f"next{stage.run}"))
    return moves
