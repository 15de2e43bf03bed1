"""Bugs that the simulator must find: guards of the collector left out, one after the other.

`./run simulate --known-bugs` breaks the product with each, hunts, and shows after how many histories it was found. One
that is not found is a hole in the simulator, or another guard stands behind it: then `BEHIND` says which, and the two
are broken together.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutations.breakages import guarding, reading, sweeping
from tests.mutations.breakages.breakage import Breakage


@dataclass(frozen=True)
class KnownBug:
    """A bug.

    Attributes:
        name: half a sentence.
        changes: of the product's text, all at once.
        why_not: why no history can show it; "" when one can.
    """

    name: str
    changes: tuple[Breakage, ...]
    why_not: str = ""


OF_THE_LIST = (
    *reading.AGE_AND_PLACE,
    *reading.STAGED,
    *reading.COMMITTED,
    *guarding.COMPARED,
    *guarding.ASKED,
    *guarding.HOLDS,
    *reading.OPTIMIZED,
    *sweeping.SWEEP,
)
"""Breakages of the collector, from the list of mutations."""

BUGS = tuple(KnownBug(each.name, (each,)) for each in OF_THE_LIST if each.file.startswith("dredge/"))
BY_NAME = {bug.name: bug for bug in BUGS}
