"""Runs of the trash cleaner for lakeFS's key-value store: a row for each run; the findings and removed rows of a run.

runs/<run id>/report.json    written once, at the end; a run without it is unfinished
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.pages.places import Place
from dredge.storage import ObjectReader, open_reader
from dredge.trash.report import headline, outcome_of, page_values, pending_of
from dredge.xid import descending_time

REPORT = "report.json"
PAGE_FINDINGS = 200
UNFINISHED = ("unfinished", "not finished")


@dataclass(frozen=True, slots=True)
class WantedFindings:
    """The selection of findings; "" selects all."""

    prefix: str = ""
    kind: str = ""
    verdict: str = ""

    def fits(self, finding: Mapping[str, Any]) -> bool:
        """Return whether the filter selects a finding."""
        return (
            str(finding["partition"]).startswith(self.prefix)
            and self.kind in ("", finding["kind"])
            and self.verdict in ("", finding["verdict"])
        )


def figures_of(reader: ObjectReader, run_id: str) -> dict[str, Any]:
    """Return the figures of a run's report under the names that a collection's report uses."""
    try:
        found = _read(reader, run_id)
    except NotFoundError:
        started = descending_time(run_id).isoformat()
        return {"started_at": started, "headline": "", "counts": {}, "dry_run": False, **_outcome(UNFINISHED)}
    try:
        removed = {_name(item) for item in found.get("outcomes", ()) if item["rows_deleted"]}
        removed_bytes = sum(item["size_bytes"] for item in found["findings"] if _name(item) in removed)
        rows = found.get("rows_removed", 0)
        return {
            "started_at": found["looked"],
            "headline": headline(found),
            "dry_run": found["status"] in ("scan", "dry_run"),
            "counts": {
                "deletable_objects": found["trash_rows"],
                "deletable_bytes": found["trash_bytes"],
                "pending_objects": pending_of(found)["waiting"]["rows"],
                "pending_bytes": pending_of(found)["waiting"]["size_bytes"],
                "deleted_objects": rows,
                "deleted_bytes": removed_bytes,
            },
            **_outcome(outcome_of(found)),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"the report of run {run_id} cannot be read: {error!r}") from None


def report_of_trash(place: Place, run_id: str) -> dict[str, Any]:
    """Read the report of a run."""
    try:
        return _read(open_reader(place.runs_uri, place.options), run_id)
    except NotFoundError:
        raise NotFoundError(f"run {run_id} has no report: it is running, or was stopped") from None


def trash_page(report: Mapping[str, Any], wanted: WantedFindings, start: int) -> dict[str, Any]:
    """Return the values of the page of a run."""
    values = page_values(report)
    fitting = [item for item in values["findings"] if wanted.fits(item)]
    return values | {
        "findings": fitting[start : start + PAGE_FINDINGS],
        "total": len(fitting),
        "start": start,
        "next": start + PAGE_FINDINGS if start + PAGE_FINDINGS < len(fitting) else None,
        "wanted": wanted,
        "asked": {name: value for name, value in asdict(wanted).items() if value},
        "kinds_found": sorted({str(item["kind"]) for item in report["findings"]}),
        "chart": _ages(report),
    }


def is_run_of(report: Mapping[str, Any], holder: str) -> bool:
    """Return whether a run belongs to a DAG run. `holder`: DAG and run, such as "kv_trash_cleaner manual__2026-01-02";
    each task's lease holder begins with it."""
    return str(report.get("holder", "")).startswith(f"{holder} ")


def _ages(report: Mapping[str, Any]) -> dict[str, Any]:
    bounds = ((1, "under a day"), (7, "under a week"), (30, "under a month"), (365, "under a year"))
    rows = dict.fromkeys([name for _, name in bounds] + ["older", "not known"], 0)
    for item in report["findings"]:
        if item["verdict"] == "trash":
            rows[_band(item["age_seconds"], bounds)] += item["rows"]
    return {"labels": list(rows), "rows": list(rows.values())}


def _band(seconds: float | None, bounds: tuple[tuple[int, str], ...]) -> str:
    if seconds is None:
        return "not known"
    return next((name for days, name in bounds if seconds < days * 86400), "older")


def _read(reader: ObjectReader, run_id: str) -> dict[str, Any]:
    try:
        found = json.loads(reader.get(f"{run_id}/{REPORT}"))
    except ValueError as error:
        raise FormatError(f"the report of run {run_id} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise FormatError(f"the report of run {run_id} is not a JSON object")
    return found


def _outcome(pair: tuple[str, str]) -> dict[str, str]:
    return {"outcome": pair[0], "outcome_text": pair[1]}


def _name(item: Mapping[str, Any]) -> tuple[str, str | None]:
    return item["partition"], item["key"]
