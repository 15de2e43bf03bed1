"""Scenes of Icechunk's world: runs with a few related moves around them, each a way to lose an object.

All numbers are drawn, so moves come too early or too late as well.
"""

import random
from collections.abc import Mapping

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Move
from tests.simulation.icechunk import believed, days, fenced
from tests.simulation.icechunk.stage import (
    AUTO,
    BRANCHES,
    CLEAN,
    FROM_INVENTORY,
    More,
    Scene,
    Stage,
    at_call,
    few,
    released,
)


def in_use_again(chance: random.Random, stage: Stage) -> list[Move]:
    """Snapshots about to be deleted are reused, during a sweep with pauses."""
    moves = [*released(chance, stage.start), stage.run(0, stage.start)]
    late = stage.start + chance.choice((25.0, 30.0)) * HOUR
    moves.append(stage.run(1, late))
    if stage.name == "calm" and chance.random() < 0.7:
        moves.append(Move(-29.0, "pace", (0.02,)))  # else a sweep need not notice within so short a time
    for at in (stage.start, late):
        for _ in range(chance.choice((1, 2))):
            verb, args = chance.choice(
                (("reset late", ("main", chance.randrange(12))), ("list again", (chance.randrange(12),)))
            )
            call = chance.choice(("put deletions", "put deletions", "delete", "get", "put"))
            number = 1 if call == "put deletions" else few(chance, 12)
            moves.append(at_call(at, "bulk_delete", call, number, verb, *args))
        for _ in range(chance.choice((1, 1, 3))):
            call = chance.choice(("get bulk_delete/_watch", "stat bulk_delete/_watch", "get"))
            sleep = chance.choice((150.0, 290.0))
            moves.append(at_call(at, "bulk_delete", call, few(chance, 4), "faint", sleep))
    return moves


def upgraded(chance: random.Random, stage: Stage) -> list[Move]:
    """The repository is upgraded to spec 2 while a run reads its refs."""
    at = stage.start
    moves = [
        Move(at - 5 * DAY, "create branch", ("a", 0)),
        Move(at - 5 * DAY + 60, "create branch", ("b", 0)),
        Move(at - 4 * DAY, "commit", (chance.choice(("a", "b")), 2, 0.0, True)),
        Move(at - 4 * DAY, "commit", (chance.choice(("a", "b")), 2, 0.0, True)),
        Move(at - 3 * DAY, "tag", ("v1", chance.randrange(12))),
        *released(chance, at),
        stage.run(0, at),
    ]
    seconds = chance.choice((0.0, stage.length / 30, stage.length / 5))
    args = (chance.choice((1, 2, 3, 9)), seconds)
    if chance.random() < 0.3:
        moves.append(
            at_call(at, "mark", chance.choice(("list", "get", "get")), few(chance, 8), "upgrade", *args)
        )
        return moves
    # Right between the looks whether there is a repo info, and which refs there are.
    faint = ("faint", chance.choice((30.0, 100.0)))
    return [
        *moves,
        at_call(at, "mark", "list refs/", 1, "upgrade", *args),
        at_call(at, "mark", "list refs/", 1, *faint),
    ]


def long_session(chance: random.Random, stage: Stage) -> list[Move]:
    """A session commits a day and more after its first chunk, while a run is between its mark and its sweep."""
    at = stage.start
    moves = [
        Move(
            at - chance.choice((26.0, 30.0, 50.0)) * HOUR,
            "open session",
            ("one", "main", chance.choice((1, 3))),
        ),
        *released(chance, at),
        stage.run(0, at, CLEAN),
    ]
    role = chance.choice(("list_candidates", "check_limits", "check_limits"))
    moves.append(at_call(at, role, "get", few(chance, 12), "close session", "one"))
    return moves


