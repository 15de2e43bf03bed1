"""Plays histories of growing seeds until one fails, or the time is over, and prints the results."""

from collections import Counter
from collections.abc import Sequence

from tests.simulation.history import World, play
from tests.simulation.machine import real_seconds
from tests.simulation.shrink import shrink

TELL_SECONDS = 10.0


def play_one(world: World, seed: int, only: Sequence[int] | None, shrink_seconds: float, trace: int) -> int:
    """Play one history and print it; returns 1 when it breaks a rule."""
    outcome = play(world, seed, only, keep_trace=trace)
    if outcome.error is not None and shrink_seconds and only is None:
        outcome = shrink(world, outcome, shrink_seconds)
    print("\n".join([*outcome.trace, outcome.tale(), f"digest: {outcome.digest}"]))
    return 1 if outcome.error is not None else 0


def hunt(world: World, seed: int, seconds: float, histories: int | None, shrink_seconds: float) -> int:
    """Play histories of growing seeds; returns 1 when one breaks a rule, which ends the hunt."""
    began = told = real_seconds()
    figures, struck, states = Counter[str](), Counter[str](), Counter[str]()
    while real_seconds() - began < seconds and (histories is None or figures["histories"] < histories):
        outcome = play(world, seed)
        figures.update(outcome.figures)
        struck.update(outcome.struck)
        states.update(outcome.states)
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
    for name, counts in (("weather", struck), ("states", states)):
        print(f"{name}: " + ", ".join(f"{each} {count:,}" for each, count in counts.most_common()))
    return 0


def _tell(figures: Counter[str], seconds: float, seed: int) -> None:
    rate = figures["histories"] / max(seconds, 1e-9) * 60
    print(
        f"{seconds:6.0f} s  {figures['histories']:,} histories ({rate:.0f} a minute), {figures['moves']:,} moves,"
        f" {figures['calls']:,} calls, {figures['kills']:,} kills, {figures['sleeps']:,} sleeps, next seed {seed}",
        flush=True,
    )
