"""The runs of a place, the report of a run, and its progress.

A successful run never changes any more, so its report is kept in memory; other reports are read again.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.gc.config import CLEAN
from dredge.gc.run import PLAN
from dredge.gc.save_report.step import read_report
from dredge.icechunk.collection.run import Run as IcechunkRun
from dredge.icechunk.collection.save_report import build_report
from dredge.pages.places import KV, LAKEFS, Place
from dredge.pages.trash import figures_of, is_run_of, report_of_trash
from dredge.runs.folder import RunFolder, read_json, run_ids
from dredge.runs.lease import LEASE
from dredge.runs.tasks import read_progress
from dredge.storage import ObjectReader, open_reader, open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

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
    """A run in a list.

    Attributes:
        outcome: from the report; "other tool" for a folder of another collector, "damaged" for an unreadable one.
        found: deletable objects and bytes.
        held: objects and bytes.
        pending: objects and bytes in the pending list.
        live: live objects and bytes; None after a partial listing.
    """

    run_id: str
    started_at: datetime
    outcome: str
    text: str
    headline: str = ""
    deleted: tuple[int, int] = (0, 0)
    found: tuple[int, int] = (0, 0)
    held: tuple[int, int] = (0, 0)
    pending: tuple[int, int] = (0, 0)
    dry_run: bool = False
    live: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The holder of a repository's lease ("" for a free lease), and its expiry."""

    holder: str
    expires_at: datetime


def runs_of(place: Place, limit: int = RUNS_SHOWN) -> list[RunRow]:
    """List the runs of a place, newest first."""
    reader = open_reader(place.runs_uri, place.options)
    rows = ordered_map(lambda run_id: _row(place, reader, run_id), run_ids(reader)[:limit], _AT_ONCE)
    return [row for row in rows if row is not None]


def report_of(place: Place, run_id: str) -> dict[str, Any]:
    """The report of a run at present."""
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
    """URI of a run's folder."""
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
    """Read the lease of a place; None for a free lease, or an unknown location."""
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
    """The progress of an unfinished run; "" when unknown."""
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