def slow_change(chance: random.Random, stage: Stage) -> list[Move]:
    """A change of the repo info is done a day and more after the copy of the earlier one."""
    at = stage.start
    moves = [
        *released(chance, at - 2 * DAY),
        Move(at - chance.choice((31.0, 40.0)) * HOUR, "copy ahead", ("one",)),
    ]
    role = chance.choice(("check_limits", "check_limits", "bulk_delete"))
    moves.append(at_call(at, role, "get", few(chance, 12), "name the copy", "one"))
    return [*moves, stage.run(0, at)]


def failing_deletes(chance: random.Random, stage: Stage) -> list[Move]:
    """Some keys cannot be deleted for a while."""
    moves = [*released(chance, stage.start), stage.run(0, stage.start)]
    late = stage.start + 25 * HOUR
    kind = chance.choice(("some keys fail", "some keys fail", "store down"))
    seconds = chance.choice((0.05, 0.3, 1.0)) * stage.length
    moves.append(at_call(late, "bulk_delete", "delete", few(chance, 4), "weather", kind, seconds, 0.9))
    return [*moves, stage.run(1, late)]


def two_drivers(chance: random.Random, stage: Stage) -> list[Move]:
    """A driver taken for lost continues while another one is ahead of it."""
    at, dry = stage.start, chance.random() < 0.4
    moves = [*released(chance, at), stage.run(0, at, CLEAN, dry=dry)]
    step = chance.choice(("list_candidates", "list_candidates", "check_limits"))
    call = chance.choice(("put_if_absent _try", "put_if_absent _try", "get", "stat"))
    moves.append(at_call(at, step, call, 1, "faint", chance.choice((900.0, 4000.0))))
    later = chance.choice(("check_limits", "bulk_delete", "bulk_delete"))
    for number in range(chance.choice((1, 1, 2))):
        call = chance.choice(("get", "get", "stat", "list"))
        moves.append(
            at_call(at, later, call, few(chance, 25), "wake", f"{stage.name}run0 collect")
            if not number
            else at_call(at, "bulk_delete", "get", few(chance, 25), "faint", chance.choice((20.0, 100.0)))
        )
    return moves


def asleep(chance: random.Random, stage: Stage) -> list[Move]:
    """All tries of a run sleep, and another run takes over meanwhile; or a run is done to its end much later."""
    at = stage.start
    moves = [*released(chance, at), stage.run(0, at, CLEAN)]
    step = chance.choice(("list_candidates", "list_candidates", "check_limits", "bulk_delete"))
    if chance.random() < 0.5:
        seconds = chance.choice((2 * HOUR, 5 * HOUR))
        moves.append(
            Move(max(0.0, at - 1), "each", (step, chance.choice(("get", "stat")), 2, 4, "faint", seconds))
        )
        return [*moves, stage.run(1, at + 1.5 * HOUR, CLEAN)]
    moves.append(at_call(at, step, "get", few(chance, 6), "weather", "store down", 3000.0, 1.0))
    name = f"{stage.name}run0"
    return [*moves, Move(at + chance.choice((5.0, 13.0, 13.0, 20.0)) * HOUR, "again", (name,))]


def late_report(chance: random.Random, stage: Stage) -> list[Move]:
    """The writer of a report is taken for lost, and writes it anyway."""
    moves = [*released(chance, stage.start), stage.run(0, stage.start)]
    for _ in range(chance.choice((1, 2))):
        call, most = chance.choice(
            (
                *((call, 60) for call in ("get", "put", "put_if_absent", "stat")),
                *((f"{call} report.", 2) for call in ("put", "put_if_absent", "put_if_match")),
            )
        )
        seconds = chance.choice((400.0, 700.0, 2000.0))
        moves.append(at_call(stage.start, "save_report", call, few(chance, most), "faint", seconds))
    return moves


