"""The one place that reads this machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

type Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Now, by this machine's clock, aware UTC."""
    return datetime.now(UTC)


def running_seconds() -> float:
    """Seconds that go on while the machine sleeps, for "how long ago": unlike `time.monotonic`, a suspended
    machine ages."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
