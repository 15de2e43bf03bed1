"""What the overview and the page of a repository add up from the runs of places.

Plans of Icechunk expirations.

_dredge/expirations/<id>/plan.json · plan.txt
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
from dredge.gc.state.model import RunState
from dredge.gc.state.store import StateStore
from dredge.icechunk.maintenance import EXPIRATIONS
from dredge.pages.history import ENDED, LeaseState, RunRow, lease_of, runs_of
from dredge.pages.places import ICECHUNK, LAKEFS, Place
from dredge.runs.folder import read_json
from dredge.runs.lifetimes import run_ids
from dredge.runs.versions import Current, choose_mode
from dredge.runs.words import size_text
from dredge.storage import open_reader, open_writer
from dredge.xid import descending_time

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


LINE_DAYS = 30
"""Days that the time line of covered slices shows."""
_SETTINGS = ("mode", "clean_every_days")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the time line.

    Attributes:
        left: where it begins, per cent of the line.
        width: per cent.
        text: from when to when.
    """

    left: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Keeping:
    """What earlier runs left for the next one.

    Attributes:
        mode: of the next run.
        why: half a sentence.
        facts: name and text of what is known besides.
        covered: stretches whose slices need not be listed again.
        begins: where the line begins.
        ends: where it ends: now.
    """

    mode: str
    why: str
    facts: list[tuple[str, str]]
    covered: list[Piece]
    begins: datetime
    ends: datetime


def keeping_of(place: Place, now: datetime, settings: Mapping[str, Any] | None = None) -> Keeping | None:
    """Read what the last complete run left.

    Args:
        place: whose.
        now: this machine's time.
        settings: what the next run is started with, where that is known; else the usual.

    Returns:
        None where it is not known: of other kinds, and where only runs are known.

    Raises:
        UnavailableError: the store does not answer.
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
    """The covered stretches of a line of time."""
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
    """What the pointer leads to. Unlike a run, a page does not read every file that it names."""
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
    """A plan in a list.

    Attributes:
        plan_id: its id.
        made_at: when it was made.
    """

    plan_id: str
    made_at: datetime


def expirations_of(place: Place) -> list[Expiration]:
    """List the newest plans of a repository; none for other kinds."""
    if place.kind != ICECHUNK or not place.lease_uri:
        return []
    reader = open_reader(f"{place.lease_uri}/{EXPIRATIONS}", place.options)
    return [Expiration(name, descending_time(name)) for name in run_ids(reader)[:SHOWN]]


def expiration_of(place: Place, plan_id: str) -> dict[str, Any]:
    """Read a plan.

    Raises:
        NotFoundError: there is none.
        FormatError: it is damaged.
    """
    uri = _uri(place, plan_id)
    found = read_json(open_reader(uri, place.options), "plan.json")
    names = ("rule", "threshold", "digest", "snapshots", "released", "edited", "refs_deleted", "refs")
    if not isinstance(found, dict) or not all(name in found for name in names):
        raise FormatError(f"{uri}/plan.json is not a plan of an expiration")
    return found


def history_of(place: Place, plan_id: str) -> str:
    """Read the history before and after a plan, as text.

    Raises:
        NotFoundError: there is none.
    """
    return open_reader(_uri(place, plan_id), place.options).get("plan.txt").decode(errors="replace")


def _uri(place: Place, plan_id: str) -> str:
    try:
        descending_time(plan_id)
    except FormatError:
        raise NotFoundError("there is no such plan") from None
    if place.kind != ICECHUNK or not place.lease_uri:
        raise NotFoundError("only Icechunk repositories have plans of expirations")
    return f"{place.lease_uri}/{EXPIRATIONS}/{plan_id}"
