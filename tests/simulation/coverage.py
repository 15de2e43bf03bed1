"""What a hunt has seen: which kind of weather and which kind of move met which step, and which has not met yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass
class Coverage:
    """Pairs that were seen, and how often.

    Attributes:
        weathers: (step, kind of weather).
        moves: (step, kind of move) while that step was at work.
        triples: (step, kind of weather, kind of move): all in one piece of work of that step.
    """

    weathers: Counter[tuple[str, str]] = field(default_factory=Counter)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    triples: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _now: dict[str, tuple[set[str], set[str]]] = field(default_factory=dict)

    def begin(self, step: str) -> None:
        """A step begins its work."""
        self._now[step] = set(), set()

    def end(self, step: str) -> None:
        """A step has ended, or died."""
        found = self._now.pop(step, None)
        if found is not None:
            self.triples.update((step, kind, verb) for kind in found[0] for verb in found[1])

    def weather(self, step: str, kind: str) -> None:
        """Weather struck a step."""
        self.weathers[step, kind] += 1
        if step in self._now:
            self._now[step][0].add(kind)

    def move(self, verb: str) -> None:
        """A move is made while some steps are at work."""
        for step, (_, verbs) in self._now.items():
            self.moves[step, verb] += 1
            verbs.add(verb)

    def add(self, other: Coverage) -> None:
        """Count what another has seen."""
        self.weathers.update(other.weathers)
        self.moves.update(other.moves)
        self.triples.update(other.triples)

    def figure(
        self,
        steps: Iterable[str],
        kinds: Iterable[str],
        verbs: Iterable[str],
        never: Collection[tuple[str, str]] = (),
    ) -> tuple[int, int]:
        """Triples of a step, a kind of weather and a kind of move that were seen, and how many could be.

        Arguments: see `gaps`.
        """
        kinds, verbs = set(kinds), set(verbs)
        seen = possible = 0
        for step in steps:
            here = {kind for kind in kinds if (step, kind) not in never}
            moves = {verb for verb in verbs if (step, verb) not in never}
            possible += len(here) * len(moves)
            seen += sum(
                1 for each, kind, verb in self.triples if each == step and kind in here and verb in moves
            )
        return seen, possible

    def gaps(
        self,
        steps: Iterable[str],
        kinds: Iterable[str],
        verbs: Iterable[str],
        never: Collection[tuple[str, str]] = (),
    ) -> tuple[list[str], int]:
        """Pairs that could have been seen and were not, and how many could.

        Args:
            steps: of the world.
            kinds: of weather.
            verbs: of moves.
            never: pairs that cannot be.
        """
        kinds, verbs = list(kinds), list(verbs)
        pairs = [
            (step, name, seen)
            for step in steps
            for names, seen in ((kinds, self.weathers), (verbs, self.moves))
            for name in names
            if (step, name) not in never
        ]
        return [f"{step} × {name}" for step, name, seen in pairs if not seen[step, name]], len(pairs)
