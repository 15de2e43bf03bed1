"""The results of a run's steps, complete or not, as rows, texts and facts of the report, with its sections about the
repository: costs of objects, effects of other rules.

    analysis.json     written once, at the end of a complete clean run, for the report

No step depends on it: a failure is logged, and the run is complete without it.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dredge.errors import AlarmError, DredgeError, FormatError, NotFoundError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput, Group, why_kept
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.config import CLEAN
from dredge.gc.insight.base_run import base_of_run, runs_below
from dredge.gc.insight.cost import cost_of
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Plan, Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.gc.verify import VerifyOutput
from dredge.runs import ledger
from dredge.runs import report as reports
from dredge.runs.failures import as_defects
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary, to_json
from dredge.runs.report import ENDED, ReportRow, RunResults, StepResult, number_of, size_text
from dredge.storage.parallel import at_once
from dredge.undo.ways import OFF
from dredge.undo.ways import WORDS as UNDO_WORDS

STEPS = (
    SliceListingOutput,
    MarkUncommittedOutput,
    ListCommittedOutput,
    SubtractOutput,
    CheckLimitsOutput,
    BulkDeleteOutput,
    VerifyOutput,
)
"""The steps of every run, in their order; a run that deletes also advances the state."""
# Objects in a page of a listing and in a request to delete.
_PAGE = 1000


def report_rows(results: RunResults) -> Iterator[ReportRow]:
    """Make the rows of the report, from live to deleted objects."""
    listing = results.of(SliceListingOutput)
    if listing is None:
        return
    counts = listing.counts
    young = counts["young_slices"]
    without = f"; without {young:,} young slices, which are not listed" if young else ""
    if (candidates := results.of(SubtractOutput)) is not None:
        live, why = candidates.counts, f"in a branch's staging or an active commit{without}"
        yield ReportRow("live", "kept", why, live["live_objects"], live["live_bytes"])
    why = f"not older than the cutoff{without}"
    yield ReportRow("young", "kept", why, counts["young_objects"], counts["young_bytes"])
    if counts["root_objects"]:
        why = "directly in the namespace root, not below data/"
        yield ReportRow("old layout", "kept", why, counts["root_objects"], counts["root_bytes"])
    if counts["elsewhere_objects"]:
        why = "in folders not collected by lakeFS"
        yield ReportRow("elsewhere", "kept", why, counts["elsewhere_objects"])
    swept = results.of(BulkDeleteOutput)
    yield from _candidate_rows(results) if swept is None or not swept.is_settled else _swept_rows(swept)


def _swept_rows(swept: BulkDeleteOutput) -> Iterator[ReportRow]:
    for group in swept.groups:
        verdict = "kept" if group.outcome in (ledger.KEPT, ledger.NOT_ADDRESSABLE) else group.outcome
        yield ReportRow(group.reason, verdict, _why(group), group.objects, group.size_bytes)
    if undone := swept.counts.get("undone_objects"):
        yield ReportRow("not tried", "kept", "the sweep stopped before", undone)


def _why(group: Group) -> str:
    match group.outcome:
        case ledger.KEPT:
            return why_kept(group.code)
        case ledger.MISSING:
            return "already missing"
        case ledger.NOT_ADDRESSABLE:
            return "the store has no exact way to address it"
        case ledger.FAILED:
            return f"the store refused: {group.code}"
    return REASONS[group.reason]


def _candidate_rows(results: RunResults) -> Iterator[ReportRow]:
    candidates, guards = results.of(SubtractOutput), results.of(CheckLimitsOutput)
    if candidates is None:
        return
    verdict = "kept: the run stopped before deleting"
    if results.outcome == "awaiting_approval":
        verdict = "awaits approval"
    elif results.dry_run and guards is not None:
        verdict = "would be deleted"
    for reason, figures in candidates.reasons.items():
        yield ReportRow(reason, verdict, REASONS[reason], figures["objects"], figures["bytes"])
    for found in guards.held if guards is not None else ():
        yield ReportRow("of these", "kept", found["why"], found["objects"], found["bytes"])


def headline(results: RunResults, counts: Mapping[str, int]) -> str:
    """Summarize the run in one or two sentences."""
    listing = results.of(SliceListingOutput)
    young = listing.unlisted_text if results.outcome in ENDED and listing is not None else ""
    guards = results.of(CheckLimitsOutput)
    waiting = "" if guards is None else reports.describe_waiting(guards.pending)
    return " ".join(filter(None, (_deleted(results.outcome, counts), waiting, young)))


def _deleted(outcome: str, counts: Mapping[str, int]) -> str:
    if outcome == "dry_run":
        return f"A run that deletes would delete {_deletable(counts)}. Nothing was deleted."
    deleted = f"{counts.get('deleted_objects', 0):,} objects ({counts.get('deleted_bytes', 0):,} bytes) were deleted."
    if outcome == "partial":
        return f"{deleted} {counts.get('failed_objects', 0):,} could not be deleted."
    if outcome == "success" or "deleted_objects" in counts:
        return deleted
    if outcome == "awaiting_approval":
        return f"After an approval the run deletes {_deletable(counts)}. Nothing was deleted so far."
    return "Nothing was deleted."


def _deletable(counts: Mapping[str, int]) -> str:
    return f"{counts['deletable_objects']:,} objects ({counts['deletable_bytes']:,} bytes)"


def what_to_do(results: RunResults) -> str:
    """Return the reader's next action, or ""."""
    failed, outcome = results.failed, results.outcome
    if failed is None:
        return "Run the remaining steps, or start a new run." if outcome == "unfinished" else ""
    if text := reports.approval_action(outcome, ApproveOutput.COMMAND):
        return text
    if outcome == "refused":
        return "Read the guards below for the missing proof or exceeded limit. Correct the cause and start a new run."
    if outcome == AlarmError.kind:
        return AlarmError.what_to_do
    return (
        f"Read the error of step {failed.step}. Resume the run to continue after its complete steps, or start a new"
        " run."
    )


