"""Bugs that the simulator must find: guards of the collector left out, one after the other.

`./run simulate --known-bugs` breaks the product with each, hunts, and shows after how many histories it was found. One
that is not found is a hole in the simulator, unless `why_not` says why no history can show it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutations.breakages import approving, gates, guarding, reading, sweeping, undo
from tests.mutations.breakages.breakage import Breakage
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.gc import focused
from tests.simulation.gc import known_bugs as gc
from tests.simulation.icechunk import known_bugs as icechunk
from tests.simulation.trash import known_bugs as trash


@dataclass(frozen=True)
class KnownBug:
    """A bug.

    Attributes:
        name: half a sentence.
        changes: of the product's text, all at once.
        why_not: why no history can show it; "" when one can.
        beside: another guard catches the same fault: it is broken as well, and only both together are to be found.
        world: that is to find it.
        focus: what the histories that hunt it have more often than others.
        tests: functions that find it.
    """

    name: str
    changes: tuple[Breakage, ...]
    why_not: str = ""
    world: str = "gc"
    beside: tuple[Breakage, ...] = ()
    focus: Focus = ANYTHING
    tests: tuple[str, ...] = ()


OF_THE_LIST = (
    *reading.AGE_AND_PLACE,
    *reading.STAGED,
    *reading.COMMITTED,
    *guarding.COMPARED,
    *guarding.ASKED,
    *guarding.HOLDS,
    *reading.OPTIMIZED,
    *sweeping.SWEEP,
    *gates.GATES,
    *approving.APPROVED,
    *undo.UNDO,
)
"""Breakages of the collector, from the list of mutations."""
_CHANGES = {**gc.REVIEW, **gc.SERVERS, **gc.HELPERS, **{each.name: (each,) for each in OF_THE_LIST}}


def _beside(name: str) -> tuple[Breakage, ...]:
    """What is broken beside a bug, without what is the bug's own."""
    found = [change for other in gc.BESIDE.get(name, ()) for change in _CHANGES[other]]
    return tuple(change for change in found if not any(_is_same(change, own) for own in _CHANGES[name]))


def _is_same(change: Breakage, other: Breakage) -> bool:
    """Whether both change one place."""
    return change.file == other.file and (change.old in other.old or other.old in change.old)


BUGS = (
    *(
        KnownBug(name, changes, beside=_beside(name), focus=focused.FOCUS.get(name, ANYTHING))
        for name, changes in ({**gc.REVIEW, **gc.SERVERS}).items()
    ),
    *(
        KnownBug(
            each.name,
            (each,),
            gc.WHY_NOT.get(each.name, ""),
            beside=_beside(each.name),
            focus=focused.FOCUS.get(each.name, ANYTHING),
            tests=each.tests,
        )
        for each in OF_THE_LIST
        if each.file.startswith(("dredge/", "lakefs_embedded/"))
    ),
    *(
        KnownBug(
            each.name,
            (each,),
            of.WHY_NOT.get(each.name, ""),
            world,
            of.BESIDE.get(each.name, ()),
            of.FOCUS.get(each.name, ANYTHING),
            each.tests,
        )
        for world, of in (("trash", trash), ("icechunk", icechunk))
        for each in of.BUGS
    ),
)
BY_NAME = {(bug.world, bug.name): bug for bug in BUGS}
