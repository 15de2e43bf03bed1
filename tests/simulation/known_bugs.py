"""Bugs to be found by the simulator: guards of the product left out.

`./run simulate --known-bugs` breaks the product with each, and plays its history.
"""

from tests.mutations.breakages import BREAKAGES, Breakage
from tests.simulation.bug import KnownBug
from tests.simulation.gc import bugs_marking, bugs_sweeping
from tests.simulation.gc import known_bugs as gc
from tests.simulation.icechunk import known_bugs as icechunk
from tests.simulation.trash import known_bugs as trash

DECISION = (
    KnownBug("decision", "a run deletes what has not waited long enough", 34, "lost"),
    KnownBug("decision", "what changed goes on waiting", 75, "lost"),
)
BUGS = (*DECISION, *gc.BUGS, *bugs_marking.BUGS, *bugs_sweeping.BUGS, *icechunk.BUGS, *trash.BUGS)
BREAKAGES_BY_NAME = {each.name: each for each in (*BREAKAGES, *gc.OWN, *icechunk.OWN, *trash.OWN)}


def breakages_of(bug: KnownBug) -> list[Breakage]:
    return [BREAKAGES_BY_NAME[name] for name in bug.breaks or (bug.name,)]