def resumed(chance: random.Random, stage: Stage) -> list[Move]:
    """A run is repeated by a process taken for lost at once, which continues after another one."""
    at = stage.start
    moves = [*released(chance, at), stage.run(0, at, CLEAN, most=1)]
    for number in range(chance.choice((1, 2))):
        moves.append(Move(at + (1 + number) * HOUR, "again", (f"{stage.name}run0",)))
    call = chance.choice(("get plan.json", "stat plan.json", "put plan.json", "put_if_match plan.json"))
    seconds = chance.choice((400.0, 700.0, 2000.0))
    moves.append(Move(at + 0.9 * HOUR, "when", ("acquire_lease", call, 1, "faint", seconds)))
    return moves


def shared_chunks(chance: random.Random, stage: Stage) -> list[Move]:
    """New manifests share chunks with old ones, deleted one after the other, while no run lists chunks."""
    at, branch = stage.start, chance.choice(BRANCHES)
    moves = [
        Move(at - 6 * DAY, "create branch", ("a", 0)),
        Move(at - 5 * DAY, "commit", (branch, chance.choice((2, 5)), 0.0, True)),
        stage.run(0, at, CLEAN),
    ]
    for number in range(chance.choice((1, 2, 3))):
        after = at + HOUR + number * chance.choice((HOUR, 26 * HOUR))
        moves.append(Move(after, "commit", (branch, chance.choice((1, 2)), 0.0, True)))
        moves.append(Move(after + 60, "library expires", (0.0, True)))
        moves.append(stage.expire(number, after + 90, "document", 0.01, False, False))
    for number in range(1, chance.choice((4, 5))):
        moves.append(stage.run(number, at + number * 26 * HOUR, AUTO))
    return moves


def undone_expiration(chance: random.Random, stage: Stage) -> list[Move]:
    """A snapshot's file is restored to its state before an expiration, within the grace."""
    at, rule = stage.start, chance.choice(("document", "spec_v1"))
    moves = [Move(at - (9 - number) * DAY, "commit", ("main", 2, 0.0, True)) for number in range(4)]
    moves += [
        stage.run(0, at, CLEAN),
        stage.expire(0, at + HOUR, rule, chance.choice((2.0, 5.0)), False, False),
        stage.run(1, at + 2 * HOUR, chance.choice((CLEAN, AUTO))),
    ]
    moves.append(Move(at + chance.choice((3.0, 10.0, 20.0)) * HOUR, "put back", (chance.randrange(4),)))
    return [*moves, stage.run(2, at + chance.choice((24.0, 27.0, 30.0)) * HOUR, AUTO)]


def flipped(chance: random.Random, stage: Stage) -> list[Move]:
    """A manifest has a wrong chunk id, for the time of a step, or until its repair."""
    at, when = stage.start, stage.start
    moves = [*released(chance, at), Move(at - 3 * DAY, "commit", ("main", 3, 0.0, chance.random() < 0.5))]
    inventory = chance.random() < 0.4
    more: More = (*CLEAN, *(FROM_INVENTORY if inventory else ()))
    if chance.random() < 0.6:
        moves.append(stage.run(0, at, CLEAN))
        moves.append(Move(at + HOUR, "commit", ("main", chance.choice((1, 3)), 0.0, chance.random() < 0.5)))
        when = at + chance.choice((26.0, 26.0, 50.0)) * HOUR
        more = chance.choice((AUTO, AUTO, more))
    if more != AUTO and inventory:
        moves.append(Move(when - chance.choice((60.0, HOUR)), "inventory", ()))
    moves.append(stage.run(1, when, more))
    args = (chance.choice((0, 0, 0, 1, 2)), chance.choice((0.0, stage.length / 100, stage.length / 10)))
    if chance.random() < 0.5:
        moves.append(at_call(when, "mark", "get manifests", 1, "flip a manifest", *args))
    else:
        moves.append(Move(when - 5, "flip a manifest", args))
    if more == AUTO:
        for number in (2, 3):
            after = when + (number - 1) * 26 * HOUR
            moves += [
                Move(after - 25.5 * HOUR, "commit", ("main", 1, 0.0, True)),
                Move(after - 25.4 * HOUR, "library expires", (0.0, True)),
                stage.expire(number, after - 25.3 * HOUR, "document", 0.0, False, False),
                stage.run(number, after, AUTO),
            ]
    return moves


