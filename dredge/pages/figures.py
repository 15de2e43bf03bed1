"""What the overview and the page of a repository add up from the runs of places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from dredge.errors import DredgeError
from dredge.pages.history import ENDED, LeaseState, RunRow, lease_of, runs_of
from dredge.pages.places import Place

RECENT = timedelta(days=30)
AT_WORK = "at work"
"""What an unfinished run is called while its repository's lease is held."""
CHART_DAYS = 30


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand with a place.

    Attributes:
        place: which.
        runs: newest first.
        lease: who works on it; None for nobody.
        error: why it could not be looked at; "" when it could.
    """

    place: Place
    runs: list[RunRow] = field(default_factory=list)
    lease: LeaseState | None = None
    error: str = ""

    @property
    def last(self) -> RunRow | None:
        """The newest run of Dredge's; None when there is none."""
        return next((run for run in self.runs if run.outcome != "other tool"), None)

    @property
    def not_deleted(self) -> tuple[int, int] | None:
        """Objects and bytes that the newest run found and did not delete; None when it came to no figure."""
        last = self.last
        if last is None or (last.found == (0, 0) and last.outcome not in ENDED):
            return None
        return max(0, last.found[0] - last.deleted[0]), max(0, last.found[1] - last.deleted[1])

    @property
    def waiting(self) -> tuple[int, int]:
        """Objects and bytes that wait for another run, as the newest run that came to its end left them."""
        return next((run.pending for run in self.runs if run.outcome in ENDED), (0, 0))

    @property
    def live(self) -> tuple[int, int] | None:
        """Objects and bytes in use, as the newest run counted them that looked at everything; None when none did."""
        return next((run.live for run in self.runs if run.live is not None), None)

    def reclaimed(self, since: datetime | None = None) -> tuple[int, int]:
        """Objects and bytes deleted by its runs.

        Args:
            since: only by runs from then on.
        """
        counted = [run.deleted for run in self.runs if since is None or run.started_at >= since]
        return sum(pair[0] for pair in counted), sum(pair[1] for pair in counted)


def standing(place: Place, limit: int = 200) -> Standing:
    """Look at a place; what cannot be read is said instead of raised, so that the others are shown."""
    try:
        runs, lease = runs_of(place, limit), lease_of(place)
        if lease is not None and runs and runs[0].outcome == "unfinished":
            runs[0] = replace(runs[0], text=AT_WORK)
        return Standing(place, runs, lease)
    except DredgeError as error:
        return Standing(place, error=str(error))


def by_day(runs: Iterable[RunRow], now: datetime, days: int = CHART_DAYS) -> list[tuple[str, int]]:
    """Bytes deleted by day, the oldest first, days without any included.

    Args:
        runs: of any places.
        now: the last day.
        days: how many.
    """
    sums: dict[str, int] = defaultdict(int)
    for run in runs:
        sums[f"{run.started_at.astimezone(UTC):%Y-%m-%d}"] += run.deleted[1]
    names = [f"{now - timedelta(days=back):%Y-%m-%d}" for back in reversed(range(days))]
    return [(name, sums[name]) for name in names]


def run_bars(runs: Sequence[RunRow], most: int = 60) -> dict[str, list[object]]:
    """What the chart of a repository's runs shows: bytes deleted, held and only found, the oldest first."""
    shown = [run for run in runs if run.outcome not in ("other tool", "damaged")][:most][::-1]
    return {
        "labels": [f"{run.started_at:%m-%d %H:%M}" for run in shown],
        "run_ids": [run.run_id for run in shown],
        "deleted": [run.deleted[1] for run in shown],
        "held": [run.held[1] for run in shown],
        "found": [max(0, run.found[1] - run.deleted[1]) for run in shown],
    }
