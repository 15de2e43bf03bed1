"""Every claim of the document, and what was found beyond, each with the scene that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.simulation.proposals.explorer import Explored, Scene, explore

NOTHING: frozenset[str] = frozenset()
LOSS, LEAK, STUCK = frozenset({"loss"}), frozenset({"leak"}), frozenset({"stuck"})


@dataclass(frozen=True)
class Claim:
    """Something that is said of a design."""

    name: str
    item: str
    says: str
    scene: Callable[[], Scene]
    expects: frozenset[str]
    means: str

    @property
    def worst(self) -> str:
        """The kind of trouble to show: a loss before a leak before an operation that is stuck."""
        return next((kind for kind in ("loss", "leak", "stuck") if kind in self.expects), "")


@dataclass(frozen=True)
class Chapter:
    """A design with its claims."""

    number: str
    title: str
    idea: str
    claims: tuple[Claim, ...]


@cache
def result_of(claim: Claim) -> Explored:
    """Explore a claim's scene, once a process."""
    return explore(claim.scene())
