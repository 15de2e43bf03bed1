"""What the steps of a run left, complete or not: all that the report is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dredge.errors import AlarmError, FormatError, RejectedError
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepOutput, StepSummary
from dredge.storage.parallel import ordered_map

ENDED = ("success", "dry_run")
"""Outcomes of a run that came to its end."""
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step left.

    Attributes:
        step: its name.
        summary: of its newest try, complete or not; None when it left none.
        failure: why it failed, as `RunFolder.read_failure` gives it; None when it did not.
    """

    step: str
    summary: StepSummary | None
    failure: dict[str, Any] | None

    @classmethod
    def read(cls, folder: RunFolder, step: str, known: StepSummary | None = None) -> StepResult:
        """Read what a step left; a damaged summary counts as a failure.

        Args:
            folder: the run folder.
            step: its name.
            known: its summary, when it is complete and was just read.
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
        """The failure as a sentence; "" when there is none."""
        return f"{self.step}: {self.failure['message']}" if self.failure is not None else ""


@dataclass(frozen=True, slots=True)
class RunResults:
    """What the steps of a run left, in their order.

    Attributes:
        steps: by name.
        dry_run: whether nothing may be deleted.
    """

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
        """Read what some steps left.

        Args:
            folder: the run folder.
            outputs: of the steps, in their order.
            dry_run: whether nothing may be deleted.
            known: summaries of complete steps that were just read, by step.
        """
        read, names = known or {}, [item.STEP for item in outputs]

        def read_one(name: str) -> StepResult:
            return StepResult.read(folder, name, read.get(name))

        return cls(dict(zip(names, ordered_map(read_one, names, _AT_ONCE), strict=True)), dry_run)

    def of[O: StepOutput](self, output: type[O]) -> O | None:
        """Give a step's result, complete or not; None when it left none."""
        result = self.steps.get(output.STEP)
        return None if result is None or result.summary is None else output.of(result.summary)

    @property
    def summaries(self) -> Iterator[StepSummary]:
        """Summaries of the steps that left one."""
        return (result.summary for result in self.steps.values() if result.summary is not None)

    @property
    def failed(self) -> StepResult | None:
        """The first step that failed."""
        return next((result for result in self.steps.values() if result.failure is not None), None)

    @property
    def outcome(self) -> str:
        """ "success", "dry_run", "unfinished", or the status of the step that failed."""
        if self.failed is not None:
            return self.failed.status
        if any(result.summary is None for result in self.steps.values()):
            return "unfinished"
        return "dry_run" if self.dry_run else "success"
