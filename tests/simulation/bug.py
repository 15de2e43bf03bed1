"""A bug to be found by the simulator."""

from dataclasses import dataclass

from tests.simulation.focus import ANYTHING, Focus


@dataclass(frozen=True)
class KnownBug:
    world: str  # that is to find it
    name: str  # half a sentence
    seed: int  # of the history that shows it
    rule: str  # that this history breaks
    focus: Focus = ANYTHING  # what the histories that hunt it have more often than others
    # names of breakages, all at once where several guards catch one fault; () for the one of its name
    breaks: tuple[str, ...] = ()
