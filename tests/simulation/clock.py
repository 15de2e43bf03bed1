"""Virtual time, and inexact clocks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR = 3600.0
DAY = 24 * HOUR


def instant(seconds: float) -> datetime:
    """The true time some seconds after the start of a history."""
    return START + timedelta(seconds=seconds)


@dataclass
class Clock:
    true_seconds: Callable[[], float]  # gives the true time, in seconds since the start
    offset: float = 0.0  # seconds by which it is ahead at the start
    drift: float = 0.0  # seconds gained per second
    # (when, seconds): from then on it is ahead by that much more
    jumps: list[tuple[float, float]] = field(default_factory=list)
    whole_seconds: bool = False  # it shows whole seconds only, rounded down

    def seconds(self) -> float:
        now = self.true_seconds()
        jumped = sum(by for at, by in self.jumps if at <= now)
        return now * (1 + self.drift) + self.offset + jumped

    def __call__(self) -> datetime:
        shown = instant(round(self.seconds(), 6))
        return shown.replace(microsecond=0) if self.whole_seconds else shown