def wrong_snapshot(chance: random.Random, stage: Stage) -> list[Move]:
    """The file of a snapshot, already read by a run, is replaced by one with another manifest."""
    at = stage.start
    moves = [
        Move(at - (6 - number) * DAY, "commit", ("main", 2, 0.0, chance.random() < 0.7))
        for number in range(3)
    ]
    moves += [*released(chance, at), stage.run(0, at, CLEAN)]
    late = at + chance.choice((2.0, 26.0)) * HOUR
    seconds = chance.choice((0.0, stage.length, 30 * HOUR))
    moves.append(Move(late - 30, "wrong snapshot", (chance.randrange(6), seconds)))
    return [*moves, stage.run(1, late, AUTO), stage.run(2, late + 26 * HOUR, AUTO)]


def stopped_sweep(chance: random.Random, stage: Stage) -> list[Move]:
    """A sweep stops between manifests and their chunks, and no later run lists chunks."""
    at = stage.start
    moves = [*released(chance, at), stage.run(0, at, CLEAN), *released(chance, at + 20 * HOUR)]
    moves = [move for move in moves if move.at <= at or move.verb != "create branch"]
    late = at + 26 * HOUR
    moves.append(stage.run(1, late, AUTO))
    spell = ("store down", chance.choice((1000.0, 3000.0)), 1.0)
    call, most = chance.choice((("delete", 6), ("delete chunks/", 3)))
    moves.append(at_call(late, "bulk_delete", call, few(chance, most), "weather", *spell))
    return [*moves, stage.run(2, late + 26 * HOUR, AUTO)]


def kept_chunks(chance: random.Random, stage: Stage) -> list[Move]:
    """A run keeps all chunks on purpose, and deletes their manifests."""
    at = stage.start
    late = at + 26 * HOUR
    return [
        *released(chance, at),
        stage.run(0, at, CLEAN),
        Move(at + HOUR, "abandon", ("main", 2, 0.0)),
        stage.run(1, late + chance.choice((0.0, 25.0)) * HOUR, (*AUTO, ("keep_chunks", True))),
        stage.run(2, late + chance.choice((26.0, 52.0)) * HOUR, AUTO),
    ]


def taken_back(chance: random.Random, stage: Stage) -> list[Move]:
    """Deletions are restored, between two runs or while one waits; and copies are purged."""
    at = stage.start
    undo = (("undo", chance.choice(("quarantine", "quarantine", "auto"))),)
    moves = [*released(chance, at), stage.run(0, at, undo), *released(chance, at + 20 * HOUR)]
    late = at + 26 * HOUR
    moves.append(stage.run(1, late, (*chance.choice((CLEAN, AUTO)), *undo)))
    back = Move(
        late + chance.choice((2.0, 20.0)) * HOUR, "restore", (chance.randrange(3), chance.choice((1.0, 9.0)))
    )
    moves.append(back)
    if chance.random() < 0.6:
        end = late + chance.choice((27.0, 50.0)) * HOUR
        moves.append(stage.run(2, end, (*chance.choice((CLEAN, AUTO)), *undo)))
        if chance.random() < 0.7:
            moves.append(
                at_call(end, "bulk_delete", "get", few(chance, 5), "weather", "store down", 3000.0, 1.0)
            )
            moves.append(Move(end + 2 * HOUR, "restore", (chance.randrange(3), 9.0)))
            moves.append(Move(end + chance.choice((3.0, 8.0)) * HOUR, "again", (f"{stage.name}run2",)))
    if chance.random() < 0.3:
        moves.append(Move(late + chance.choice((30.0, 60.0)) * HOUR, "purge", (1.0, chance.random() < 0.2)))
    return moves


