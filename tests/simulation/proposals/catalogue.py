"""Every claim of the document, and further findings, each with its scene."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.simulation.proposals.explorer import Explored, Scene, explore

NOTHING: frozenset[str] = frozenset()
LOSS, LEAK, STUCK = frozenset({"loss"}), frozenset({"leak"}), frozenset({"stuck"})


@dataclass(frozen=True)
class Claim:
    name: str
    item: str
    says: str
    scene: Callable[[], Scene]
    expects: frozenset[str]
    means: str

    @property
    def worst(self) -> str:
        """The kind of trouble to show: a loss before a leak before a stuck operation."""
        return next((kind for kind in ("loss", "leak", "stuck") if kind in self.expects), "")


@dataclass(frozen=True)
class Chapter:
    number: str
    title: str
    idea: str
    claims: tuple[Claim, ...]


@cache
def result_of(claim: Claim) -> Explored:
    """Explore a claim's scene, once per process."""
    return explore(claim.scene())