def approval(results: RunResults) -> dict[str, Any] | None:
    """Return the question and the answer as JSON; None without a question."""
    found = results.of(ApproveOutput)
    return None if found is None else found.approval


def facts(folder: RunFolder, plan: Plan, results: RunResults) -> Iterator[list[str]]:
    """Describe the run, in pairs of title and text."""
    seconds = sum(summary.seconds for summary in results.summaries)
    yield ["Repository", f"{plan.repository} ({plan.namespace})"]
    yield ["Run", f"{plan.run_id}, {plan.mode} ({plan.why_mode}){', dry run' if plan.dry_run else ''}"]
    yield ["Started", f"{plan.created_at:%Y-%m-%d %H:%M:%S} UTC (store's clock)"]
    yield ["Cutoff", f"{plan.cutoff:%Y-%m-%d %H:%M:%S} UTC: younger objects are kept"]
    if plan.inventory is not None:
        begun = plan.inventory.created_at
        when = "" if begun is None else f", begun {begun:%Y-%m-%d %H:%M} UTC"
        yield ["Instead of a listing", f"inventory {plan.inventory.uri}{when}"]
    yield ["Time taken", f"{seconds:.1f} s in its steps"]
    yield ["Folder", folder.uri]
    if (answer := approval(results)) is not None:
        yield ["Approval", reports.approval_text(answer)]
    yield ["Undo", _undo(plan, results.of(CheckLimitsOutput))]
    yield from _slices(plan, results.of(SliceListingOutput))
    if (guards := results.of(CheckLimitsOutput)) is not None:
        yield from map(list, reports.list_waiting_facts(guards.pending))
    candidates, committed = results.of(SubtractOutput), results.of(ListCommittedOutput)
    if candidates is not None:
        for text in candidates.summary.details.get("pins", []):
            yield ["Pinned", text]
        if drift := candidates.summary.details.get("drift"):
            yield ["Missed by optimized runs", _drift(drift)]
    if committed is not None:
        yield from _commits(committed)


def _undo(plan: Plan, guards: CheckLimitsOutput | None) -> str:
    text = f"{plan.undo.way} ({plan.undo.why}): {UNDO_WORDS[plan.undo.way]}"
    if guards is None or plan.undo.way == OFF:
        return text
    until = plan.undo.until(plan.created_at, plan.config.purge_days)
    when = "" if until is None else f", until {until:%Y-%m-%d}"
    return f"{text}; {guards.undo.text}. Restore with `dredge gc restore {plan.run_uri} --all`{when}"


def _slices(plan: Plan, listing: SliceListingOutput | None) -> Iterator[list[str]]:
    if listing is None or (plan.mode == CLEAN and not listing.counts["young_slices"]):
        return
    counts = listing.counts
    listed = counts["slices"] - counts["young_slices"] - counts["covered_slices"] - counts["other_slices"]
    too_young = counts["young_slices"]
    young = f"; {too_young:,} {'is' if too_young == 1 else 'are'} too young" if too_young else ""
    again = counts.get("again_slices", 0)
    back = f", {again:,} of them again because of restored objects" if again else ""
    yield ["Slices listed", f"{listed:,} of {counts['slices']:,}{back}{young}"]


