"""Restores and purges in special cases: another object under the key, a changed copy or version, a finished slice, a
pin of weeks, or a late deletion.
"""

import random

from tests.simulation.clock import DAY, HOUR
from tests.simulation.gc.scenes.stage import Moves, Stage, content, garbage, run_of
from tests.simulation.history import Move

KEEP = (1.0, 3.0, 30.0)


def copies_fail(chance: random.Random, stage: Stage) -> Moves:
    """Some objects cannot be copied before their deletion, or only later."""
    kind = chance.choice(("disk full", "store down", "store down", "store answer lost"))
    call = chance.choice(("put_stream quarantine", "put_stream quarantine", "stat bulk_delete/_watch"))
    seconds = round(chance.choice((0.001, 0.01, 1.0)) * stage.length / 400, 5)
    spell = "weather", kind, seconds, chance.choice((0.5, 1.0))
    return [
        *garbage(chance, stage, 3, 6, 12),
        run_of(stage.at + stage.length + HOUR, f"back{stage.run}", undo="quarantine"),
        Move(stage.at, "when", ("bulk_delete", call, chance.choice((1, 2, 3)), *spell)),
    ]


def something_is_there(chance: random.Random, stage: Stage) -> Moves:
    """An object is put under the key of a deleted one: before its restore, or right then; a later run may delete it as
    well, and the first one may be restored twice.
    """
    at, undo = stage.at + stage.length + HOUR, chance.choice(("auto", "quarantine"))
    moves = [*garbage(chance, stage, 1, 2), run_of(at, f"back{stage.run}", undo=undo)]
    data = chance.choice((None, b"by hand", bytes(61)))
    restored = at + stage.length + 2 * HOUR
    if chance.random() < 0.4:
        calls = "put_stream data/", "put_stream data/", "open_read quarantine", "stat data/", "versions"
        call = "restore", chance.choice(calls)
        moves.append(Move(at, "when", (*call, 1, "put by hand", 0, data)))
    else:
        moves.append(Move(restored - HOUR, "put by hand", (chance.choice((0, 1)), data)))
        if chance.random() < 0.6:
            restored += 27 * HOUR
            moves.append(run_of(restored - HOUR, f"next{stage.run}", undo=undo))
            restored += stage.length
    for _ in range(chance.choice((1, 2))):
        moves.append(Move(restored, "restore", (0, chance.choice(KEEP))))
        restored += stage.length + HOUR
    return moves


def copy_is_damaged(chance: random.Random, stage: Stage) -> Moves:
    """A copy of a deleted object is cut short before its restore, or its purge."""
    at = stage.at + stage.length + HOUR
    moves = [*garbage(chance, stage, 1, 3), run_of(at, f"back{stage.run}", undo="quarantine")]
    at += stage.length + chance.choice((1.0, 26.0)) * HOUR
    moves.append(Move(at, "damage copy", (chance.randrange(3),)))
    moves.append(Move(at + HOUR, "restore", (0, chance.choice(KEEP))))
    return [*moves, Move(at + 30 * HOUR, "purge", (1.0, False))]


def written_over(chance: random.Random, stage: Stage) -> Moves:
    """A deleted object was maybe overwritten before, with older versions below it.

    It is purged more than once, and the store may fail in between.
    """
    begin, at = stage.at - 27 * HOUR, stage.at + stage.length + HOUR
    moves = []
    for number in range(chance.choice((1, 2))):
        moves.append(Move(begin + number, "orphan", (content(chance),)))
        if chance.random() < 0.7:
            moves.append(Move(begin + number + 0.5, "put over", (bytes(40 + number),)))
    moves.append(run_of(at, f"back{stage.run}", undo=chance.choice(("auto", "auto", "quarantine"))))
    at += stage.length
    if chance.random() < 0.5:
        kind = chance.choice(("store down", "store down", "some keys fail"))
        spell = kind, round(chance.choice((0.001, 0.5)) * stage.length / 400, 5), 1.0
        moves.append(Move(at, "when", ("purge", "delete_versions", 1, "weather", *spell)))
    for hours in (27.0, chance.choice((2.0, 30.0))):
        at += hours * HOUR
        moves.append(Move(at, "purge", (1.0, False)))
    return moves


def deleted_late(chance: random.Random, stage: Stage) -> Moves:
    """A run deletes hours after its beginning, after a wait for a person, and its deletions are purged."""
    name, at = f"back{stage.run}", stage.at + stage.length + HOUR
    undo = chance.choice(("auto", "quarantine"))
    hours = chance.choice((3.0, 6.0, 10.0))
    answer = name, "approved", "anna", "Airflow"
    return [
        *garbage(chance, stage, 2, 4),
        run_of(at, name, approval=("always", 12.0), undo=undo),
        Move(at + stage.length + hours * HOUR, "answer", answer),
        Move(
            at + (24 + chance.choice((0.2, 0.5, 0.8)) * hours) * HOUR, "purge", (1.0, chance.random() < 0.1)
        ),
    ]


