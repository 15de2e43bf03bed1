"""Sections of the report about the repository: costs of objects, effects of other rules.

    analysis.json     written once, at the end of a complete clean run, for the report

No step depends on it: a failure is logged, and the run is complete without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.gc.config import CLEAN
from dredge.gc.insight.base_run import base_of_run, runs_below
from dredge.gc.insight.cost import cost_of
from dredge.gc.insight.what_if import as_now, by_days, curve_of, what_if
from dredge.gc.run import Run
from dredge.runs.failures import foreseen
from dredge.runs.folder import RunFolder
from dredge.runs.payload import to_json
from dredge.runs.rendering import size_text
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

ANALYSIS = "analysis.json"
DAYS = (7, 14, 30, 60, 90)
_ROWS_MAX = 12
_TABLES = (
    ("branches", "branch", "Kept by one branch alone", "Garbage without the branch."),
    ("ages", "age", "In no head, by age of the newest commit with it", ""),
)


def write_analysis(run: Run) -> dict[str, Any] | None:
    """Write the costs of objects and the effects of other rules; an optimized run copies those of a clean run. Returns
    the written object, or None."""
    if not run.plan.config.tuning.report_names_max:
        return None
    try:
        with foreseen(f"the figures in the report of run {run.plan.run_id}", run.folder.uri):
            found = _count(run) if run.plan.mode == CLEAN else _of_earlier(run)
            if found is not None:
                run.folder.write_json(ANALYSIS, found)
            return found
    except DredgeError as error:
        log.warning("run %s: the costs of objects are missing in its report: %s", run.plan.run_id, error)
    return None


def _count(run: Run) -> dict[str, Any] | None:
    base = base_of_run(run)
    if base is None:
        return None
    names, most = base.committed.counts["range_rows"], run.plan.config.tuning.report_names_max
    if names > most:
        text = f"Not counted here: active ranges have {names:,} entries. `dredge gc cost` counts them."
        return {"about": text}
    proposals = as_now(base.rules) + by_days(base.rules, DAYS)
    with at_once() as ask:
        foreseen_read = ask(what_if, base, proposals)
        cost = cost_of(base).tables()
    return {
        "about": f"At the time of this run, {run.plan.created_at:%Y-%m-%d %H:%M} UTC.",
        "cost": cost,
        "foreseen": [to_json(item) for item in foreseen_read.result()],
    }


def _of_earlier(run: Run) -> dict[str, Any] | None:
    root = run.plan.run_uri.rpartition("/")[0]
    for folder, plan in runs_below(root, run.options):
        if plan.repository == run.plan.repository and plan.mode == CLEAN:
            try:
                found: dict[str, Any] = folder.read_json(ANALYSIS)
            except NotFoundError:
                continue
            about = f"At the time of clean run {folder.run_id}, {plan.created_at:%Y-%m-%d}; this run was optimized."
            return {**found, "about": about} if "cost" in found else found
    return None


def sections(folder: RunFolder, analysis: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the sections of a run's report. `analysis`: from `write_analysis`; None reads it."""
    if analysis is None:
        try:
            analysis = folder.read_json(ANALYSIS)
        except (NotFoundError, FormatError):
            return []
    return list(_sections(analysis))


def _sections(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    cost = found.get("cost")
    if cost is None:
        yield {"title": "Costs of objects", "about": found["about"], "columns": [], "rows": []}
        return
    yield {
        "title": "Costs of objects",
        "about": found["about"],
        "columns": ["Kind", "Objects", "Size", "Reason"],
        "rows": [
            [row["kind"], f"{row['objects']:,}", size_text(row["size_bytes"]), row["why"]]
            for row in cost["kinds"]
        ],
        "notes": cost["notes"],
    }
    for name, column, title, about in _TABLES:
        if cost[name]:
            rows = [[row[column], f"{row['objects']:,}", size_text(row["size_bytes"])] for row in cost[name]]
            yield {
                "title": title,
                "about": about,
                "columns": [column.capitalize(), "Objects", "Size"],
                "rows": rows[:_ROWS_MAX],
                "notes": [f"and {len(rows) - _ROWS_MAX:,} more"] if len(rows) > _ROWS_MAX else [],
            }
    foreseen = found["foreseen"]
    yield {
        "title": "Garbage under other rules",
        "about": "Garbage of any kind in a clean run, by days of the default rule.",
        "curve": curve_of(foreseen),
        "columns": ["Rules", "Active commits", "Objects", "Size"],
        "rows": [
            [
                item["proposal"]["name"],
                f"{item['commits']:,}",
                f"{item['bound']} {item['freed']['objects']:,}".lstrip(),
                size_text(item["freed"]["size_bytes"]),
            ]
            for item in foreseen
        ],
        "notes": list(
            dict.fromkeys(f"{item['bound']}: {item['unknown']}" for item in foreseen if item["unknown"])
        ),
    }
