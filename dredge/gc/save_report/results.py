"""The results of a run's steps, complete or not, and the rows of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dredge.errors import AlarmError, FormatError, RejectedError
from dredge.gc.bulk_delete import BulkDeleteOutput, Group, why_kept
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.report_rows import ReportRow
from dredge.runs.summary import StepSummary
from dredge.storage.parallel import ordered_map

ENDED = ("success", "dry_run")
"""Outcomes of a complete run."""
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step.

    Attributes:
        summary: of its newest try, complete or not; None without one.
        failure: as `RunFolder.read_failure` returns it, or None.
    """

    step: str
    summary: StepSummary | None
    failure: dict[str, Any] | None

    @classmethod
    def read(cls, folder: RunFolder, step: str, known: StepSummary | None = None) -> StepResult:
        """Read the result of a step; a damaged summary is a failure.

        Args:
            known: its complete summary, if read before.
        """
        try:
            done = known or folder.read_summary(step)
            failure = folder.standing_failure(step, done)
            if done is not None and failure is None:
                return cls(step, done, None)
            incomplete = folder.read_incomplete(step)
        except FormatError as error:
            return cls(step, None, {"step": step, "message": str(error)})
        return cls(step, incomplete, failure)

    @property
    def status(self) -> str:
        """The summary's status, "rejected", "alarm", "failed" or "not done"."""
        if self.summary is not None:
            return self.summary.status
        if self.failure is None:
            return "not done"
        kind = self.failure.get("kind")
        return kind if kind in (RejectedError.kind, AlarmError.kind) else "failed"

    @property
    def problem(self) -> str:
        """The failure as text, or ""."""
        return f"{self.step}: {self.failure['message']}" if self.failure is not None else ""


@dataclass(frozen=True, slots=True)
class RunResults:
    """The results of a run's steps, in their order."""

    steps: dict[str, StepResult]
    dry_run: bool

    @classmethod
    def read(
        cls,
        folder: RunFolder,
        outputs: Sequence[type[StepOutput]],
        dry_run: bool,
        known: Mapping[str, StepSummary] | None = None,
    ) -> RunResults:
        """Read the results of steps.

        Args:
            known: complete summaries by step, if read before.
        """
        read, names = known or {}, [item.STEP for item in outputs]

        def read_one(name: str) -> StepResult:
            return StepResult.read(folder, name, read.get(name))

        return cls(dict(zip(names, ordered_map(read_one, names, _AT_ONCE), strict=True)), dry_run)

    def of[O: StepOutput](self, output: type[O]) -> O | None:
        """Return a step's output, complete or not; None without a summary."""
        result = self.steps.get(output.STEP)
        return None if result is None or result.summary is None else output.of(result.summary)

    @property
    def summaries(self) -> Iterator[StepSummary]:
        """All summaries."""
        return (result.summary for result in self.steps.values() if result.summary is not None)

    @property
    def failed(self) -> StepResult | None:
        """The first failed step."""
        return next((result for result in self.steps.values() if result.failure is not None), None)

    @property
    def outcome(self) -> str:
        """ "success", "dry_run", "unfinished", or the status of the failed step."""
        if self.failed is not None:
            return self.failed.status
        if any(result.summary is None for result in self.steps.values()):
            return "unfinished"
        return "dry_run" if self.dry_run else "success"


def report_rows(results: RunResults) -> Iterator[ReportRow]:
    """Make the rows of the report, from live to deleted objects."""
    listing = results.of(SliceListingOutput)
    if listing is None:
        return
    counts = listing.counts
    young = counts["young_slices"]
    without = f"; without {young:,} young slices, which are not listed" if young else ""
    yield from _live_rows(results, without)
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


def _live_rows(results: RunResults, without: str) -> Iterator[ReportRow]:
    candidates = results.of(SubtractOutput)
    if candidates is None:
        return
    counts = candidates.counts
    why = f"in a branch's staging or an active commit{without}"
    yield ReportRow("live", "kept", why, counts["live_objects"], counts["live_bytes"])
    committed = results.of(ListCommittedOutput)
    # Live objects kept by settings beyond lakeFS's own rules.
    for found in committed.kept if committed is not None else ():
        if found["objects"]:
            why = f"of these, as {found['why']}; {found['only_objects']:,} only for this reason"
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
