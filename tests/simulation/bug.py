"""A bug that the simulator must find."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.focus import ANYTHING, Focus


@dataclass(frozen=True)
class KnownBug:
    """A bug.

    Attributes:
        world: that is to find it.
        name: half a sentence.
        seed: of the history that shows it.
        rule: that this history breaks.
        focus: what the histories that hunt it have more often than others.
        breaks: names of breakages, all at once where several guards catch one fault; () for the one of its name.
    """

    world: str
    name: str
    seed: int
    rule: str
    focus: Focus = ANYTHING
    breaks: tuple[str, ...] = ()
