"""Totals of places for the overview and the page of a repository; the mode of the next run; plans of Icechunk
expirations.

    <namespace>/_dredge/expirations/<id>/plan.json · plan.txt
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dredge.errors import DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.index.store import PARTS
from dredge.gc.state import RunState, StateStore
from dredge.icechunk.maintenance import EXPIRATIONS
from dredge.pages.history import ENDED, LeaseState, RunRow, lease_of, runs_of
from dredge.pages.places import ICECHUNK, LAKEFS, Place
from dredge.runs.folder import read_json, run_ids
from dredge.runs.report import size_text
from dredge.runs.versions import Current, choose_mode
from dredge.storage import open_reader, open_writer
from dredge.xid import descending_time

RECENT = timedelta(days=30)
# The outcome text of an unfinished run with the lease.
AT_WORK = "running"
CHART_DAYS = 30


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a place.

    Attributes:
        lease: of the repository; None for a free lease.
        error: of reading the place; "" without an error.
    """

    place: Place
    runs: list[RunRow] = field(default_factory=list)
    lease: LeaseState | None = None
    error: str = ""

    @property
    def last(self) -> RunRow | None:
        """The newest run of Dredge; None without a run."""
        return next((run for run in self.runs if run.outcome != "other tool"), None)

    @property
    def not_deleted(self) -> tuple[int, int] | None:
        """Objects and bytes found and not deleted by the newest run; None without figures."""
        last = self.last
        if last is None or (last.found == (0, 0) and last.outcome not in ENDED):
            return None
        return max(0, last.found[0] - last.deleted[0]), max(0, last.found[1] - last.deleted[1])

    @property
    def waiting(self) -> tuple[int, int]:
        """Objects and bytes in the pending list after the newest completed run."""
        return next((run.pending for run in self.runs if run.outcome in ENDED), (0, 0))

    @property
    def live(self) -> tuple[int, int] | None:
        """Live objects and bytes in the newest run with a complete listing; None without such a run."""
        return next((run.live for run in self.runs if run.live is not None), None)

    def reclaimed(self, since: datetime | None = None) -> tuple[int, int]:
        """Objects and bytes deleted by its runs."""
        counted = [run.deleted for run in self.runs if since is None or run.started_at >= since]
        return sum(pair[0] for pair in counted), sum(pair[1] for pair in counted)


def standing(place: Place, limit: int = 200) -> Standing:
    """Read the state of a place. An error becomes part of the state, so that other places are shown."""
    try:
        runs, lease = runs_of(place, limit), lease_of(place)
        if lease is not None and runs and runs[0].outcome == "unfinished":
            runs[0] = replace(runs[0], text=AT_WORK)
        return Standing(place, runs, lease)
    except DredgeError as error:
        return Standing(place, error=str(error))


def by_day(runs: Iterable[RunRow], now: datetime, days: int = CHART_DAYS) -> list[tuple[str, int]]:
    """Deleted bytes by day, the oldest first, including days without deletions."""
    sums: dict[str, int] = defaultdict(int)
    for run in runs:
        sums[f"{run.started_at.astimezone(UTC):%Y-%m-%d}"] += run.deleted[1]
    names = [f"{now - timedelta(days=back):%Y-%m-%d}" for back in reversed(range(days))]
    return [(name, sums[name]) for name in names]


def run_bars(runs: Sequence[RunRow], most: int = 60) -> dict[str, list[object]]:
    """The values of the chart of a repository's runs: bytes deleted, held and only found, the oldest first."""
    shown = [run for run in runs if run.outcome not in ("other tool", "damaged")][:most][::-1]
    return {
        "labels": [f"{run.started_at:%m-%d %H:%M}" for run in shown],
        "run_ids": [run.run_id for run in shown],
        "deleted": [run.deleted[1] for run in shown],
        "held": [run.held[1] for run in shown],
        "found": [max(0, run.found[1] - run.deleted[1]) for run in shown],
    }


