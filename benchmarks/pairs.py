"""Compares two implementations in turn, with alternating order."""

import time
from collections.abc import Callable
from statistics import median

import click

type Act = Callable[[], int]
"""Does all of it, and gives how many objects were done."""


class Pairs:
    """Compares our client with the bare SDK.

    Args:
        objects: number of objects of each operation.
        requests: returns the number of requests so far.
        repeat: pairs of rounds, after a warm-up.
    """

    def __init__(self, objects: int, requests: Callable[[], int], repeat: int) -> None:
        self._objects, self._requests, self._repeat = objects, requests, repeat

    def compare(self, what: str, own: Act, bare: Act, before: Callable[[], None] | None = None) -> None:
        """Measure both, and print the medians.

        Args:
            what: name of the operation.
            own: ours.
            bare: the SDK's.
            before: runs before each operation, unmeasured.
        """
        rounds: dict[Act, list[tuple[float, float, int]]] = {own: [], bare: []}
        for number in range(self._repeat + 1):
            for act in (own, bare) if number % 2 else (bare, own):
                if before is not None:
                    before()
                measured = self._measured(act)
                if number:
                    rounds[act].append(measured)
        speed = median(b[0] / a[0] for a, b in zip(rounds[own], rounds[bare], strict=True))
        click.echo(
            f"{what}: {self._said(rounds[own])}; bare SDK {self._said(rounds[bare])}; speed {speed:.0%}"
        )

    def _measured(self, act: Act) -> tuple[float, float, int]:
        """Return wall and CPU seconds, and requests."""
        asked, wall, cpu = self._requests(), time.perf_counter(), time.process_time()
        assert act() == self._objects
        return time.perf_counter() - wall, time.process_time() - cpu, self._requests() - asked

    def _said(self, rounds: list[tuple[float, float, int]]) -> str:
        wall, cpu, requests = (median(found[place] for found in rounds) for place in range(3))
        count = self._objects
        each = f"{cpu / count * 1e6:.0f} µs CPU each, {requests * 1000 / count:.1f} requests a thousand"
        return f"{count / wall:,.0f}/s, {each}"
