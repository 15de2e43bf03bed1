"""The temper of a history: each seed draws a small set of moves, places and weather, and uses them often.

With a little of everything, two rare things seldom meet. So most seeds leave much out, and prefer the rest strongly
(swarm testing: Groce and others, ISSTA 2012).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.gc.gateway import S3_DRAWS
from tests.simulation.weather import KINDS
from tests.simulation.writers import BRANCHES, PATHS
from tests.simulation.writers import DRAWS as API_DRAWS

DRAWS = {**API_DRAWS, **S3_DRAWS}
VERBS = tuple(DRAWS)
"""Every kind of move of writers, through the API and through the gateway."""


@dataclass(frozen=True)
class Temper:
    weights: tuple[float, ...]  # of the verbs, in the order of `VERBS`
    places: Mapping[str, str]  # mapping of branches and paths: with few of them, moves meet
    weather: tuple[str, ...]  # names of the kinds that there are

    @classmethod
    def draw(cls, chance: random.Random) -> Temper:
        weights = {verb: float(weight) for verb, (weight, _) in DRAWS.items()}
        if chance.random() < 0.6:
            left_out = chance.choice((0.0, 0.3, 0.7))
            weights = {verb: weight for verb, weight in weights.items() if chance.random() >= left_out}
            for verb in chance.sample(VERBS, chance.choice((2, 4, 6))):
                weights[verb] = 25.0
        places = _fewer(chance, BRANCHES, (2, 3, 4, 4)) | _fewer(chance, PATHS, (1, 2, 5, 5))
        kinds = [kind.name for kind in KINDS]
        return cls(
            tuple(weights.get(verb, 0.0) for verb in VERBS),
            places,
            tuple(chance.sample(kinds, chance.choice((1, 2, 3, len(kinds))))),
        )

    @classmethod
    def calm(cls) -> Temper:
        """One without preferences."""
        places = {name: name for name in (*BRANCHES, *PATHS)}
        return cls(
            tuple(float(weight) for weight, _ in DRAWS.values()), places, tuple(kind.name for kind in KINDS)
        )

    def write(self, chance: random.Random) -> tuple[str, tuple[Any, ...]]:
        """Draw a move of a writer: verb and arguments."""
        verb = chance.choices(VERBS, self.weights)[0]
        return verb, tuple(self.place(value) for value in DRAWS[verb][1](chance))

    def place(self, value: Any) -> Any:
        """The drawn branch or path of a placeholder; other names stay."""
        if isinstance(value, tuple):
            return tuple(dict.fromkeys(self.place(each) for each in value))
        return self.places.get(value, value) if isinstance(value, str) else value

    def branch(self, chance: random.Random) -> str:
        return self.places[chance.choice(BRANCHES)]

    def path(self, chance: random.Random) -> str:
        return self.places[chance.choice(PATHS)]


def _fewer(chance: random.Random, names: tuple[str, ...], counts: tuple[int, ...]) -> dict[str, str]:
    kept = chance.sample(names, chance.choice(counts))
    return {name: name if name in kept else chance.choice(kept) for name in names}
