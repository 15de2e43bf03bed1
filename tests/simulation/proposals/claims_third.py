"""Claims on design 5: no copies."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.proposals import lake, no_copies
from tests.simulation.proposals.catalogue import LEAK, LOSS, NOTHING, STUCK, Chapter, Claim
from tests.simulation.proposals.explorer import Scene, Trouble
from tests.simulation.proposals.lake import losses
from tests.simulation.proposals.no_copies import Design
from tests.simulation.proposals.world import Actor, World, after

PLAIN = Design()


def move_beside_commit() -> Scene:
    return Scene(
        no_copies.world(x="data/a"),
        {
            "Mover": lambda: no_copies.move(PLAIN, "x", "y"),
            "Committer": lambda: after(lambda: no_copies.commit("c1", "t2"), lambda: no_copies.reset("t3")),
        },
        losses,
    )


def move_beside_delete(design: Design, hours: int = 0) -> Scene:
    return Scene(
        no_copies.world(x="data/a"),
        {
            "Deleter": lambda: no_copies.delete(design, "x"),
            "Mover": lambda: no_copies.move(design, "x", "y"),
        },
        losses,
        at_rest=lake.leaks,
        hours=hours,
    )


def move_beside_move(design: Design) -> Scene:
    return Scene(
        no_copies.world(x="data/a"),
        {
            "Mover 1": lambda: no_copies.move(design, "x", "y"),
            "Mover 2": lambda: after(
                lambda: no_copies.move(design, "x", "z"), lambda: no_copies.delete(design, "z")
            ),
        },
        losses,
        at_rest=lake.leaks,
    )


def _locked(world: World, ends: Mapping[str, str]) -> list[Trouble]:
    return [
        Trouble("stuck", f"{name} is refused now and always: {end.removeprefix('refused: ')}")
        for name, end in ends.items()
        if end.endswith("is locked")
    ]


def move_dies() -> Scene:
    return Scene(
        no_copies.world(x="data/a"),
        {"Mover": lambda: no_copies.move(PLAIN, "x", "y")},
        losses,
        later=(
            ("delete x", lambda: no_copies.delete(PLAIN, "x")),
            ("delete y", lambda: no_copies.delete(PLAIN, "y")),
        ),
        at_rest=_locked,
        crashes=1,
    )


def move_dies_then_reset() -> Scene:
    return Scene(
        no_copies.world(x="data/a"),
        {"Mover": lambda: no_copies.move(PLAIN, "x", "y")},
        losses,
        later=(("reset", lambda: no_copies.reset("t2")),),
        at_rest=lake.leaks,
        crashes=1,
    )


def beside_commit(writer: Actor) -> Scene:
    return Scene(
        no_copies.world(x="data/a"),
        {"Writer": writer, "Committer": lambda: no_copies.commit("c1", "t2")},
        losses,
        at_rest=lake.leaks,
    )


NO_COPIES = Chapter(
    "5",
    "No copies, and locks on entries",
    "No two entries lead to one object, so whoever removes an entry deletes its object. Moves lock the entry.",
    (
        Claim(
            "copies-commit-move",
            "Race 1",
            "A move beside a commit stages a committed address; a reset deletes it.",
            move_beside_commit,
            frozenset({LOSS}),
            "The lock is on the entry, and the commit does not ask for it.",
        ),
        Claim(
            "copies-delete-move",
            "Race 2",
            "A deletion looks at the lock, then a move takes it.",
            lambda: move_beside_delete(Design(delete_locks=False)),
            frozenset({LOSS}),
            "To look and to delete are two steps.",
        ),
        Claim(
            "copies-delete-locks",
            "Race 2, resolved",
            "The deletion takes the lock, too.",
            lambda: move_beside_delete(PLAIN),
            NOTHING,
            "As the document says, this resolves it: no order of the two loses or leaks anything.",
        ),
        Claim(
            "copies-two-moves",
            "Race 3",
            "Two moves at the same time, each without regard to the other's lock.",
            lambda: move_beside_move(Design(move_respects=False)),
            frozenset({LOSS}),
            "Two paths lead to one object, and deleting one of them takes it away.",
        ),
        Claim(
            "copies-two-moves-locked",
            "Race 3, resolved",
            "The same, and a move gives way to a lock.",
            lambda: move_beside_move(PLAIN),
            NOTHING,
            "This resolves it, at the price of race 4.",
        ),
        Claim(
            "copies-stale-lock",
            "Race 4",
            "A lock that is left behind stops every later operation.",
            move_dies,
            frozenset({STUCK}),
            "Nobody can tell a dead owner from a slow one.",
        ),
        Claim(
            "copies-timed-lock",
            "Race 4, with time",
            "A lock is broken when it is old.",
            lambda: move_beside_delete(Design(lock_hours=1), hours=2),
            frozenset({LOSS}),
            "A slow mover goes on with what it had locked. Every later step would have to check a number.",
        ),
        Claim(
            "copies-locked-for-ever",
            "Move, failures",
            "After a failure two entries or a locked object may stay, whose address is never deleted.",
            move_dies_then_reset,
            frozenset({LEAK}),
            "As the document says.",
        ),
        Claim(
            "copies-delete-commit",
            "beyond (TODO: more cases)",
            "A deletion beside a commit.",
            lambda: beside_commit(lambda: no_copies.delete(PLAIN, "x")),
            frozenset({LOSS}),
            "The commit has read the entry, locked or not, when its object goes.",
        ),
        Claim(
            "copies-delete-commit-look",
            "beyond (TODO: more cases)",
            "The same, and the object stays when the token has changed, as the document says of uploads.",
            lambda: beside_commit(lambda: no_copies.delete(Design(look_again=True), "x")),
            frozenset({LEAK}),
            "Nothing is lost; what nobody deleted stays.",
        ),
        Claim(
            "copies-upload-commit",
            "beyond (TODO: more cases)",
            "An upload deletes what it replaces, unless the token has changed.",
            lambda: beside_commit(lambda: no_copies.upload(PLAIN, "x", "data/b")),
            frozenset({LEAK}),
            "The rule holds, if the look comes after the entry was written. Whatever it keeps without need stays for "
            "ever, and the upload itself, written into a sealed token, may be in neither commit nor branch.",
        ),
    ),
)
