"""Three clocks decide what is young: the object store's, this machine's, and those of the lakeFS servers.

    handed out at t by server A, uploaded     lakeFS signs A's time into the address; the store's is in Last-Modified
    linked through server B                   refused when B's clock is more than 24 h after the signed time
    a candidate                               Last-Modified more than the minimum age before the store's time now

With all servers within s of the store's clock, no link succeeds later than 24 h + 2 s after the upload. The
minimum age is therefore at least an hour longer than lakeFS's 24, and a server may be off by 5 minutes; as far as a
comparison can say so, that is at most 10 (see `compare_server`), and 2 × 10 minutes are a third of the hour.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from dredge.errors import FormatError, RefusedError, UnavailableError
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.runs.clock import NTP
from dredge.runs.folder import SUCCESS
from dredge.runs.limits import Finding
from dredge.runs.tries import TRY
from dredge.xid import descending_time

SERVER_LOOKS = 8
"""How often the server's clock is read. Behind a balancer that takes turns, so many servers are all read."""


class TellsTime(Protocol):
    """What is asked of a lakeFS server here."""

    def clock(self) -> datetime | None:
        """The server's time, in whole seconds, rounded down; None when an answer does not tell it."""


def compare_server(server: TellsTime, store_now: Callable[[], datetime], seconds_max: float) -> float | None:
    """Compare the clocks of the lakeFS servers with the store's.

    The server's clock is read several times between two readings of the store's, so a server's difference is known
    as an interval: as long as all readings took together, and a second longer for each clock that shows whole
    seconds. A difference is refused when it is certainly too large; when an interval is so long that the difference
    could be twice the bound, the comparison says too little. So no server that answered differs by more than twice
    the bound.

    What this cannot prove: that every server answered (a balancer may prefer one, and servers are added while a run
    goes on), that a proxy passed the server's own Date header on (some write their own), and that no clock jumps
    afterwards. What remains is covered by the hour by which the minimum age exceeds lakeFS's 24 h, and by
    `server_clock_finding`, which no proxy can distort.

    Args:
        server: asked several times, on a new connection each.
        store_now: the store's time, whole seconds or finer.
        seconds_max: largest difference, either way.

    Returns:
        The largest difference that is certain, in seconds, the server's clock minus the store's; None when no
        answer told a time.

    Raises:
        RefusedError: a server's clock differs by more.
        UnavailableError: the readings took so long that they say too little.
    """
    before = store_now()
    seen = [found for _ in range(SERVER_LOOKS) if (found := server.clock()) is not None]
    after = store_now()
    if not seen:
        return None
    intervals = [_ahead(found, before, after) for found in seen]
    worst = max((_certain(interval) for interval in intervals), key=abs)
    if abs(worst) > seconds_max:
        raise RefusedError(f"{_difference(worst, seconds_max)} {NTP}")
    if max(abs(bound) for interval in intervals for bound in interval) > 2 * seconds_max:
        raise UnavailableError(
            f"comparing the lakeFS server's clock with the object store's took"
            f" {(after - before).total_seconds():.0f} s, too long to tell whether they differ by more than"
            f" {seconds_max:.0f} s. Nothing was deleted. Try again when both answer faster."
        )
    return worst


def server_clock_finding(run: Run, listing: SliceListingOutput, staged: MarkUncommittedOutput) -> Finding:
    """Compare the clock of the server that scanned staging with the store's, by the ids that it gave its scans: they
    contain its time, whatever proxy is in between. Where the key-value store was read instead, by one more look at the
    server's clock.

    The scans lie between two times of the store's clock; no worker's clock is used.

    Args:
        run: the run.
        listing: result of the step before the mark.
        staged: names the scans.
    """
    config = run.plan.config
    rule, most = "server_clock", config.safety.clock_skew_seconds_max
    before, after = _store_times(run, listing, staged)
    try:
        seen = [descending_time(run_id) for run_id in staged.server_runs]
        seen += [] if staged.server_time is None else [staged.server_time]
    except FormatError:
        return Finding(rule, "passed", "unknown", most, "the server's ids of scans tell no time")
    worst = max((_certain(_ahead(found, before, after)) for found in seen), key=abs, default=0.0)
    if config.unsafe_min_age_seconds is None and abs(worst) > most:
        return Finding(rule, "refused", round(worst), most, _difference(worst, most))
    text = f"{worst:.0f} s is the least by which the server's clock differs from the store's"
    return Finding(rule, "passed", round(worst), most, text)


def _store_times(
    run: Run, listing: SliceListingOutput, staged: MarkUncommittedOutput
) -> tuple[datetime, datetime]:
    """The store's time before and after the scans: when the listing's summary or, later, the mark's newest try was
    written, and the mark's summary, where they lie in the same store; else when the run was planned, and now.

    A mark that is done again may be hours later than the listing, and a clock that jumped meanwhile be hidden by them.
    """
    plan = run.plan
    if not canonical_namespace(plan.run_uri).startswith(canonical_namespace(plan.namespace)):
        return plan.created_at, run.store_now()
    keys = (f"{listing.STEP}/{SUCCESS}", f"{staged.STEP}/{TRY}", f"{staged.STEP}/{SUCCESS}")
    listed, begun, scanned = (run.folder.writer.stat(key).last_modified for key in keys)
    # A later try that ends without a result leaves the earlier one's.
    return max(listed, begun) if begun <= scanned else listed, scanned


def _ahead(seen: datetime, before: datetime, after: datetime) -> tuple[float, float]:
    """Bounds, in seconds, of how far a clock is ahead of the store's.

    Args:
        seen: what the clock showed, rounded down to seconds.
        before: what the store's clock had shown, rounded down to seconds.
        after: what the store's clock showed later, rounded down to seconds.
    """
    return (seen - after).total_seconds() - 1, (seen - before).total_seconds() + 1


def _certain(interval: tuple[float, float]) -> float:
    """The value of an interval that is nearest to 0."""
    least, most = interval
    return least if least > 0 else min(most, 0.0)


def _difference(ahead: float, seconds_max: float) -> str:
    side = "ahead of" if ahead > 0 else "behind"
    return (
        f"a lakeFS server's clock is {abs(ahead):.0f} s {side} the object store's, more than"
        f" {seconds_max:.0f} s. It decides how long an uploaded object may still be linked, so what is old"
        " enough to be deleted cannot be told."
    )
