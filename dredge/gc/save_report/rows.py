"""The table of the report: what was found, what became of it, and why."""

from __future__ import annotations

from collections.abc import Iterator

from dredge.gc.bulk_delete import BulkDeleteOutput, Group, why_kept
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.save_report.results import RunResults
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.runs import ledger
from dredge.runs.report import ReportRow


def report_rows(results: RunResults) -> Iterator[ReportRow]:
    """Make the rows of a run's report, from what lives to what was deleted."""
    listing = results.of(SliceListingOutput)
    if listing is None:
        return
    counts = listing.counts
    young = counts["young_slices"]
    without = f"; without those in slices too young to be listed ({young:,})" if young else ""
    yield from _live_rows(results, without)
    why = f"not older than the cutoff{without}"
    yield ReportRow("young", "kept", why, counts["young_objects"], counts["young_bytes"])
    if counts["root_objects"]:
        why = "directly in the namespace root, not below data/"
        yield ReportRow("old layout", "kept", why, counts["root_objects"], counts["root_bytes"])
    if counts["elsewhere_objects"]:
        why = "in folders that lakeFS does not collect"
        yield ReportRow("elsewhere", "kept", why, counts["elsewhere_objects"])
    swept = results.of(BulkDeleteOutput)
    yield from _candidate_rows(results) if swept is None or not swept.is_settled else _swept_rows(swept)


def _live_rows(results: RunResults, without: str) -> Iterator[ReportRow]:
    candidates = results.of(SubtractOutput)
    if candidates is None:
        return
    counts = candidates.counts
    why = f"a branch's staging or an active commit names it{without}"
    yield ReportRow("live", "kept", why, counts["live_objects"], counts["live_bytes"])
    committed = results.of(ListCommittedOutput)
    for found in committed.kept if committed is not None else ():
        # What is live only because something keeps more than lakeFS itself does.
        if found["objects"]:
            why = f"of these, as {found['why']}; {found['only_objects']:,} of them by nothing else"
            yield ReportRow(found["name"], "kept", why, found["objects"], found["bytes"])


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
            return "was gone already"
        case ledger.NOT_ADDRESSABLE:
            return "the store has no exact way to name it"
        case ledger.FAILED:
            return f"the store refused: {group.code}"
    return REASONS[group.reason]


def _candidate_rows(results: RunResults) -> Iterator[ReportRow]:
    candidates, guards = results.of(SubtractOutput), results.of(CheckLimitsOutput)
    if candidates is None:
        return
    would = results.dry_run and guards is not None
    verdict = "would be deleted" if would else "kept: the run did not come to deleting"
    if results.outcome == "awaiting_approval":
        verdict = "awaits approval"
    for reason, figures in candidates.reasons.items():
        yield ReportRow(reason, verdict, REASONS[reason], figures["objects"], figures["bytes"])
    for found in guards.held if guards is not None else ():
        yield ReportRow("of these", "kept", found["why"], found["objects"], found["bytes"])
