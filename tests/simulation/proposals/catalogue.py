"""Every claim of the document, and what was found beyond, each with the scene that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.simulation.proposals.explorer import Explored, Found, Scene, explore

LOSS, LEAK, STUCK = "loss", "leak", "stuck"
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Claim:
    """Something that is said of a design.

    Args:
        name: for tests and for the terminal.
        item: what the document calls it ("Blocker 1", "Race 2"), or "beyond" for what it does not name.
        says: the claim, in our words.
        scene: makes the scene that shows it; None: it is not about an order of steps.
        expects: the kinds of trouble that the scene has, exactly.
        means: what the result says, or why there is nothing to run.
    """

    name: str
    item: str
    says: str
    scene: Callable[[], Scene] | None
    expects: frozenset[str]
    means: str

    @property
    def worst(self) -> str:
        """The kind of trouble to show: a loss before a leak before an operation that is stuck."""
        return next((kind for kind in (LOSS, LEAK, STUCK) if kind in self.expects), "")


@dataclass(frozen=True)
class Result:
    """What a claim's scene gave."""

    claim: Claim
    explored: Explored

    @property
    def found(self) -> Found | None:
        """The schedule to show."""
        return self.explored.found.get(self.claim.worst)

    @property
    def as_expected(self) -> bool:
        """The scene has the trouble that the claim says, and no other."""
        return frozenset(self.explored.found) == self.claim.expects


@dataclass(frozen=True)
class Chapter:
    """A design with its claims."""

    number: str
    title: str
    idea: str
    claims: tuple[Claim, ...]


@cache
def result_of(claim: Claim) -> Result:
    """Explore a claim's scene, once a process."""
    assert claim.scene is not None, claim.name
    return Result(claim, explore(claim.scene()))
