"""The one place that reads this machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from dredge.errors import RefusedError

type Clock = Callable[[], datetime]

NTP = "Nothing was deleted. Set the clocks right (NTP) and start again."


def check_clocks(store_ahead_seconds: float, seconds_max: float) -> None:
    """Refuse to work when this machine's clock and the store's differ too much: one of them is wrong, and nothing
    tells which.

    Args:
        store_ahead_seconds: the store's clock minus this machine's.
        seconds_max: largest difference, either way.

    Raises:
        RefusedError: they differ by more.
    """
    if abs(store_ahead_seconds) > seconds_max:
        side = "ahead of" if store_ahead_seconds > 0 else "behind"
        raise RefusedError(
            f"the object store's clock is {abs(store_ahead_seconds):.0f} s {side} this machine's, more than"
            f" {seconds_max:.0f} s. Ages of objects cannot be trusted. {NTP}"
        )


def utc_now() -> datetime:
    """Now, by this machine's clock, aware UTC."""
    return datetime.now(UTC)


def running_seconds() -> float:
    """Seconds that go on while the machine sleeps, for "how long ago": unlike `time.monotonic`, a suspended
    machine ages."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
