"""The report of a run, whatever became of it: `report.json` for machines, `report.html` for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dredge.icechunk.collection import guards, listing, marking, sweeping, verifying
from dredge.icechunk.collection.overwritten import KIND as OVERWRITTEN
from dredge.icechunk.collection.plan import Context
from dredge.runs.report import render_html, size_text
from dredge.runs.summary import StepSummary

STEP = "report"
REPORT, PAGE = "report.json", "report.html"
STEPS = (marking.STEP, listing.STEP, guards.STEP, sweeping.STEP, verifying.STEP)
KINDS = (*listing.KINDS, OVERWRITTEN)
OUTCOMES = {
    "success": "done",
    "dry_run": "dry run: nothing was deleted",
    "awaiting_approval": "awaiting approval: nothing was deleted",
    "refused": "refused by a guard: nothing was deleted",
    "partial": "not everything was deleted",
    "failed": "failed: nothing was deleted",
    "unfinished": "not finished",
}
_WAITING = ("awaiting_approval", "refused")
_NAMES = {
    "snapshots": "snapshots",
    "transactions": "transaction logs",
    "manifests": "manifests",
    "chunks": "chunks",
    OVERWRITTEN: "old repo infos",
}


def save_report(context: Context) -> StepSummary:
    """Write the report, anew each time; also for runs that failed."""
    started = context.clock()
    value = make_report(context)
    context.folder.write_json(REPORT, value)
    context.folder.writer.put(PAGE, render_html(value).encode())
    summary = StepSummary(
        step=STEP,
        run_id=context.plan.run_id,
        status="success",
        started_at=started,
        finished_at=context.clock(),
        counts={
            f"{what}_{unit}": value[what][unit]
            for what in ("candidates", "deleted", "failed")
            for unit in ("objects", "bytes")
        },
        details={"outcome": value["outcome"], "page": f"{context.folder.uri}/{PAGE}"},
    )
    context.folder.write_summary(summary)
    return summary


def make_report(context: Context) -> dict[str, Any]:
    """Put a report together from what the steps left."""
    plan = context.plan
    found: dict[str, StepSummary] = {}
    failures: dict[str, dict[str, Any]] = {}
    for name in STEPS:
        done = context.folder.read_summary(name)
        failure = context.folder.standing_failure(name, done)
        summary = done or context.folder.read_incomplete(name)
        if summary is not None:
            found[name] = summary
        if failure is not None:
            failures[name] = failure
    kinds = {kind: _kind(found, kind) for kind in KINDS}
    outcome = _outcome(context, found, failures)
    totals = {what: _sum(kinds, what) for what in ("candidates", "deleted", "failed", "kept")}
    return {
        "format": 1,
        "title": f"Collection of {plan.uri}",
        "run_id": plan.run_id,
        "repository": plan.uri,
        "spec_version": plan.spec_version,
        "started_at": plan.created_at.isoformat(),
        "cutoff": plan.cutoff.isoformat(),
        "dry_run": plan.config.dry_run,
        "outcome": outcome,
        "outcome_text": OUTCOMES[outcome],
        "headline": _headline(outcome, totals, plan.config.after is not None),
        "what_to_do": _what_to_do(outcome, failures),
        "facts": _facts(context, found),
        **totals,
        "kinds": {kind: figures for kind, figures in kinds.items() if figures},
        "rows": [row for kind in KINDS for row in _rows(kind, kinds[kind], plan.config.dry_run)],
        "problems": [f"{name}: {failure['message']}" for name, failure in failures.items()],
        "failures": found[sweeping.STEP].details.get("failures", []) if sweeping.STEP in found else [],
        "warnings": [warning for summary in found.values() for warning in summary.warnings],
        "findings": found[guards.STEP].details.get("findings", []) if guards.STEP in found else [],
        "steps": [_step(name, found.get(name), failures.get(name)) for name in STEPS],
    }


def _kind(found: dict[str, StepSummary], kind: str) -> dict[str, int]:
    figures: dict[str, int] = {}
    for step in (listing.STEP, sweeping.STEP):
        counts = found[step].counts if step in found else {}
        start = f"{kind}_"
        figures |= {
            name.removeprefix(start): value for name, value in counts.items() if name.startswith(start)
        }
    return figures


def _sum(kinds: dict[str, dict[str, int]], what: str) -> dict[str, int]:
    return {
        unit: sum(figures.get(f"{what}_{unit}", 0) for figures in kinds.values())
        for unit in ("objects", "bytes")
    }


def _outcome(context: Context, found: dict[str, StepSummary], failures: dict[str, Any]) -> str:
    swept = found.get(sweeping.STEP)
    if swept is not None and swept.status == "partial":
        return "partial"
    if guards.STEP in found and found[guards.STEP].status in _WAITING:
        return found[guards.STEP].status
    if failures:
        return "partial" if swept is not None and swept.counts.get("deleted_objects") else "failed"
    if set(STEPS) - found.keys():
        return "unfinished"
    return "dry_run" if context.plan.config.dry_run else "success"


def _headline(outcome: str, totals: dict[str, dict[str, int]], is_preview: bool) -> str:
    if outcome in ("success", "partial"):
        gone = totals["deleted"]
        text = f"{gone['objects']:,} objects were deleted, {size_text(gone['bytes'])} freed."
        failed = totals["failed"]["objects"]
        return text + (f" {failed:,} could not be deleted." if failed else "")
    would = totals["candidates"]
    when = "After the planned expiration, " if is_preview else ""
    return f"{when}{would['objects']:,} objects may be deleted, which would free {size_text(would['bytes'])}."


def _what_to_do(outcome: str, failures: dict[str, Any]) -> str:
    if outcome in _WAITING:
        return "Read the guards below. Those that did not pass say why, and a limit can be raised if you want this."
    if outcome == "partial":
        return "Run the sweep again: it goes on where it stopped."
    return "Read what went wrong below; then start a new run." if failures else ""


def _facts(context: Context, found: dict[str, StepSummary]) -> list[tuple[str, str]]:
    plan = context.plan
    mark = found[marking.STEP].counts if marking.STEP in found else {}
    facts = [
        ("Repository", plan.uri),
        ("Spec version", str(plan.spec_version)),
        ("Run", plan.run_id),
        ("Planned", f"{plan.created_at:%Y-%m-%d %H:%M:%S} UTC, by the store's clock"),
        ("Cutoff", f"{plan.cutoff:%Y-%m-%d %H:%M:%S} UTC"),
    ]
    if plan.config.after is not None:
        after = plan.config.after
        facts.append(
            ("As after", f"an expiration of what is older than {after.threshold}, planned, not applied")
        )
    if mark:
        facts.append(
            (
                "Live",
                f"{mark['live_snapshots']:,} snapshots, {mark['live_manifests']:,} manifests with"
                f" {mark['live_references']:,} chunk references; {mark['manifests_read']:,} read anew",
            )
        )
    return facts


def _rows(kind: str, figures: dict[str, int], dry_run: bool) -> Iterator[dict[str, Any]]:
    def row(verdict: str, why: str, objects: int, size_bytes: int | None) -> dict[str, Any]:
        return {
            "kind": _NAMES[kind],
            "verdict": verdict,
            "why": why,
            "objects": objects,
            "size_bytes": size_bytes,
        }

    if not figures:
        return
    spared = figures.get("spared_objects", 0)
    candidates, young = figures.get("candidates_objects", 0), figures.get("young_objects", 0)
    foreign = figures.get("foreign", 0)
    live = figures.get("listed_objects", 0) - candidates - young - foreign - spared
    if live:
        sizes = [figures.get(f"{what}_bytes", 0) for what in ("listed", "candidates", "young", "spared")]
        size_bytes = None if foreign or "listed_bytes" not in figures else sizes[0] - sum(sizes[1:])
        yield row("kept", "needed", live, size_bytes)
    if young:
        yield row("kept", "younger than the cutoff", young, figures["young_bytes"])
    if spared:
        yield row(
            "kept",
            "nothing reaches it, but none of its kind is to be deleted",
            spared,
            figures["spared_bytes"],
        )
    if foreign:
        yield row("kept", "not a name that Icechunk gives", foreign, None)
    verdict = "would be deleted" if dry_run else "candidate"
    swept = {name: figures.get(f"{name}_objects", 0) for name in ("deleted", "missing", "failed", "kept")}
    if candidates and not any(swept.values()):
        yield row(verdict, "nothing reaches it", candidates, figures["candidates_bytes"])
    whys = {
        "deleted": "nothing reached it",
        "missing": "was gone already",
        "failed": "could not be deleted",
        "kept": "came into use meanwhile",
    }
    for name, why in whys.items():
        if swept[name]:
            yield row(name, why, swept[name], figures[f"{name}_bytes"])


def _step(name: str, summary: StepSummary | None, failure: dict[str, Any] | None) -> dict[str, Any]:
    status = summary.status if summary is not None else "failed" if failure is not None else "not done"
    counts = dict(summary.counts) if summary is not None else {}
    shown = {label: value for label, value in counts.items() if value}
    return {
        "step": name,
        "status": "failed" if failure is not None and status == "success" else status,
        "seconds": round(summary.seconds, 1) if summary is not None else "",
        "figures": ", ".join(f"{label.replace('_', ' ')} {value:,}" for label, value in shown.items()),
        "counts": counts,
    }