def from_inventory(chance: random.Random, stage: Stage) -> list[Move]:
    """Runs read an inventory of the bucket, with later writes or deletions."""
    at = stage.start
    moves = [
        *released(chance, at),
        Move(at - 4 * DAY, "open session", ("one", "main", chance.choice((1, 3)))),
        Move(at - 5 * DAY, "commit", ("main", 3, 0.0, True)),
        Move(at - 4 * DAY, "commit", ("main", 1, 0.0, True)),
        Move(at - 3 * DAY, "commit", ("main", 1, 0.0, True)),
        Move(at - chance.choice((60.0, 3 * HOUR, 20 * HOUR)), "inventory", ()),
    ]
    if chance.random() < 0.7:
        moves.append(Move(at - chance.choice((30.0, 2 * HOUR)), "write again", ("one",)))
        moves.append(Move(at + chance.choice((0.5, 20.0)) * HOUR, "close session", ("one",)))
    return [*moves, stage.run(0, at, (*CLEAN, *FROM_INVENTORY)), stage.run(1, at + 26 * HOUR, CLEAN)]


def weeks(chance: random.Random, stage: Stage) -> list[Move]:
    """Runs over some weeks, with removals of earlier runs' own files."""
    at = stage.start
    more: More = (
        ("keep_runs_days", 7.0),
        ("undo", chance.choice(("quarantine", "off"))),
        ("tuning.index_parts_max", chance.choice((0, 1, 3))),
    )
    moves = [*released(chance, at)]
    when = at
    for number in range(chance.choice((3, 4, 5))):
        when += chance.choice((1.0, 3.0, 7.5, 8.0)) * DAY if number else 0.0
        moves.append(Move(when - 3 * HOUR, "commit", ("main", 1, 0.0, chance.random() < 0.5)))
        moves.append(Move(when - 2 * HOUR, "abandon", ("main", 1, 0.0)))
        moves.append(stage.run(number, when, (*(CLEAN if not number else AUTO), *more)))
        if number and chance.random() < 0.3:
            moves.append(
                at_call(when, "bulk_delete", "delete", few(chance, 3), "weather", "store down", 3000.0, 1.0)
            )
        if chance.random() < 0.3:
            moves.append(
                Move(when - 60, "flip a head", (chance.randrange(5), chance.choice((HOUR, 30 * HOUR))))
            )
        number += 1
    return moves


def two_expirations(chance: random.Random, stage: Stage) -> list[Move]:
    """An expiration taken for lost continues after another one with a later threshold."""
    at = stage.start
    moves = [Move(at - (9 - number) * DAY, "commit", ("main", 1, 0.0, True)) for number in range(6)]
    rule = chance.choice(("document", "spec_v1"))
    moves.append(stage.expire(0, at, rule, 5.0, False, False))
    call = chance.choice(
        ("get snapshots", "get snapshots", "put snapshots", "put_if_match snapshots", "stat")
    )
    seconds = chance.choice((1.3 * HOUR, 5 * HOUR, 30 * HOUR))
    moves.append(at_call(at, "expire", call, few(chance, 14), "faint", seconds))
    moves.append(
        stage.expire(
            1, at + chance.choice((1.1, 1.2, 3.0)) * HOUR, rule, chance.choice((0.0, 2.0)), False, False
        )
    )
    return [*moves, stage.run(0, at + 4 * HOUR)]


def moved_ref(chance: random.Random, stage: Stage) -> list[Move]:
    """A branch that is about to expire gets a commit."""
    at, branch = stage.start, chance.choice(("a", "b"))
    moves = [
        Move(at - 9 * DAY, "create branch", (branch, 0)),
        Move(at - 8 * DAY, "commit", (branch, 1, 0.0, True)),
        Move(at - 7 * DAY, "commit", ("main", 1, 0.0, True)),
        Move(at - 6 * DAY, "commit", ("main", 1, 0.0, True)),
        stage.expire(0, at, chance.choice(("document", "spec_v1")), chance.choice((2.0, 5.0)), True, True),
    ]
    call = chance.choice(("get", "get snapshots", "put_if_match", "list")), few(chance, 12)
    moves.append(at_call(at, "expire", *call, "commit", branch, 1, 0.0, False))
    if chance.random() < 0.6:
        moves.append(at_call(at, "expire", *call, "faint", chance.choice((3.0, 30.0, 200.0))))
    return moves