def not_all_deleted(chance: random.Random, stage: Stage) -> Moves:
    """A run copies its candidates, the store deletes only some of them; the copies are purged."""
    at, undo = stage.at + stage.length + HOUR, chance.choice(("quarantine", "quarantine", "auto"))
    kind = chance.choice(("some keys fail", "some keys fail", "some keys fail after all"))
    return [
        *garbage(chance, stage, 3, 6),
        run_of(at, f"back{stage.run}", undo=undo),
        Move(at, "when", ("bulk_delete", "delete", 1, "weather", kind, 4 * HOUR, 1.0)),
        Move(at + stage.length + chance.choice((27.0, 50.0)) * HOUR, "purge", (1.0, False)),
    ]


def pinned_between(chance: random.Random, stage: Stage) -> Moves:
    """A run fails before its deletion, another one deletes the same, which is restored; the first one is resumed."""
    first, at = f"zz{stage.run}", stage.at + stage.length + HOUR
    spell = chance.choice(("store down", "proxy page")), 1500.0, 1.0
    second = at + chance.choice((1.0, 2.0)) * HOUR
    restored = second + stage.length + HOUR
    task = chance.choice(("bulk_delete", "bulk_delete", "approve", "check_limits", "subtract"))
    return [
        *garbage(chance, stage, 2, 4),
        run_of(at, first),
        Move(
            at, "when", ("bulk_delete", chance.choice(("get", "prepare_uncommitted")), 1, "weather", *spell)
        ),
        run_of(second, f"back{stage.run}", undo=chance.choice(("quarantine", "auto"))),
        Move(restored, "restore", (0, chance.choice(KEEP))),
        Move(restored + chance.choice((1.0, 2.0, 5.0)) * HOUR, "clear", (first, task)),
        run_of(restored + 26 * HOUR, f"next{stage.run}"),
    ]


def weeks_later(chance: random.Random, stage: Stage) -> Moves:
    """A run's deletions are restored and pinned for long, or kept in copies, until the run's files are old."""
    at, undo = stage.at + stage.length + HOUR, chance.choice(("quarantine", "quarantine", "auto"))
    moves = [*garbage(chance, stage, 1, 3), run_of(at, f"back{stage.run}", undo=undo)]
    if chance.random() < 0.6:
        moves.append(Move(at + stage.length + HOUR, "restore", (0, chance.choice((1.0, 30.0, 30.0)))))
    if chance.random() < 0.5:
        moves.append(run_of(at + chance.choice((2.0, 26.0)) * HOUR + stage.length, f"soon{stage.run}"))
    at += chance.choice((7.5, 8.5, 9.0)) * DAY
    for number in range(chance.choice((2, 3))):
        moves.append(run_of(at, f"later{stage.run}{number}"))
        at += stage.length + chance.choice((1.0, 26.0)) * HOUR
    return moves


def back_in_a_slice(chance: random.Random, stage: Stage) -> Moves:
    """Restored objects are in a finished slice: young and pinned for a day, with runs in between; the restore may take
    long, and die.
    """
    days, at = chance.choice((9.0, 20.0, 30.0)), stage.at + stage.length + HOUR
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    moves = [
        Move(stage.past(days + 0.1 * n), "hand out", (branch, path, bytes(60 + n)))
        for n in range(chance.choice((1, 2, 3)))
    ]
    moves.append(run_of(at, f"back{stage.run}", undo=chance.choice(("quarantine", "quarantine", "auto"))))
    restored = at + stage.length + HOUR
    moves.append(Move(restored, "restore", (0, 1.0)))
    long = chance.choice((0.0, 200.0, 280.0))
    if long:
        moves.append(
            Move(
                restored,
                "each",
                ("restore", chance.choice(("put_stream data/", "stat data/")), 1, 3, "faint", long),
            )
        )
        if chance.random() < 0.6:
            call = chance.choice(("put restore", "delete", "put_if_absent restore"))
            moves.append(Move(restored, "when", ("restore", call, 1, "weather", "store down", 3 * HOUR, 1.0)))
    mode = chance.choice(("clean", "optimized"))
    hours = chance.choice((0.5, 10.0, 24.3, 25.02, 25.1, 25.2))
    return [*moves, run_of(restored + hours * HOUR, f"next{stage.run}", mode)]
