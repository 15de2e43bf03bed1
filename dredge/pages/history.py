"""The runs of a place, the report of a run, and its progress; totals of places for the overview and the page of a
repository; the mode of the next run; plans of Icechunk expirations.

A successful run never changes any more, so its report is kept in memory; other reports are read again.

Plans of expirations:

    <namespace>/_dredge/expirations/<id>/plan.json · plan.txt
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dredge.errors import DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.config import CLEAN, GCConfig
from dredge.gc.index.store import PARTS
from dredge.gc.run import PLAN
from dredge.gc.save_report.step import read_report
from dredge.gc.state import RunState, StateStore
from dredge.icechunk.collection.run import Run as IcechunkRun
from dredge.icechunk.collection.save_report import build_report
from dredge.icechunk.maintenance import EXPIRATIONS
from dredge.pages.places import ICECHUNK, KV, LAKEFS, Place
from dredge.pages.trash import figures_of, is_run_of, report_of_trash
from dredge.runs.folder import RunFolder, read_json, run_ids
from dredge.runs.lease import LEASE
from dredge.runs.report import size_text
from dredge.runs.tasks import read_progress
from dredge.runs.versions import Current, choose_mode
from dredge.storage import ObjectReader, open_reader, open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

RECENT = timedelta(days=30)
# The outcome text of an unfinished run with the lease.
AT_WORK = "running"
CHART_DAYS = 30


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a place."""

    place: Place
    runs: list[RunRow] = field(default_factory=list)
    lease: LeaseState | None = None  # of the repository; None for a free lease
    error: str = ""  # of reading the place; "" without an error

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
        """Objects and bytes deleted by the runs."""
        counted = [run.deleted for run in self.runs if since is None or run.started_at >= since]
        return sum(pair[0] for pair in counted), sum(pair[1] for pair in counted)


def standing(place: Place, limit: int = 200) -> Standing:
    """Read the state of a place. An error becomes part of the state, so that the overview still shows other places."""
    try:
        runs, lease = runs_of(place, limit), lease_of(place)
        if lease is not None and runs and runs[0].outcome == "unfinished":
            runs[0] = replace(runs[0], text=AT_WORK)
        return Standing(place, runs, lease)
    except DredgeError as error:
        return Standing(place, error=str(error))


def by_day(runs: Iterable[RunRow], now: datetime, days: int = CHART_DAYS) -> list[tuple[str, int]]:
    """Return the deleted bytes by day, oldest first, including days without deletions."""
    sums: dict[str, int] = defaultdict(int)
    for run in runs:
        sums[f"{run.started_at.astimezone(UTC):%Y-%m-%d}"] += run.deleted[1]
    names = [f"{now - timedelta(days=back):%Y-%m-%d}" for back in reversed(range(days))]
    return [(name, sums[name]) for name in names]


def run_bars(runs: Sequence[RunRow], most: int = 60) -> dict[str, list[object]]:
    """Return the values of the chart of a repository's runs: bytes deleted, held and only found, oldest first."""
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
    """An interval of the time line."""

    left: float  # its start, in percent of the line
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Keeping:
    """The state left for the next run."""

    mode: str
    why: str
    facts: list[tuple[str, str]]
    covered: list[Piece]  # intervals of slices without a need for listing
    begins: datetime
    ends: datetime


def keeping_of(place: Place, now: datetime, settings: Mapping[str, Any] | None = None) -> Keeping | None:
    """Read the state left by the last complete run. `settings`: of the next run, if known; else the defaults. Returns
    None if the state is unknown: for other kinds, or a place of which only runs are known."""
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
    """Return the covered intervals of a time line."""
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
    """An expiration plan in a list."""

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
        raise NotFoundError("only Icechunk repositories have expiration plans")
    return f"{place.lease_uri}/{EXPIRATIONS}/{plan_id}"


REPORT = "report.json"
# Outcomes of runs with a final folder.
ENDED = ("success", "dry_run")
RUNS_SHOWN = 200
_NAMES = ("repository", "started_at", "outcome", "outcome_text", "headline", "dry_run", "counts", "live")
_KEPT_MAX = 2000
_AT_ONCE = 16

_kept: OrderedDict[str, dict[str, Any]] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list."""

    run_id: str
    started_at: datetime
    # from the report; "other tool" for a folder of another collector, "damaged" for an unreadable one
    outcome: str
    text: str
    headline: str = ""
    deleted: tuple[int, int] = (0, 0)
    found: tuple[int, int] = (0, 0)  # deletable objects and bytes
    held: tuple[int, int] = (0, 0)  # objects and bytes
    pending: tuple[int, int] = (0, 0)  # objects and bytes in the pending list
    dry_run: bool = False
    live: tuple[int, int] | None = None  # live objects and bytes; None after a partial listing


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The holder of a repository's lease ("" if it is free), and the lease's expiry."""

    holder: str
    expires_at: datetime


def runs_of(place: Place, limit: int = RUNS_SHOWN) -> list[RunRow]:
    """List the runs of a place, newest first."""
    reader = open_reader(place.runs_uri, place.options)
    rows = ordered_map(lambda run_id: _row(place, reader, run_id), run_ids(reader)[:limit], _AT_ONCE)
    return [row for row in rows if row is not None]


