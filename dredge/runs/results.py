"""The results of a run's steps, complete or not, for its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dredge.errors import AlarmError, FormatError, RejectedError
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepOutput, StepSummary
from dredge.storage.parallel import ordered_map

OUTCOMES = {
    "success": "done",
    "dry_run": "dry run: nothing was deleted",
    "awaiting_approval": "awaiting approval: nothing was deleted",
    "rejected": "rejected: nothing was deleted",
    "refused": "refused by a guard: nothing was deleted",
    "alarm": "alarm: live objects had been deleted by an earlier run; this run deleted nothing",
    "partial": "not everything was deleted",
    "failed": "failed",
    "unfinished": "not finished",
}
"""Texts of `RunResults.outcome`."""
_AT_ONCE = 16
_COMPLETE = ("success", "dry_run")


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step."""

    step: str
    summary: StepSummary | None  # of its newest try, complete or not; None without one
    failure: dict[str, Any] | None  # as `RunFolder.read_failure` returns it, or None

    @classmethod
    def read(cls, folder: RunFolder, step: str, known: StepSummary | None = None) -> StepResult:
        """Read the result of a step, unless its complete summary is known; a damaged summary is a failure."""
        try:
            done = known or folder.read_summary(step)
            failure = folder.read_open_failure(step, done)
            return cls(step, done or folder.read_incomplete(step), failure)
        except FormatError as error:
            return cls(step, None, {"step": step, "message": str(error)})

    @property
    def status(self) -> str:
        """The summary's status, "rejected", "alarm", "failed" or "not done"."""
        summary, failure = self.summary, self.failure
        if summary is not None and (failure is None or summary.status not in _COMPLETE):
            return summary.status
        if failure is None:
            return "not done"
        kind = failure.get("kind")
        return kind if kind in (RejectedError.kind, AlarmError.kind) else "failed"

    def to_details(self) -> dict[str, Any]:
        """The result as a row of a report's table of steps."""
        summary = self.summary
        counts = {} if summary is None else dict(summary.counts)
        figures = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in counts.items() if value)
        return {
            "step": self.step,
            "status": self.status,
            "seconds": "" if summary is None else f"{summary.seconds:.1f}",
            "figures": figures or self.problem,
            "counts": counts,
        }

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
        """Read the results of steps, unless their complete summaries are known."""
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

    def to_details(self) -> dict[str, Any]:
        """Problems, warnings and the table of steps, for a report."""
        return {
            "problems": [result.problem for result in self.steps.values() if result.problem],
            "warnings": [warning for summary in self.summaries for warning in summary.warnings],
            "steps": [result.to_details() for result in self.steps.values()],
        }

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