def _commits(committed: ListCommittedOutput) -> Iterator[list[str]]:
    # The server may have more commits, unreachable and expired.
    counts = committed.counts
    active = f"{counts['active_commits']:,}"
    if dangling := counts.get("dangling_commits", 0):
        active += f", {dangling:,} of them dangling: unreachable from branches and tags"
    yield ["Active commits", active]
    if expired := counts.get("expired_commits", 0):
        text = f"{expired:,} of {counts['reachable_commits']:,} reachable from branches and tags"
        if not committed.detail("expired_explained"):
            text += (
                "; only the newest of them were read to find the kind of garbage: objects of the others are reported as"
                " unreferenced"
            )
        yield ["Expired commits", text]
    for kept in committed.kept:
        if kept["ranges"]:
            text = f"{kept['commits']:,} commits, {kept['ranges']:,} ranges of them alone: {kept['why']}"
            yield [f"Kept by {kept['name']}", text]


def own_files(plan: Plan, summary: StepSummary | None) -> Iterator[list[str]]:
    """Describe the removed own files, if there are any."""
    if summary is None or not summary.counts["own_files"]:
        return
    counts = summary.counts
    text = f"{counts['own_files']:,} superseded files ({size_text(counts['own_bytes'])})"
    if counts["own_run_folders"]:
        age = number_of(plan.config.keep_runs_days or 0, "day")
        text += f", {number_of(counts['own_run_folders'], 'run folder')} older than {age}"
    if counts["folders_left"]:
        text += f"; {counts['folders_left']:,} older folders are left to the next runs"
    yield ["Own files to be removed" if plan.dry_run else "Own files removed", text]


def own_files_warnings(result: StepResult) -> Iterator[str]:
    """Return the warnings about own files; a failed clean-up is a warning."""
    if result.summary is not None:
        yield from result.summary.warnings
    elif result.failure is not None:
        yield f"Dredge's own files were not cleaned up; a later run tries again: {result.failure['message']}"


def _drift(drift: dict[str, Any]) -> str:
    if not drift["objects"]:
        return f"none in {drift['runs']:,} runs since {drift['since']}"
    return (
        f"{drift['objects']:,} objects ({drift['bytes']:,} bytes) in {drift['runs']:,} runs since"
        f" {drift['since']}: {drift['late_objects']:,} were uploaded after the margin of slices,"
        f" {drift['unexplained_objects']:,} for an unknown reason"
    )


def work_of(summaries: Iterable[StepSummary]) -> dict[str, int]:
    """The requests of steps to store and server, from their figures."""
    counts: dict[str, Mapping[str, int]] = defaultdict(dict, {item.step: item.counts for item in summaries})
    listing, staged, committed = (
        counts[output.STEP] for output in (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput)
    )
    guards, swept = counts[CheckLimitsOutput.STEP], counts[BulkDeleteOutput.STEP]
    listed = listing.get("old_objects", 0) + listing.get("young_objects", 0)
    listed -= listed if "inventory_files" in listing else 0
    slices = sum(
        (1 if name == "slices" else -1) * listing.get(name, 0)
        for name in ("slices", "young_slices", "covered_slices", "other_slices")
    )
    read_before = committed.get("index_parts_read", 0) > 0
    deleted = swept.get("deleted_objects", 0) + swept.get("failed_objects", 0)
    return {
        "list_requests": slices + math.ceil(listed / _PAGE),
        "metadata_reads": committed.get("metaranges", 0) + committed.get("ranges_decoded", 0),
        "index_bytes": 8 * committed.get("range_rows", 0) if read_before else 0,
        "lakefs_requests": staged.get("pages", 0) + guards.get("questions", 0),
        "delete_requests": math.ceil(deleted / _PAGE),
    }


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
        with as_defects(f"the figures in the report of run {run.plan.run_id}", run.folder.uri):
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
    from dredge.gc.insight.what_if import as_now, by_days, what_if

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
        "curve": _curve_of(foreseen),
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


def _curve_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Place the curve of days and freed bytes for `dredge.runs.report`; None for less than two points."""
    line = sorted(
        (item["proposal"]["days"], item["freed"]["size_bytes"])
        for item in found
        if item["proposal"]["days"] is not None
    )
    if len(line) < 2:
        return None
    marks = [(days, size, f"{number_of(days, 'day')}: {size_text(size)}") for days, size in line]
    return reports.place_curve(marks, "Bytes freed by rules of so many days", "days kept", size_text)