def report_of(place: Place, run_id: str) -> dict[str, Any]:
    """Return the report of a run in its present state."""
    run_uri = uri_of(place, run_id)
    if place.kind == LAKEFS:
        return read_report(run_uri, place.options)
    if place.kind == KV:
        return report_of_trash(place, run_id)
    return build_report(IcechunkRun.open(run_uri, place.options))


def _figures(place: Place, reader: ObjectReader, run_id: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(reader.get(f"{run_id}/{REPORT}"))
        if place.kind != LAKEFS:
            found = as_lakefs_report(found)
    except (NotFoundError, ValueError):
        found = {"outcome": ""}
    if found["outcome"] not in ENDED:
        reader.stat(f"{run_id}/{PLAN}")  # a folder without a plan is not ours
        return report_of(place, run_id)
    return {**found, "live": _live(found)}


def _live(report: Mapping[str, Any]) -> tuple[int, int] | None:
    if report.get("mode") != CLEAN:
        return None
    return next((_pair(row) for row in report["rows"] if row["kind"] == "live"), None)


def _pair(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["objects"], row["size_bytes"] or 0


def plan_of(place: Place, run_id: str) -> dict[str, Any]:
    """Read the plan of a run."""
    value: dict[str, Any] = read_json(open_reader(uri_of(place, run_id), place.options), PLAN)
    return value


def uri_of(place: Place, run_id: str) -> str:
    """Return the URI of a run's folder."""
    try:
        descending_time(run_id)
    except FormatError:
        raise NotFoundError("there is no such run") from None
    return f"{place.runs_uri}/{run_id}"


def run_of_holder(place: Place, holder: str, limit: int = RUNS_SHOWN) -> str | None:
    """Find the newest run of a lease holder, such as "lakefs_gc manual__2026-01-02"; None without a run."""
    reader = open_reader(place.runs_uri, place.options)
    for run_id in run_ids(reader)[:limit]:
        try:
            if place.kind == KV:
                if is_run_of(read_json(reader, f"{run_id}/{REPORT}"), holder):
                    return run_id
            elif read_json(reader, f"{run_id}/{PLAN}")["lease"]["holder"] == holder:
                return run_id
        except (DredgeError, KeyError, TypeError):
            continue
    return None


def lease_of(place: Place) -> LeaseState | None:
    """Read the lease of a place; None if it is free or its location is unknown."""
    if not place.lease_uri:
        return None
    try:
        value = read_json(open_reader(place.lease_uri, place.options), LEASE)
        found = LeaseState(value["holder"], datetime.fromisoformat(value["expires_at"]))
    except NotFoundError:
        return None
    except (KeyError, TypeError, ValueError):
        return LeaseState("damaged lease.json", descending_time("0" * 20))
    return found if found.holder else None


def as_lakefs_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the figures of an Icechunk report to those of a lakeFS report."""
    counts = {
        f"{name}_{unit}": report[what].get(unit, 0)
        for what, name in (("candidates", "deletable"), ("deleted", "deleted"), ("failed", "failed"))
        for unit in ("objects", "bytes")
        if what in report
    }
    return {**report, "counts": {**report["counts"], **counts}}


def _row(place: Place, reader: ObjectReader, run_id: str) -> RunRow | None:
    try:
        found = _report(place, reader, run_id)
    except NotFoundError:
        return RunRow(run_id, descending_time(run_id), "other tool", "other collector")
    except (DredgeError, KeyError, TypeError, ValueError) as error:
        return RunRow(run_id, descending_time(run_id), "damaged", "unreadable", str(error))
    if place.repository and found.get("repository") != place.repository:
        return None
    counts = found["counts"]

    def pair(name: str) -> tuple[int, int]:
        return counts.get(f"{name}_objects") or 0, counts.get(f"{name}_bytes") or 0

    return RunRow(
        run_id=run_id,
        started_at=datetime.fromisoformat(found["started_at"]),
        outcome=found["outcome"],
        text=found["outcome_text"],
        headline=found["headline"],
        deleted=pair("deleted"),
        found=pair("deletable"),
        held=pair("held"),
        pending=pair("pending"),
        dry_run=bool(found["dry_run"]),
        live=found.get("live"),
    )


def _report(place: Place, reader: ObjectReader, run_id: str) -> dict[str, Any]:
    """The report of a run: the written one of a successful run, else the present one."""
    uri = uri_of(place, run_id)
    with _lock:
        if uri in _kept:
            _kept.move_to_end(uri)
            return _kept[uri]
    found = figures_of(reader, run_id) if place.kind == KV else _figures(place, reader, run_id)
    if found["outcome"] not in ENDED:
        return found
    kept = {name: found[name] for name in _NAMES if name in found}
    with _lock:
        _kept[uri] = kept
        while len(_kept) > _KEPT_MAX:
            _kept.popitem(last=False)
    return kept


def progress_of(place: Place, run_id: str, report: Mapping[str, Any]) -> str:
    """Return the progress of an unfinished run; "" if unknown."""
    step = next((item["step"] for item in report["steps"] if item["status"] == "not done"), None)
    if report["outcome"] != "unfinished" or step is None:
        return ""
    folder = RunFolder(open_writer(uri_of(place, run_id), place.options), run_id)
    found = read_progress(folder, step)
    words = [f"{step} is running or next."]
    if found is not None:
        at = datetime.fromisoformat(found["at"])
        words = [f"{found['text']} (at {at:%H:%M:%S} UTC)."]
    return " ".join(words)
