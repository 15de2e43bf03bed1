"""Three clocks decide what is young: the object store's, this machine's, and those of the lakeFS servers.

    handed out at t by server A, uploaded     lakeFS signs A's time into the address; the store's is in Last-Modified
    linked through server B                   refused when B's clock is more than 24 h after the signed time
    found                                     Last-Modified more than the minimum age before the store's time now
    deleted                                   a grace later

With all servers within s of the store's clock, no link succeeds later than 24 h + 2 s after the upload. The minimum age
is an hour longer than lakeFS's 24, and what is linked later is live when another run looks, a grace after it was found.
So one coarse comparison is enough, of whichever server answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from dredge.errors import RefusedError
from dredge.runs.clock import NTP

log = logging.getLogger("dredge")


class TellsTime(Protocol):
    """What is asked of a lakeFS server here."""

    def clock(self) -> datetime | None:
        """The server's time, in whole seconds, rounded down; None when an answer does not tell it."""


def compare_server(server: TellsTime, store_now: Callable[[], datetime], seconds_max: float) -> float | None:
    """Compare the clock of a lakeFS server with the store's.

    It is read between two readings of the store's, so the difference is known as an interval: as long as all three
    took, and a second longer for each clock that shows whole seconds. It is refused when it is certainly too large.

    Args:
        server: asked once.
        store_now: the store's time, whole seconds or finer.
        seconds_max: largest difference, either way.

    Returns:
        The difference that is certain, in seconds, the server's clock minus the store's; None when its answer told no
        time.

    Raises:
        RefusedError: it differs by more.
    """
    before = store_now()
    seen = server.clock()
    after = store_now()
    if seen is None:
        log.warning(
            "lakeFS's answer has no Date header (a proxy takes it away), so its clock could not be compared with the"
            " store's"
        )
        return None
    least, most = (seen - after).total_seconds() - 1, (seen - before).total_seconds() + 1
    certain = least if least > 0 else min(most, 0.0)
    if abs(certain) > seconds_max:
        side = "ahead of" if certain > 0 else "behind"
        raise RefusedError(
            f"a lakeFS server's clock is {abs(certain):.0f} s {side} the object store's, more than"
            f" {seconds_max:.0f} s. It decides how long an uploaded object may still be linked, so what is old"
            f" enough to be deleted cannot be told. {NTP}"
        )
    return certain
