"""Sections of the report about the whole repository: what objects cost, what other rules would free, what was expected.

    analysis.json     written once at the end of a complete clean run; the report is made from it
    forecast.json     written with the plan; see `dredge.gc.insight.run_cost`

They explain, and nothing depends on them: a run whose figures cannot be counted is none the worse.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.gc.config import CLEAN
from dredge.gc.insight.base_run import base_of_run, runs_below
from dredge.gc.insight.cost import cost_of
from dredge.gc.insight.proposals import as_now, by_days, curve_of
from dredge.gc.insight.run_cost import FORECAST, compare_rows
from dredge.gc.insight.what_if import what_if
from dredge.gc.run import Run
from dredge.gc.save_report.results import RunResults
from dredge.runs.failures import foreseen
from dredge.runs.folder import RunFolder
from dredge.runs.payload import to_json
from dredge.runs.rendering import size_text
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

ANALYSIS = "analysis.json"
DAYS = (7, 14, 30, 60, 90)
_ROWS_MAX = 12


def write_analysis(run: Run) -> None:
    """Count what objects cost and what other rules would free; an optimized run takes the figures of a clean one."""
    if not run.plan.config.tuning.report_names_max:
        return
    try:
        with foreseen(f"the figures in the report of run {run.plan.run_id}", run.folder.uri):
            found = _count(run) if run.plan.mode == CLEAN else _of_earlier(run)
            if found is not None:
                run.folder.write_json(ANALYSIS, found)
    except DredgeError as error:
        log.warning("run %s: what objects cost is not in its report: %s", run.plan.run_id, error)


def _count(run: Run) -> dict[str, Any] | None:
    base = base_of_run(run)
    if base is None:
        return None
    names, most = base.committed.counts["range_rows"], run.plan.config.tuning.report_names_max
    if names > most:
        text = f"Not counted here: active ranges have {names:,} entries. `dredge gc cost` counts them."
        return {"about": text}
    proposals = as_now(base.rules) + by_days(base.rules, DAYS)
    return {
        "about": f"As this run saw it at {run.plan.created_at:%Y-%m-%d %H:%M} UTC.",
        "cost": cost_of(base).tables(),
        "foreseen": [to_json(item) for item in what_if(base, proposals)],
    }


def _of_earlier(run: Run) -> dict[str, Any] | None:
    """The figures of the newest clean run before."""
    root = run.plan.run_uri.rpartition("/")[0]
    for folder, plan in runs_below(root, run.options):
        if plan.repository == run.plan.repository and plan.mode == CLEAN:
            try:
                found: dict[str, Any] = folder.read_json(ANALYSIS)
            except NotFoundError:
                continue
            about = f"As clean run {folder.run_id} saw it on {plan.created_at:%Y-%m-%d}: this run read what changed."
            return {**found, "about": about} if "cost" in found else found
    return None


def sections(folder: RunFolder, results: RunResults) -> list[dict[str, Any]]:
    """The sections of a run's report.

    Args:
        folder: the run folder.
        results: of the steps.
    """
    with at_once() as ask:
        forecast_read = ask(_read, folder, FORECAST)
        found = _read(folder, ANALYSIS)
    forecast = forecast_read.result()
    made = [] if found is None else list(_sections(found))
    if forecast is not None:
        made.append(
            {
                "title": "Expected and done",
                "about": forecast["about"],
                "columns": ["", "Expected", "Done"],
                "rows": compare_rows(forecast, results.summaries),
            }
        )
    return made


def _read(folder: RunFolder, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = folder.read_json(name)
    except (NotFoundError, FormatError):
        return None
    return found


def _sections(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    cost = found.get("cost")
    if cost is None:
        yield {"title": "What objects cost", "about": found["about"], "columns": [], "rows": []}
        return
    yield {
        "title": "What objects cost",
        "about": found["about"],
        "columns": ["Kind", "Objects", "Size", "Why"],
        "rows": [
            [row["kind"], f"{row['objects']:,}", size_text(row["size_bytes"]), row["why"]]
            for row in cost["kinds"]
        ],
        "notes": cost["notes"],
    }
    titles = (
        ("branches", "branch", "Kept by one branch alone", "It would go with the branch."),
        ("ages", "age", "In no head, by age of the newest commit that keeps it", ""),
        ("prefixes", "prefix", "Live objects by prefix", ""),
    )
    for name, column, title, about in titles:
        if cost[name]:
            rows = [
                [row[column] or "(root)", f"{row['objects']:,}", size_text(row["size_bytes"])]
                for row in cost[name]
            ]
            more = [f"and {len(rows) - _ROWS_MAX:,} more"] if len(rows) > _ROWS_MAX else []
            yield {
                "title": title,
                "about": about,
                "columns": [column.capitalize(), "Objects", "Size"],
                "rows": rows[:_ROWS_MAX],
                "notes": more,
            }
    yield _foreseen(found["foreseen"])


def _foreseen(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": "What other rules would free",
        "about": "Garbage that a clean run under rules of so many days by default would find, of any kind.",
        "curve": curve_of(found),
        "columns": ["Rules", "Active commits", "Objects", "Size"],
        "rows": [
            [
                item["proposal"]["name"],
                f"{item['commits']:,}",
                f"{item['bound']} {item['freed']['objects']:,}".lstrip(),
                size_text(item["freed"]["size_bytes"]),
            ]
            for item in found
        ],
        "notes": list(
            dict.fromkeys(f"{item['bound']}: {item['unknown']}" for item in found if item["unknown"])
        ),
    }
