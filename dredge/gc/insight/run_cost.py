"""The expected cost of a run: time and requests, from the last runs of the same kind; and the comparison after the run.

    forecast.json     {"about", "runs", "seconds": {step: …}, "work": {kind: …}, "deletes": [objects, bytes],
                       "undo": …}, written with the plan

Requests are derived from the figures of the steps; repeated requests and checks of the lease are left out.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

from dredge.errors import DredgeError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.insight.base_run import runs_below
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Plan
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SubtractOutput
from dredge.gc.verify import VerifyOutput
from dredge.runs.folder import RunFolder
from dredge.runs.payload import to_json
from dredge.runs.rendering import size_text
from dredge.runs.summary import StepSummary
from dredge.storage import StorageOptions
from dredge.undo.ways import cost_of_undo

log = logging.getLogger("dredge")

FORECAST = "forecast.json"
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
_RUNS_MAX = 3
_LOOK_BACK = 20
# Objects in a page of a listing and in a request to delete.
_PAGE = 1000

WORK = {
    "list_requests": "Listing requests",
    "metadata_reads": "Ranges and metaranges read",
    "index_bytes": "Bytes of the index read",
    "lakefs_requests": "Requests about single objects and pages of staging, to lakeFS",
    "delete_requests": "Delete requests",
}


def forecast(
    plan: Plan, folder: RunFolder, expecting: Callable[[], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Write the estimated cost of a run, made by `expected`, into the run folder; None without an earlier run."""
    try:
        found = expecting()
        if found is not None:
            objects, size_bytes = found["deletes"]
            cost = cost_of_undo(plan.undo.way, objects, size_bytes)
            found["undo"] = {**to_json(cost), "text": cost.text, "why": plan.undo.why}
            folder.write_json(FORECAST, found)
    except DredgeError as error:
        log.info("run %s: no estimate of its cost: %s", plan.run_id, error)
        return None
    return found


def expected(
    root: str,
    repository: str,
    mode: str,
    dry_run: bool,
    options: StorageOptions | None = None,
    before: str = "",
) -> dict[str, Any] | None:
    """Return the median of each figure of the last runs of a kind before a run ("": before the next run) as the
    object of `forecast.json`; None without a complete run of this kind."""
    found: list[dict[str, StepSummary]] = []
    ids: list[str] = []
    for number, (folder, plan) in enumerate(runs_below(root, options)):
        if number == _LOOK_BACK or len(found) == _RUNS_MAX:
            break
        kind = (plan.repository, plan.mode, plan.dry_run)
        if folder.run_id <= before or kind != (repository, mode, dry_run):
            continue
        summaries = folder.read_summaries(output.STEP for output in STEPS)
        complete = {step: summary for step, summary in summaries.items() if summary is not None}
        if len(complete) == len(STEPS):
            found.append(complete)
            ids.append(folder.run_id)
    if not found:
        return None
    kind_text = f"{mode} {'dry runs' if dry_run else 'runs'}"
    seconds = {step: median(item[step].seconds for item in found) for step in found[0]}
    work = {kind: int(median(work_of(item.values())[kind] for item in found)) for kind in WORK}
    guards = [item[CheckLimitsOutput.STEP].counts for item in found]
    return {
        "about": f"Expected by the median of the last {len(found)} {kind_text}.",
        "runs": ids,
        "seconds": {step: round(value, 1) for step, value in seconds.items()},
        "work": work,
        "deletes": [
            int(median(counts[name] for counts in guards))
            for name in ("deletable_objects", "deletable_bytes")
        ],
    }


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


def expected_lines(found: Mapping[str, Any]) -> list[str]:
    """Format the expected cost for the terminal."""
    seconds = ", ".join(f"{step} {value:g} s" for step, value in _in_order(found["seconds"]) if value >= 0.1)
    lines = [found["about"], f"  time: {sum(found['seconds'].values()):.1f} s ({seconds})"]
    work = found["work"]
    lines += [f"  {WORK[kind].lower()}: {_figure(kind, work[kind])}" for kind in WORK if kind in work]
    if "undo" in found:
        undo = found["undo"]
        lines.insert(2, f"  undo ({undo['way']}, {undo['why']}): {undo['text']}")
    return lines


def compare_rows(found: Mapping[str, Any], summaries: Iterable[StepSummary]) -> list[list[str]]:
    """Rows of a name, the figure of `expected`, and the actual figure."""
    steps = list(summaries)
    took = {item.step: item.seconds for item in steps}
    rows = [
        [f"Seconds of {step}", f"{value:.1f}", f"{took[step]:.1f}" if step in took else "not done"]
        for step, value in _in_order(found["seconds"])
    ]
    done = work_of(steps)
    work = found["work"]
    rows += [
        [WORK[kind], _figure(kind, work[kind]), _figure(kind, done[kind])] for kind in WORK if kind in work
    ]
    return rows


def _in_order(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(output.STEP, seconds[output.STEP]) for output in STEPS if output.STEP in seconds]


def _figure(kind: str, value: int) -> str:
    return size_text(value) if kind.endswith("_bytes") else f"{value:,}"