# Days on the time line of covered slices.
LINE_DAYS = 30
_SETTINGS = ("mode", "clean_every_days")


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval of the time line.

    Attributes:
        left: its start, in percent of the line.
    """

    left: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Keeping:
    """The state left for the next run.

    Attributes:
        covered: intervals of slices without a need for listing.
    """

    mode: str
    why: str
    facts: list[tuple[str, str]]
    covered: list[Piece]
    begins: datetime
    ends: datetime


def keeping_of(place: Place, now: datetime, settings: Mapping[str, Any] | None = None) -> Keeping | None:
    """Read the state left by the last complete run.

    Args:
        settings: of the next run, if known; else the defaults.

    Returns:
        None for an unknown state: of other kinds, or with only runs known.
    """
    if place.kind != LAKEFS or not place.lease_uri:
        return None
    current = _current(place)
    name = place.repository or (current.state.repository if current.state else place.name)
    asked = {key: value for key, value in (settings or {}).items() if key in _SETTINGS}
    config = GCConfig.from_params({"repository": name, **asked})
    mode, why = choose_mode(config.mode, config.clean_every_days, current, now)
    begins = now - timedelta(days=LINE_DAYS)
    state = current.state
    return Keeping(
        mode=mode,
        why=why,
        facts=_facts(place, state),
        covered=[] if state is None else pieces(state, begins, now),
        begins=begins,
        ends=now,
    )


def pieces(state: RunState, begins: datetime, ends: datetime) -> list[Piece]:
    """The covered intervals of a time line."""
    found = []
    length = (ends - begins).total_seconds()
    for start, stop in state.covered.intervals:
        left, right = max(start, begins), min(stop, ends)
        if left < right:
            found.append(
                Piece(
                    round(100 * (left - begins).total_seconds() / length, 2),
                    round(100 * (right - left).total_seconds() / length, 2),
                    f"{'the beginning' if start < begins else f'{start:%Y-%m-%d %H:%M}'} to {stop:%Y-%m-%d %H:%M}",
                )
            )
    return found


def _current(place: Place) -> Current[RunState]:
    """The current state. Unlike a run, a page does not read all its files."""
    store = StateStore(open_writer(place.lease_uri, place.options), place.options)
    try:
        version = store.newest()
        return Current() if version is None else Current(None, version, store.load(version))
    except UnavailableError:
        raise
    except (DredgeError, KeyError, TypeError, ValueError) as error:
        return Current(problem=str(error))


def _facts(place: Place, state: RunState | None) -> list[tuple[str, str]]:
    parts = open_reader(place.lease_uri, place.options).list_level(f"{PARTS}/").objects
    index = f"{len(parts):,} files, {size_text(sum(item.size for item in parts))}" if parts else "none yet"
    if state is None:
        return [("Index of ranges", index)]
    return [
        ("Last clean run", f"{state.clean_at:%Y-%m-%d %H:%M} UTC, run {state.clean_run_id}"),
        ("Optimized runs since", f"{state.optimized_runs:,}"),
        ("Objects then", f"{state.objects:,}"),
        ("State of run", f"{state.run_id}, {state.started_at:%Y-%m-%d %H:%M} UTC"),
        ("Index of ranges", index),
    ]


SHOWN = 30


@dataclass(frozen=True, slots=True)
class Expiration:
    """A plan in a list."""

    plan_id: str
    made_at: datetime


def expirations_of(place: Place) -> list[Expiration]:
    """List the newest plans of a repository; empty for other kinds."""
    if place.kind != ICECHUNK or not place.lease_uri:
        return []
    reader = open_reader(f"{place.lease_uri}/{EXPIRATIONS}", place.options)
    return [Expiration(name, descending_time(name)) for name in run_ids(reader)[:SHOWN]]


def expiration_of(place: Place, plan_id: str) -> dict[str, Any]:
    """Read a plan."""
    uri = _uri(place, plan_id)
    found = read_json(open_reader(uri, place.options), "plan.json")
    names = ("rule", "threshold", "digest", "snapshots", "released", "edited", "refs_deleted", "refs")
    if not isinstance(found, dict) or not all(name in found for name in names):
        raise FormatError(f"{uri}/plan.json is not a plan of an expiration")
    return found


def history_of(place: Place, plan_id: str) -> str:
    """Read the history before and after a plan, as text."""
    return open_reader(_uri(place, plan_id), place.options).get("plan.txt").decode(errors="replace")


def _uri(place: Place, plan_id: str) -> str:
    try:
        descending_time(plan_id)
    except FormatError:
        raise NotFoundError("there is no such plan") from None
    if place.kind != ICECHUNK or not place.lease_uri:
        raise NotFoundError("only Icechunk repositories have plans of expirations")
    return f"{place.lease_uri}/{EXPIRATIONS}/{plan_id}"
