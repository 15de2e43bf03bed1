"""Step save_report: advance the state after a complete run, clean up, and write the report. Also writes the question to
an approver.

    report.json     for programs; everything in one JSON object
    report.html     the same as a page

Every call writes the report again, also after a failure. A later try has newer facts, so an earlier try stops.

Only a verified, complete run advances the state, under the lease and from the version in the plan. If that fails, the
deletions are still right, and the next run builds on the older state."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from dredge.approve.records import Asked, approval_inputs
from dredge.approve.step import EXAMPLES_MAX, Question, first_lines, kinds, word_question
from dredge.errors import DredgeError, FormatError
from dredge.icechunk.collection import outputs
from dredge.icechunk.collection.own_files import clean_up, find_superseded, keep_small
from dredge.icechunk.collection.run import Run, RunState, StateStore
from dredge.icechunk.repository import FOLDERS, NAMES
from dredge.runs import report as reports
from dredge.runs.payload import StepOutput, StepSummary, to_json
from dredge.runs.report import OUTCOMES, ReportRow, RunResults, duration_text, render_html, size_text
from dredge.runs.run import StepRecord, check_chain, collect_links
from dredge.runs.tries import StepTry
from dredge.runs.versions import CLEAN, OPTIMIZED, Current
from dredge.sets.live import CountedSet
from dredge.storage.parallel import at_once
from dredge.undo.ways import WORDS

_BEFORE: tuple[type[StepOutput], ...] = (
    outputs.MarkOutput,
    outputs.ListCandidatesOutput,
    outputs.CheckLimitsOutput,
)
_AFTER: tuple[type[StepOutput], ...] = (outputs.BulkDeleteOutput, outputs.VerifyOutput)
"""Steps before and after an approval."""
_STOPPED = ("awaiting_approval", "rejected", "refused", "alarm")

type Totals = dict[str, dict[str, int]]
type Row = tuple[str, str, int, int | None]

UNSEEN = "chunks without a manifest, from sessions without a commit or from failed commits"
_KEPT = {
    "pinned": "restored and still pinned, or contains a virtual chunk",
    "spared": "unreachable; this run keeps all of its kind",
    "young": "younger than the cutoff",
    "waiting": "unreachable; waits until a later run may delete it",
}
"""Figures of kept unreachable objects, with the reason."""
_SWEPT = {
    "deleted": "unreachable",
    "missing": "did not exist any more",
    "failed": "could not be deleted",
    "kept": "became live, was restored or rewritten during the run, is held by the store, or could not be copied",
}


def build_report(run: Run) -> dict[str, Any]:
    """Make `report.json` from the results of a run."""
    plan, left = run.plan, RunResults.read(run.folder, _outputs(run), run.plan.dry_run)
    asked = left.of(outputs.ApproveOutput)
    guards, swept = left.of(outputs.CheckLimitsOutput), left.of(outputs.BulkDeleteOutput)
    listed = left.of(outputs.ListCandidatesOutput)
    kinds = {kind: _figures_of(left, kind) for kind in FOLDERS}
    outcome = left.outcome
    totals = {what: _sum_of(kinds, what) for what in ("candidates", "deleted", "failed", "kept")}
    pending = {} if listed is None else listed.pending
    mark = left.of(outputs.MarkOutput)
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
                None,
                (
                    _headline(outcome, totals, plan.config.after is not None),
                    reports.describe_waiting(pending),
                ),
            )
        ),
        "what_to_do": _what_to_do(outcome, left.failed is not None),
        "facts": [*_facts(run, left), *reports.list_waiting_facts(pending), *_mode(run, listed)],
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
        return (*_BEFORE, *approval_inputs(run.plan, run.folder, outputs.ApproveOutput), *_AFTER)
    except FormatError:  # the guards' results are damaged; the report shows that as their failure
        return (*_BEFORE, *_AFTER)


def _figures_of(left: RunResults, kind: str) -> dict[str, int]:
    start = f"{kind}_"
    return {
        name.removeprefix(start): value
        for output in (left.of(outputs.ListCandidatesOutput), left.of(outputs.BulkDeleteOutput))
        if output is not None
        for name, value in output.counts.items()
        if name.startswith(start)
    }


def _sum_of(kinds: Mapping[str, Mapping[str, int]], what: str) -> dict[str, int]:
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
    if text := reports.approval_action(outcome, outputs.ApproveOutput.COMMAND):
        return text
    if outcome in _STOPPED:
        return (
            "Read the findings of the failed guards below. If these deletions are intended, raise the limit."
        )
    if outcome == "partial":
        return "Run the sweep again: it continues where it stopped."
    return "Read the errors below, correct their causes, and start a new run." if has_failures else ""


def _facts(run: Run, left: RunResults) -> list[tuple[str, str]]:
    plan, mark, asked = run.plan, left.of(outputs.MarkOutput), left.of(outputs.ApproveOutput)
    facts = [
        ("Repository", plan.uri),
        ("Spec version", str(plan.spec_version)),
        ("Run", plan.run_id),
        ("Planned", f"{plan.created_at:%Y-%m-%d %H:%M:%S} UTC, by the store's clock"),
        ("Cutoff", f"{plan.cutoff:%Y-%m-%d %H:%M:%S} UTC"),
    ]
    if asked is not None:
        facts.append(("Approval", reports.approval_text(asked.approval)))
    if not plan.config.dry_run:
        facts.append(("Undo", f"{plan.undo.way}: {WORDS[plan.undo.way]} ({plan.undo.why})"))
    if plan.config.after is not None:
        older = plan.config.after.threshold
        released = 0 if mark is None else mark.counts.get("planned_released_snapshots", 0)
        text = f"{released:,} snapshots older than {older} would be released (planned, not applied)"
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
                    f"{counts['young_snapshots']:,} snapshots, and the objects that only they need. The last snapshot"
                    f" reaches the minimum age at {mark.young_until:%Y-%m-%d %H:%M} UTC, and then waits"
                    f" {duration_text(plan.grace)}. `dredge icechunk plan --estimate` shows the bytes",
                )
            )
    return facts


def _mode(run: Run, listed: outputs.ListCandidatesOutput | None) -> list[tuple[str, str]]:
    plan = run.plan
    facts = [("Mode", f"{plan.mode}: {plan.why_mode}" if plan.why_mode else plan.mode)]
    if plan.mode == OPTIMIZED:
        facts.append(("Not searched", f"{UNSEEN}. Only a clean run finds them{_last_clean(run)}"))
    if plan.inventory is not None:
        begun = plan.inventory.created_at
        when = "start time unknown" if begun is None else f"begun {begun:%Y-%m-%d %H:%M} UTC"
        facts.append(
            ("Chunks from", f"{plan.inventory.uri}, {when}; younger chunks wait for the next clean run")
        )
    drift = None if listed is None else listed.drift
    if drift is not None:
        text = f"no chunk in {drift['runs']:,} optimized runs"
        if drift["objects"]:
            text = (
                f"{drift['objects']:,} chunks, {size_text(drift['bytes'])}, such as {drift['samples'][0]}: neither a"
                " manifest in the store nor one counted by an optimized run lists them"
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
    """Write a run's question, and extend the run's lease until the answer is due; `report` is the URI of its page."""
    repository = f"Icechunk repository {run.plan.uri}"
    return word_question(run, asked, repository, _lines(run, asked, report), report)


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    guards, listed = (
        run.folder.read_output(outputs.CheckLimitsOutput),
        run.folder.read_output(outputs.ListCandidatesOutput),
    )
    if guards is None or listed is None:  # another try does these steps again, and will ask
        return
    yield from first_lines(run, asked, run.plan.uri, guards, report)
    yield from kinds("Objects to be deleted", (_doomed(run, listed, kind) for kind in FOLDERS), words={})
    yield from _stays(listed)


def _doomed(run: Run, listed: outputs.ListCandidatesOutput, kind: str) -> dict[str, Any]:
    examples: list[str] = []
    for part in listed.candidates(kind)[:1]:
        examples = run.folder.read_part(part, ["address"])["address"].slice(0, EXAMPLES_MAX).to_pylist()
    return {
        "why": f"unreachable {NAMES[kind]}",
        "objects": listed.count(kind, "candidates_objects"),
        "bytes": listed.count(kind, "candidates_bytes"),
        "examples": [{"address": address} for address in examples],
    }


def _stays(listed: outputs.ListCandidatesOutput) -> Iterator[str]:
    found = {
        why: (listed.total(f"{figure}_objects"), listed.total(f"{figure}_bytes"))
        for figure, why in _KEPT.items()
    }
    if any(objects for objects, _ in found.values()):
        yield "\n### Unreachable objects that are kept\n"
    for why, (objects, size_bytes) in found.items():
        if objects:
            yield f"- {objects:,} objects, {size_text(size_bytes)}: {why}"


log = logging.getLogger("dredge")


def save_report(run: Run) -> StepSummary:
    """Advance the state if the run is complete, and write the report. Raises OvertakenError: a later try has begun and
    writes the report; DredgeError: the report was written, but the state could not be advanced."""
    # Claimed before the first read: a sleeping try must not keep a later one from its report.
    attempt = StepTry.claim(run.folder.writer, outputs.SaveReportOutput.STEP)
    with run.folder.keeping():
        with at_once() as ask:
            complete = ask(_is_complete, run)
            # A try that slept until its run's end would take the lease again, and never release it.
            attempt.check()
        return _end(run, attempt, complete.result())


def _end(run: Run, attempt: StepTry, is_complete: bool) -> StepSummary:
    error: DredgeError | None = None
    with at_once() as ask:
        # What the state named a week ago does not depend on its advance.
        superseded = ask(find_superseded, run) if is_complete and not run.plan.dry_run else None
        try:
            if is_complete and (moved := advance_state(run)) is not None:
                keep_small(run, outputs.StateOutput.of(moved).version)
                is_newest = ask(attempt.is_newest)  # compaction takes long: another try may have begun
                run.folder.settle()  # a summary that was not written is an error of the run, not of the cleaning
                if is_newest.result() and superseded is not None:
                    clean_up(run, superseded.result)
        except DredgeError as found:
            log.exception("the state was not advanced")
            error = found
    _distrust(run, is_complete)
    summary = write_report(run, attempt)
    if error is not None:
        raise error
    return summary


def _is_complete(run: Run) -> bool:
    try:
        found = run.folder.read_valid_summaries(item.STEP for item in outputs.StateOutput.INPUTS)
        return all(summary is not None for summary in found.values())
    except FormatError:
        return False


def _distrust(run: Run, is_complete: bool) -> None:
    # No later run may build on a state that this run could not read.
    if (built_on := run.plan.state) is None:
        return
    if why := (None if is_complete else _could_not_read(run)) or lost_list(run):
        log.error("state %s cannot be used, so the next run is a clean run: %s", built_on.name, why)
        StateStore(run.state, run.options).distrust(built_on, why)


def _could_not_read(run: Run) -> str | None:
    if run.plan.mode != OPTIMIZED:
        return None
    found = (
        run.folder.read_damage(output.STEP) for output in (outputs.MarkOutput, outputs.ListCandidatesOutput)
    )
    return next((why for why in found if why is not None), None)


def write_report(run: Run, attempt: StepTry | None = None) -> StepSummary:
    """Write the report of a run at any stage. Raises OvertakenError: a later try has begun, which writes it."""
    started = run.clock()
    attempt = attempt or StepTry.claim(run.folder.writer, outputs.SaveReportOutput.STEP)
    with run.folder.writing(attempt):
        report = build_report(run)
        page = render_html(report).encode()
        with at_once() as ask:
            written = ask(attempt.replace, outputs.PAGE, page)
            run.folder.publish_json(outputs.REPORT, report)
        written.result()
        summary = StepSummary(
            step=outputs.SaveReportOutput.STEP,
            run_id=run.plan.run_id,
            status="success",
            started_at=started,
            finished_at=run.clock(),
            counts=_figures(report),
            details={"outcome": report["outcome"], "page": f"{run.folder.uri}/{outputs.PAGE}"},
            try_number=attempt.number,
        )
        run.folder.write_summary(summary)
    return summary


def _figures(report: Mapping[str, Any]) -> dict[str, int]:
    return {
        f"{what}_{unit}": report[what][unit]
        for what in ("candidates", "deleted", "failed")
        for unit in ("objects", "bytes")
    }


def advance_state(run: Run) -> StepSummary | None:
    """Write the state for the next run. Returns None for a dry run, a run with kept kinds, or an optimized run without
    a usable pending list: the next run then builds on the same state as this run. Raises RefusedError: a step is
    incomplete, or the inputs do not belong together; ConflictError: another run has advanced the state; LeaseHeldError:
    another run has taken over."""
    config, mark = run.plan.config, run.folder.read_output(outputs.MarkOutput)
    if config.dry_run or config.kept_kinds or mark is None or mark.counted is None or lost_list(run):
        return None
    counted = mark.counted
    # The sweep's inputs belong to the state's chain.
    approved = approval_inputs(run.plan, run.folder, outputs.ApproveOutput)
    inputs: list[type[StepOutput]] = [*outputs.StateOutput.INPUTS, *approved]
    return run.step(outputs.StateOutput, lambda record: _advance(run, record, counted, inputs), inputs)


def lost_list(run: Run) -> str:
    """Return why an optimized run could not use the pending list, else "". The rows are lost until a clean run."""
    listed = run.folder.read_output(outputs.ListCandidatesOutput)
    return "" if run.plan.mode == CLEAN or listed is None else listed.waits_anew


def _advance(run: Run, record: StepRecord, counted: CountedSet, inputs: Sequence[type[StepOutput]]) -> None:
    check_chain(run.folder, outputs.StateOutput.STEP, collect_links(inputs), record.inputs)
    state = _state(run, record, counted)
    before: Current[RunState] = Current(run.plan.state_etag, run.plan.state, None)
    version = StateStore(run.state, run.options).advance(state, before, record.attempt.number)
    record.counts.update(optimized_runs=state.optimized_runs, layers=len(counted.layers))
    record.details["version"] = version


def _state(run: Run, record: StepRecord, counted: CountedSet) -> RunState:
    plan, base = run.plan, run.base
    listed = record.input(outputs.ListCandidatesOutput).count("chunks", "listed_objects")
    deleted = record.input(outputs.BulkDeleteOutput).counts.get("chunks_deleted_objects", 0)
    return RunState(
        uri=plan.uri,
        spec_version=plan.spec_version,
        run_id=plan.run_id,
        run_uri=plan.run_uri,
        fencing=plan.lease.fencing,
        previous="" if base is None else base.state.run_id,
        mode=plan.mode,
        started_at=plan.created_at,
        cutoff=plan.cutoff,
        clean_run_id=plan.run_id if base is None else base.state.clean_run_id,
        clean_at=plan.created_at if base is None else base.state.clean_at,
        optimized_runs=0 if base is None else base.state.optimized_runs + 1,
        chunk_objects=listed - deleted if base is None else base.state.chunk_objects,
        snapshots=record.input(outputs.MarkOutput).snapshot_rows,
        virtual=record.input(outputs.MarkOutput).virtual,
        counted=counted,
        seen=tuple(record.input(outputs.MarkOutput).seen),
    )