def within_the_grace(chance: random.Random, stage: Stage) -> list[Move]:
    """Runs less than a grace apart, with the same released snapshots."""
    at = stage.start
    apart = chance.choice((11.0, 13.0, 13.0, 20.0, 23.0)) * HOUR
    return [*released(chance, at), stage.run(0, at), stage.run(1, at + apart), stage.run(2, at + 2 * apart)]


def foreign(chance: random.Random, stage: Stage) -> list[Move]:
    """Foreign files among Icechunk's own."""
    folders = ("chunks", "manifests", "transactions")
    at = stage.start
    moves = [Move(at - 3 * DAY, "foreign file", (folder,)) for folder in chance.sample(folders, 2)]
    return [*moves, *released(chance, at), stage.run(0, at), stage.run(1, at + 26 * HOUR)]


def named_virtually(chance: random.Random, stage: Stage) -> list[Move]:
    """Virtual chunks are in native ones of a deleted branch; then their manifest is deleted, too."""
    modes, first = (CLEAN, AUTO, ()), chance.random() < 0.6
    at = stage.start + (5 * DAY if first else 0.0)
    gone = at - chance.choice((30.0, 50.0, 80.0)) * HOUR
    moves = [stage.run(9, stage.start, CLEAN)] if first else []
    moves += [
        Move(gone - 5 * DAY, "create branch", ("a", 0)),
        Move(gone - 4 * DAY, "commit", ("a", chance.choice((1, 2, 5)), 0.0, True)),
        Move(gone - 3 * DAY, "commit", ("a", 1, 0.0, chance.random() < 0.5)),
    ]
    for hours in chance.choice(((1.0,), (25.0,), (1.0, 25.0))):
        branch, late = chance.choice(("main", "main", "a")), 0.0
        if chance.random() < 0.4:
            late = hours + (at - gone + chance.random() * stage.length) / HOUR
        args = branch, chance.choice((1, 2)), chance.randrange(4), late
        moves.append(Move(gone - hours * HOUR, "commit virtually", args))
    moves.append(Move(gone, *chance.choice((("reset", ("a", 0)), ("delete branch", ("a",))))))
    moves.append(Move(gone + 60, "library expires", (chance.choice((0.5, 1.0)), True)))
    moves.append(stage.run(0, at, chance.choice(modes)))
    dropped = at + chance.choice((2.0, 28.0)) * HOUR
    if chance.random() < 0.6:
        moves.append(Move(dropped, "commit", ("main", 1, 0.0, True)))
        moves.append(Move(dropped + 60, "library expires", (0.0, True)))
        moves.append(stage.expire(0, dropped + 90, "document", 0.01, False, False))
    return [
        *moves,
        *(stage.run(number, at + number * 26 * HOUR, chance.choice(modes)) for number in (1, 2, 3)),
    ]


SCENES: Mapping[str, Scene] = {
    scene.__name__: scene
    for scene in (
        in_use_again,
        upgraded,
        long_session,
        slow_change,
        failing_deletes,
        two_drivers,
        asleep,
        late_report,
        resumed,
        shared_chunks,
        undone_expiration,
        flipped,
        wrong_snapshot,
        stopped_sweep,
        kept_chunks,
        taken_back,
        from_inventory,
        weeks,
        two_expirations,
        moved_ref,
        within_the_grace,
        foreign,
        named_virtually,
        *believed.SCENES,
        *fenced.SCENES,
        *days.SCENES,
    )
}
"""By name."""
