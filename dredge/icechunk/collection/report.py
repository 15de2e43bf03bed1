"""The report of a run, whatever became of it: figures by kind, what was freed, warnings, errors."""

from __future__ import annotations

from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection import guards, listing, marking, sweeping, verifying
from dredge.icechunk.collection.overwritten import KIND as OVERWRITTEN
from dredge.icechunk.collection.plan import Context
from dredge.runs.summary import StepSummary

STEP = "report"
REPORT = "report.json"
STEPS = (marking.STEP, listing.STEP, guards.STEP, sweeping.STEP, verifying.STEP)


def save_report(context: Context) -> StepSummary:
    """Write `report.json`, anew each time; also for runs that failed."""
    started = context.clock()
    value = make_report(context)
    context.folder.write_json(REPORT, value)
    summary = StepSummary(
        step=STEP,
        run_id=context.plan.run_id,
        status="success",
        started_at=started,
        finished_at=context.clock(),
        counts={
            "deleted_objects": value["deleted"]["objects"],
            "deleted_bytes": value["deleted"]["bytes"],
            "candidates_objects": value["candidates"]["objects"],
            "candidates_bytes": value["candidates"]["bytes"],
        },
        details={"status": value["status"]},
    )
    context.folder.write_summary(summary)
    return summary


def make_report(context: Context) -> dict[str, Any]:
    """Collect what the steps left."""
    plan = context.plan
    steps: dict[str, Any] = {}
    found: dict[str, StepSummary] = {}
    for name in STEPS:
        summary = context.folder.read_summary(name) or context.folder.read_incomplete(name)
        if summary is not None:
            found[name] = summary
            steps[name] = summary.as_xcom()
        failure = context.folder.read_failure(name)
        if failure is not None and context.folder.read_summary(name) is None:
            steps.setdefault(name, {})["failure"] = failure
    kinds = {kind: _kind(found, kind) for kind in (*listing.KINDS, OVERWRITTEN)}
    return {
        "run_id": plan.run_id,
        "repository": plan.uri,
        "spec_version": plan.spec_version,
        "status": _status(context, found, steps),
        "dry_run": plan.config.dry_run,
        "created_at": plan.created_at.isoformat(),
        "cutoff": plan.cutoff.isoformat(),
        "candidates": _sum(kinds, "candidates"),
        "deleted": _sum(kinds, "deleted"),
        "failed": _sum(kinds, "failed"),
        "kinds": {kind: figures for kind, figures in kinds.items() if figures},
        "findings": _findings(context),
        "warnings": [warning for summary in found.values() for warning in summary.warnings],
        "steps": steps,
    }


def _kind(found: dict[str, StepSummary], kind: str) -> dict[str, int]:
    figures: dict[str, int] = {}
    for step in (listing.STEP, sweeping.STEP):
        counts = found[step].counts if step in found else {}
        figures |= {
            name.removeprefix(f"{kind}_"): value
            for name, value in counts.items()
            if name.startswith(f"{kind}_")
        }
    return figures


def _sum(kinds: dict[str, dict[str, int]], what: str) -> dict[str, int]:
    return {
        unit: sum(figures.get(f"{what}_{unit}", 0) for figures in kinds.values())
        for unit in ("objects", "bytes")
    }


def _status(context: Context, found: dict[str, StepSummary], steps: dict[str, Any]) -> str:
    if any("failure" in step for step in steps.values()):
        swept = found.get(sweeping.STEP)
        return "partial" if swept is not None and swept.counts.get("deleted_objects") else "failed"
    if set(STEPS) - found.keys():
        return "incomplete"
    return "dry_run" if context.plan.config.dry_run else "success"


def _findings(context: Context) -> list[Any]:
    try:
        found: list[Any] = context.folder.read_json(guards.GUARD)["findings"]
    except (NotFoundError, FormatError):
        return []
    return found
