"""The report of a run, and its question to an approver, from the results of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from dredge.approve.records import Asked, approval_inputs
from dredge.approve.step import EXAMPLES_MAX, Question, approval_text, first_lines, kinds, word_question
from dredge.approve.step import what_to_do as about_approval
from dredge.errors import DredgeError, FormatError
from dredge.icechunk.collection.kinds import FOLDERS, NAMES
from dredge.icechunk.collection.outputs import (
    ApproveOutput,
    BulkDeleteOutput,
    CheckLimitsOutput,
    ListCandidatesOutput,
    MarkOutput,
    VerifyOutput,
)
from dredge.icechunk.collection.run import Run
from dredge.runs.payload import to_json
from dredge.runs.pending.rows import describe_waiting, list_waiting_facts
from dredge.runs.report import OUTCOMES, ReportRow, RunResults, duration_text, size_text
from dredge.runs.summary import StepOutput
from dredge.runs.versions import OPTIMIZED
from dredge.undo.ways import WORDS

_BEFORE: tuple[type[StepOutput], ...] = (MarkOutput, ListCandidatesOutput, CheckLimitsOutput)
_AFTER: tuple[type[StepOutput], ...] = (BulkDeleteOutput, VerifyOutput)
"""Steps before and after an approval."""
_STOPPED = ("awaiting_approval", "rejected", "refused", "alarm")

type Totals = dict[str, dict[str, int]]
type Row = tuple[str, str, int, int | None]

UNSEEN = "chunks without a manifest, from sessions without a commit or from failed commits"
_KEPT = {
    "pinned": "restored and kept for now, or part of it is a virtual chunk",
    "spared": "unreachable; this run keeps all of its kind",
    "young": "younger than the cutoff",
    "waiting": "unreachable; waits for another run",
}
"""Figures of unreachable objects that stay."""
_SWEPT = {
    "deleted": "unreachable",
    "missing": "did not exist any more",
    "failed": "could not be deleted",
    "kept": "became live, was restored or rewritten meanwhile, is held by the store or not copied",
}


def build_report(run: Run) -> dict[str, Any]:
    """Make `report.json` from the results of a run."""
    plan, left = run.plan, RunResults.read(run.folder, _outputs(run), run.plan.dry_run)
    asked = left.of(ApproveOutput)
    guards, swept = left.of(CheckLimitsOutput), left.of(BulkDeleteOutput)
    listed = left.of(ListCandidatesOutput)
    kinds = {kind: _figures(left, kind) for kind in FOLDERS}
    outcome = left.outcome
    totals = {what: _sum(kinds, what) for what in ("candidates", "deleted", "failed", "kept")}
    pending = {} if listed is None else listed.pending
    mark = left.of(MarkOutput)
    young = 0 if mark is None else mark.counts["young_snapshots"]
    return {
        **left.to_details(),
        "format": 1,
        "title": f"Collection of {plan.uri}",
        "run_id": plan.run_id,
        "repository": plan.uri,
        "spec_version": plan.spec_version,
        "mode": plan.mode,
        "why_mode": plan.why_mode,
        "drift": None if listed is None else listed.drift,
        "started_at": plan.created_at.isoformat(),
        "cutoff": plan.cutoff.isoformat(),
        "dry_run": plan.dry_run,
        "approval": None if asked is None else asked.approval,
        "outcome": outcome,
        "outcome_text": OUTCOMES[outcome],
        "headline": " ".join(
            filter(
                None, (_headline(outcome, totals, plan.config.after is not None), describe_waiting(pending))
            )
        ),
        "what_to_do": _what_to_do(outcome, left.failed is not None),
        "facts": [*_facts(run, left), *list_waiting_facts(pending), *_mode(run, listed)],
        **totals,
        "pending": pending,
        "counts": {
            f"{name}_{unit}": figure
            for name, figures in (
                ("deletable", totals["candidates"]),
                ("deleted", totals["deleted"]),
                ("failed", totals["failed"]),
                ("pending", pending.get("waiting", {})),
            )
            for unit, figure in figures.items()
        },
        "kinds": {kind: figures for kind, figures in kinds.items() if figures},
        "rows": [
            to_json(ReportRow(NAMES[kind], *row))
            for kind, figures in kinds.items()
            for row in _rows(
                figures,
                plan.config.dry_run,
                young if kind == "snapshots" else 0,
                pending.get("by_kind", {}).get(kind),
            )
        ],
        "failures": [] if swept is None else swept.failures,
        "findings": [] if guards is None else guards.findings,
    }


def _outputs(run: Run) -> tuple[type[StepOutput], ...]:
    try:
        return (*_BEFORE, *approval_inputs(run.plan, run.folder, ApproveOutput), *_AFTER)
    except FormatError:  # the guards' results are damaged; the report shows that as their failure
        return (*_BEFORE, *_AFTER)


def _figures(left: RunResults, kind: str) -> dict[str, int]:
    start = f"{kind}_"
    return {
        name.removeprefix(start): value
        for output in (left.of(ListCandidatesOutput), left.of(BulkDeleteOutput))
        if output is not None
        for name, value in output.counts.items()
        if name.startswith(start)
    }


def _sum(kinds: Mapping[str, Mapping[str, int]], what: str) -> dict[str, int]:
    return {
        unit: sum(figures.get(f"{what}_{unit}", 0) for figures in kinds.values())
        for unit in ("objects", "bytes")
    }


def _headline(outcome: str, totals: Totals, is_preview: bool) -> str:
    if outcome in ("success", "partial") or totals["deleted"]["objects"]:
        gone = totals["deleted"]
        text = f"{gone['objects']:,} objects were deleted, {size_text(gone['bytes'])} freed."
        failed = totals["failed"]["objects"]
        return text + (f" {failed:,} could not be deleted." if failed else "")
    would = totals["candidates"]
    when = "After the planned expiration, " if is_preview else ""
    return f"{when}{would['objects']:,} objects may be deleted, which would free {size_text(would['bytes'])}."


def _what_to_do(outcome: str, has_failures: bool) -> str:
    if text := about_approval(outcome, ApproveOutput.COMMAND):
        return text
    if outcome in _STOPPED:
        return (
            "Read the reasons of the failed guards below. A limit can be raised if you want these deletions."
        )
    if outcome == "partial":
        return "Run the sweep again: it continues where it stopped."
    return "Read the errors below; then start a new run." if has_failures else ""


def _facts(run: Run, left: RunResults) -> list[tuple[str, str]]:
    plan, mark, asked = run.plan, left.of(MarkOutput), left.of(ApproveOutput)
    facts = [
        ("Repository", plan.uri),
        ("Spec version", str(plan.spec_version)),
        ("Run", plan.run_id),
        ("Planned", f"{plan.created_at:%Y-%m-%d %H:%M:%S} UTC, by the store's clock"),
        ("Cutoff", f"{plan.cutoff:%Y-%m-%d %H:%M:%S} UTC"),
    ]
    if asked is not None:
        facts.append(("Approval", approval_text(asked.approval)))
    if not plan.config.dry_run:
        facts.append(("Undo", f"{plan.undo.way}: {WORDS[plan.undo.way]} ({plan.undo.why})"))
    if plan.config.after is not None:
        older = plan.config.after.threshold
        released = 0 if mark is None else mark.counts.get("planned_released_snapshots", 0)
        text = f"{released:,} snapshots older than {older} leave the history; planned, not applied"
        facts.append(("Expiration", text))
    if mark is not None:
        counts = mark.counts
        facts.append(
            (
                "Live",
                f"{counts['live_snapshots']:,} snapshots, {counts['live_manifests']:,} manifests with"
                f" {counts['live_references']:,} chunk references; {counts['manifests_read']:,} manifests read",
            )
        )
        if mark.young_until is not None:
            facts.append(
                (
                    "Released, still young",
                    f"{counts['young_snapshots']:,} unneeded snapshots, with the objects that only they need. The last"
                    f" one reaches the minimum age at {mark.young_until:%Y-%m-%d %H:%M} UTC, and then waits"
                    f" {duration_text(plan.grace)}. `dredge icechunk plan --estimate` shows their bytes",
                )
            )
    return facts


def _mode(run: Run, listed: ListCandidatesOutput | None) -> list[tuple[str, str]]:
    plan = run.plan
    facts = [("Mode", f"{plan.mode}: {plan.why_mode}" if plan.why_mode else plan.mode)]
    if plan.mode == OPTIMIZED:
        facts.append(("Not searched", f"{UNSEEN}. Only a clean run finds them{_last_clean(run)}"))
    if plan.inventory is not None:
        begun = plan.inventory.created_at
        when = "of an unknown time" if begun is None else f"begun {begun:%Y-%m-%d %H:%M} UTC"
        facts.append(
            ("Chunks from", f"{plan.inventory.uri}, {when}; younger chunks wait for the next clean run")
        )
    drift = None if listed is None else listed.drift
    if drift is not None:
        text = f"nothing, in {drift['runs']:,} optimized runs"
        if drift["objects"]:
            text = (
                f"{drift['objects']:,} chunks, {size_text(drift['bytes'])}, such as {drift['samples'][0]}: in no"
                " manifest of the store, and in none that an optimized run has counted"
            )
        facts.append(("Missed by optimized runs", text))
    return facts


def _last_clean(run: Run) -> str:
    try:
        if run.base is None:
            return ""
        state = run.base.state
    except DredgeError:
        return ""
    age = duration_text(run.plan.created_at - state.clean_at)
    return f"; the last one was {age} before this run ({state.clean_run_id})"


def _rows(
    figures: Mapping[str, int],
    dry_run: bool,
    released: int = 0,
    waits: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    if not figures:
        return
    yield from _kept(figures, released, "" if waits is None else _when(waits))
    candidates = figures.get("candidates_objects", 0)
    swept = {outcome: figures.get(f"{outcome}_objects", 0) for outcome in _SWEPT}
    if candidates and not any(swept.values()):
        verdict = "would be deleted" if dry_run else "candidate"
        yield (verdict, "unreachable", candidates, figures["candidates_bytes"])
    for outcome, why in _SWEPT.items():
        if swept[outcome]:
            yield (outcome, why, swept[outcome], figures[f"{outcome}_bytes"])


def _when(waits: Mapping[str, Any]) -> str:
    first, last = (datetime.fromisoformat(waits[f"{which}_deletion"]) for which in ("first", "last"))
    until = "" if first == last else f", the last from {last:%Y-%m-%d %H:%M} on"
    return f": a run may delete the first from {first:%Y-%m-%d %H:%M} UTC on{until}"


def _kept(figures: Mapping[str, int], released: int, when: str) -> Iterator[Row]:
    shown = ("young", "spared", "pinned")
    live = figures.get("listed_objects", 0) - figures.get("found_objects", 0) - figures.get("foreign", 0)
    live -= released + sum(figures.get(f"{what}_objects", 0) for what in shown)
    if live:
        yield ("kept", "needed", live, None if released else _live_bytes(figures))
    if released:
        yield ("kept", "released, younger than the cutoff", released, None)
    for what, why in _KEPT.items():
        if objects := figures.get(f"{what}_objects", 0):
            verdict, more = ("waiting", when) if what == "waiting" else ("kept", "")
            yield (verdict, why + more, objects, figures[f"{what}_bytes"])
    if foreign := figures.get("foreign", 0):
        yield ("kept", "not an Icechunk name", foreign, None)


def _live_bytes(figures: Mapping[str, int]) -> int | None:
    if figures.get("foreign", 0) or "listed_bytes" not in figures:
        return None
    others = sum(figures.get(f"{what}_bytes", 0) for what in ("found", "young", "spared", "pinned"))
    return figures["listed_bytes"] - others


def make_question(run: Run, asked: Asked, report: str) -> Question:
    """Write the question of a run, and extend its lease for the time of the answer; `report` is the URI of its page."""
    repository = f"Icechunk repository {run.plan.uri}"
    return word_question(run, asked, repository, _lines(run, asked, report), report)


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    guards, listed = run.folder.read_output(CheckLimitsOutput), run.folder.read_output(ListCandidatesOutput)
    if guards is None or listed is None:  # another try does these steps again, and will ask
        return
    yield from first_lines(run, asked, run.plan.uri, guards, report)
    yield from kinds("What would be deleted", (_doomed(run, listed, kind) for kind in FOLDERS), words={})
    yield from _stays(listed)


def _doomed(run: Run, listed: ListCandidatesOutput, kind: str) -> dict[str, Any]:
    examples: list[str] = []
    for part in listed.candidates(kind)[:1]:
        examples = run.folder.read_part(part, ["address"])["address"].slice(0, EXAMPLES_MAX).to_pylist()
    return {
        "why": f"unreachable {NAMES[kind]}",
        "objects": listed.count(kind, "candidates_objects"),
        "bytes": listed.count(kind, "candidates_bytes"),
        "examples": [{"address": address} for address in examples],
    }


def _stays(listed: ListCandidatesOutput) -> Iterator[str]:
    found = {
        why: (listed.total(f"{figure}_objects"), listed.total(f"{figure}_bytes"))
        for figure, why in _KEPT.items()
    }
    if any(objects for objects, _ in found.values()):
        yield "\n### Unreachable objects that stay\n"
    for why, (objects, size_bytes) in found.items():
        if objects:
            yield f"- {objects:,} objects, {size_text(size_bytes)}: {why}"
