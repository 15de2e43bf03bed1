"""Plays histories of growing seeds until one fails, or the time is over, and tells what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.simulation.coverage import Coverage
from tests.simulation.history import Outcome, World, play
from tests.simulation.machine import real_seconds
from tests.simulation.shrink import shrink
from tests.simulation.weather import KINDS

TELL_SECONDS = 10.0


def play_one(world: World, seed: int, only: Sequence[int] | None, shrink_seconds: float, trace: int) -> int:
    """Play one history and tell it; gives 1 when it breaks a rule."""
    outcome = play(world, seed, only, keep_trace=trace)
    if outcome.error is not None and shrink_seconds and only is None:
        outcome = shrink(world, outcome, shrink_seconds)
    print("\n".join([*outcome.trace, outcome.tale(), f"digest: {outcome.digest}"]))
    return 1 if outcome.error is not None else 0


def hunt(world: World, seed: int, seconds: float, histories: int | None, shrink_seconds: float) -> int:
    """Play histories of growing seeds; gives 1 when one breaks a rule, which ends the hunt."""
    began = told = real_seconds()
    figures: Counter[str] = Counter()
    total = Hunted()
    while real_seconds() - began < seconds and (histories is None or figures["histories"] < histories):
        outcome = play(world, seed)
        figures.update(outcome.figures)
        total.add(outcome)
        if outcome.error is not None:
            print(outcome.tale())
            print(f"\nshrinking for up to {shrink_seconds:.0f} s …", flush=True)
            print(shrink(world, outcome, shrink_seconds).tale())
            return 1
        seed += 1
        if real_seconds() - told > TELL_SECONDS:
            told = real_seconds()
            _tell(figures, told - began, seed)
    _tell(figures, real_seconds() - began, seed)
    print(total.words(world))
    return 0


class Hunted:
    """What all histories of a hunt have seen."""

    def __init__(self) -> None:
        self.struck: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.coverage = Coverage()

    def add(self, outcome: Outcome) -> None:
        """Count a history."""
        self.struck.update(outcome.struck)
        self.states.update(outcome.states)
        self.coverage.add(outcome.coverage)

    def words(self, world: World) -> str:
        """Weather, states and coverage in lines of text."""
        kinds = [*(kind.name for kind in KINDS), "kill", "sleep"]
        gaps, pairs = self.coverage.gaps(world.steps, kinds, world.verbs, world.never)
        seen, possible = self.coverage.figure(world.steps, kinds, world.verbs, world.never)
        return "\n".join(
            [
                "weather: " + ", ".join(f"{name} {count:,}" for name, count in self.struck.most_common()),
                "states: " + ", ".join(f"{name} {count:,}" for name, count in self.states.most_common()),
                f"covered: {pairs - len(gaps):,} of {pairs:,} pairs of a step with a weather or a move"
                f" ({1 - len(gaps) / pairs:.0%}); {seen:,} of {possible:,} of a step with a weather and a move"
                f" ({seen / possible:.0%})",
                "not seen yet: " + (", ".join(gaps) or "nothing"),
            ]
        )


def _tell(figures: Counter[str], seconds: float, seed: int) -> None:
    rate = figures["histories"] / max(seconds, 1e-9) * 60
    print(
        f"{seconds:6.0f} s  {figures['histories']:,} histories ({rate:.0f} a minute), {figures['moves']:,} moves,"
        f" {figures['calls']:,} calls, {figures['kills']:,} kills, {figures['sleeps']:,} sleeps, next seed {seed}",
        flush=True,
    )
