"""Design 5: each object has a single entry, so removing an entry deletes its object; entries have locks.

Only a move gives an address another path. A lock is a mark in the entry, set under the condition of an unchanged entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulation.proposals import lake
from tests.simulation.proposals.catalogue import LEAK, LOSS, NOTHING, STUCK, Chapter, Claim
from tests.simulation.proposals.explorer import Scene, Trouble
from tests.simulation.proposals.lake import TOMBSTONE, Entry
from tests.simulation.proposals.world import (
    Actor,
    Flow,
    RefusedError,
    World,
    after,
    delete_object,
    kv_delete,
    kv_scan,
    kv_set,
    kv_set_if,
)


@dataclass(frozen=True)
class Design:
    delete_locks: bool = True
    move_respects: bool = True
    lock_breaks: bool = False


def lock(design: Design, token: str, path: str) -> Flow[Entry]:
    """Get an entry and lock it; returns the locked one."""
    entry = yield from lake.get_entry(token, path)
    if entry.locked and design.move_respects and not design.lock_breaks:
        raise RefusedError(f"{path} is locked")
    locked = entry._replace(locked=True)
    if not (yield kv_set_if(f"staged/{token}/{path}", locked, entry)):
        raise RefusedError(f"{path} was changed")
    return locked


def move(design: Design, path: str, to: str) -> Flow[str]:
    """Lock the entry, copy it to the new path, delete the old entry, unlock the new one."""
    token = (yield from lake.get_branch("main")).token
    locked = yield from lock(design, token, path)
    now = (yield from lake.get_branch("main")).token
    yield kv_set(f"staged/{now}/{to}", locked)
    yield kv_set(f"staged/{now}/{path}", TOMBSTONE)
    yield kv_set(f"staged/{now}/{to}", locked._replace(locked=False))
    return "moved"


def delete(design: Design, path: str) -> Flow[str]:
    """Lock the entry (or only check its lock), remove it, delete the object."""
    token = (yield from lake.get_branch("main")).token
    if design.delete_locks:
        entry = yield from lock(design, token, path)
    else:
        entry = yield from lake.get_entry(token, path)
        if entry.locked:
            raise RefusedError(f"{path} is locked")
    yield kv_delete(f"staged/{token}/{path}")
    yield delete_object(entry.address)
    return "deleted"


def commit() -> Flow[str]:
    sealed = yield from lake.seal("main", "t2")
    yield from lake.write_commit("main", sealed, "c1")
    return "committed"


def reset(token: str) -> Flow[str]:
    """Reset branch: dropped entries are deleted, unless locked."""
    for old in (yield from lake.reset("main", token)):
        for path, entry in (yield kv_scan(f"staged/{old}/")):
            yield kv_delete(f"staged/{old}/{path}")
            if entry != TOMBSTONE and not entry.locked:
                yield delete_object(entry.address)
    return "reset"


def _world() -> World:
    return lake.world(objects=("data/a",), staged={"t1/x": lake.entry("data/a")})


def _scene(**actors: Actor) -> Scene:
    return Scene(_world(), {name.replace("_", " "): actor for name, actor in actors.items()}, lake.losses)


def move_beside_delete(design: Design) -> Scene:
    return _scene(Deleter=lambda: delete(design, "x"), Mover=lambda: move(design, "x", "y"))


def move_beside_move(design: Design) -> Scene:
    return _scene(
        Mover_1=lambda: move(design, "x", "y"),
        Mover_2=lambda: after(lambda: move(design, "x", "z"), lambda: delete(design, "z")),
    )


def _stuck(world: World, ends: Mapping[str, str]) -> list[Trouble]:
    return [
        Trouble("stuck", f"{name} is refused now and always: {end.removeprefix('refused: ')}")
        for name, end in ends.items()
        if end.endswith("is locked")
    ]


def move_dies() -> Scene:
    later = (("delete x", lambda: delete(Design(), "x")), ("delete y", lambda: delete(Design(), "y")))
    mover: dict[str, Actor] = {"Mover": lambda: move(Design(), "x", "y")}
    return Scene(_world(), mover, lake.losses, later=later, at_rest=_stuck, crashes=1)


def move_dies_then_reset() -> Scene:
    mover: dict[str, Actor] = {"Mover": lambda: move(Design(), "x", "y")}
    later = (("reset", lambda: reset("t2")),)
    return Scene(_world(), mover, lake.losses, later=later, at_rest=lake.leaks, crashes=1)


CHAPTER = Chapter(
    "5",
    "No copies, and locks on entries",
    "No two entries lead to one object, so removing an entry deletes its object. Moves lock the entry.",
    (
        Claim(
            "copies-commit-move",
            "Race 1",
            "A move beside a commit stages a committed address; a reset deletes it.",
            lambda: _scene(
                Mover=lambda: move(Design(), "x", "y"), Committer=lambda: after(commit, lambda: reset("t3"))
            ),
            LOSS,
            "The lock is on the entry, and the commit does not ask for it.",
        ),
        Claim(
            "copies-delete-move",
            "Race 2",
            "A deletion looks at the lock, then a move takes it.",
            lambda: move_beside_delete(Design(delete_locks=False)),
            LOSS,
            "To look and to delete are two steps.",
        ),
        Claim(
            "copies-delete-locks",
            "Race 2, resolved",
            "The deletion takes the lock, too.",
            lambda: move_beside_delete(Design()),
            NOTHING,
            "As the document says, this resolves it.",
        ),
        Claim(
            "copies-two-moves",
            "Race 3",
            "Two moves at the same time, each without regard to the other's lock.",
            lambda: move_beside_move(Design(move_respects=False)),
            LOSS,
            "Two paths lead to one object, and deleting one of them takes it away.",
        ),
        Claim(
            "copies-two-moves-locked",
            "Race 3, resolved",
            "The same, and a move gives way to a lock.",
            lambda: move_beside_move(Design()),
            NOTHING,
            "This resolves it, at the price of race 4.",
        ),
        Claim(
            "copies-stale-lock",
            "Race 4",
            "A lock that is left behind stops every later operation.",
            move_dies,
            STUCK,
            "A crashed owner looks like a slow one.",
        ),
        Claim(
            "copies-timed-lock",
            "Race 4, with time",
            "A lock is broken when it is old.",
            lambda: move_beside_delete(Design(lock_breaks=True)),
            LOSS,
            "A slow mover continues with its entry after the lock was broken. Every later step would have to check a "
            "number.",
        ),
        Claim(
            "copies-locked-for-ever",
            "Move, failures",
            "After a failure two entries or a locked object may stay, whose address is never deleted.",
            move_dies_then_reset,
            LEAK,
            "As the document says.",
        ),
        Claim(
            "copies-delete-commit",
            "beyond",
            "A deletion beside a commit.",
            lambda: _scene(Deleter=lambda: delete(Design(), "x"), Committer=commit),
            LOSS,
            "The commit has read the entry, locked or not, when its object is deleted.",
        ),
    ),
)
