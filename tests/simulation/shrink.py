"""Shrinks a failing history: leaves moves out, more and more finely, as long as the same rule is broken."""

from collections.abc import Callable, Sequence

from tests.simulation.history import Outcome, World, play
from tests.simulation.machine import real_seconds


def shrink(world: World, failing: Outcome, seconds: float = 120.0) -> Outcome:
    """Find a short history of the same seed with the same broken rule."""
    end = real_seconds() + seconds
    best = failing

    def fails(numbers: Sequence[int]) -> bool:
        nonlocal best
        if real_seconds() > end:
            return False
        outcome = play(world, failing.seed, numbers)
        if outcome.rule != failing.rule:
            return False
        best = outcome
        return True

    reduce_list([number for number, _ in failing.moves], fails)
    return best


def reduce_list(items: list[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Leave out as many items as possible (Zeller's ddmin, complements only)."""
    size = max(1, len(items) // 2)
    while True:
        at = 0
        while at < len(items):
            shorter = items[:at] + items[at + size :]
            if fails(shorter):
                items = shorter
            else:
                at += size
        if size == 1:
            return items
        size = max(1, size // 2)
