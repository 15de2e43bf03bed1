"""One way to do a step: inputs checked, done once, summary last, failures recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import RefusedError
from dredge.runs.clock import Clock
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo, Status, StepSummary

log = logging.getLogger("dredge")


@dataclass(slots=True)
class StepRecord:
    """What a step notes while it works; becomes its summary.

    Attributes:
        inputs: summaries of the steps it reads.
        counts: figures.
        parts: files of the result.
        warnings: sentences for the report.
        details: further small facts, JSON.
        status: becomes the summary's.
        error: raised after the summary was written, for steps that end held or partial.
    """

    inputs: dict[str, StepSummary]
    counts: dict[str, int] = field(default_factory=dict)
    parts: list[PartInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    status: Status = "success"
    error: Exception | None = None

    def warn(self, text: str) -> None:
        """Note a sentence for the report, and log it."""
        log.warning(text)
        self.warnings.append(text)

    def add(self, **counts: int) -> None:
        """Add to figures."""
        for name, value in counts.items():
            self.counts[name] = self.counts.get(name, 0) + value


def required(folder: RunFolder, step: str, inputs: Sequence[str]) -> dict[str, StepSummary]:
    """Read the summaries a step builds on.

    Raises:
        RefusedError: one of them is not complete.
    """
    found = {}
    for name in inputs:
        summary = folder.read_summary(name)
        if summary is None:
            raise RefusedError(
                f"run {folder.run_id}: step {step} needs the result of {name}, which is not complete."
                f" Nothing was deleted. Run {name} first."
            )
        found[name] = summary
    return found


def perform(
    folder: RunFolder, step: str, inputs: Sequence[str], body: Callable[[StepRecord], None], clock: Clock
) -> StepSummary:
    """Do a step unless it is done.

    Args:
        folder: of the run.
        step: its name.
        inputs: steps that must be complete. When one of them was done again with another result, so is this
            one.
        body: does the work and notes it in the record.
        clock: for the summary's times.

    Returns:
        The stored summary when the step is complete and its inputs are the same, else the new one.

    Raises:
        RefusedError: an input is missing.
    """
    try:
        before = required(folder, step, inputs)
        digests = {name: summary.digest for name, summary in before.items()}
        stored = folder.read_summary(step)
        if stored is not None and dict(stored.inputs) == digests:
            log.info("run %s: %s is done already", folder.run_id, step)
            return stored
        started = clock()
        log.info("run %s: %s starts", folder.run_id, step)
        record = StepRecord(before)
        body(record)
    except Exception as error:
        folder.write_failure(step, error, clock())
        raise
    summary = StepSummary(
        step=step,
        run_id=folder.run_id,
        status=record.status,
        started_at=started,
        finished_at=clock(),
        counts=record.counts,
        parts=tuple(record.parts),
        inputs=digests,
        warnings=tuple(record.warnings),
        details=record.details,
    )
    folder.write_summary(summary)
    figures = ", ".join(f"{name} {value:,}" for name, value in summary.counts.items())
    log.info("run %s: %s %s after %.1f s: %s", folder.run_id, step, summary.status, summary.seconds, figures)
    if record.error is not None:
        folder.write_failure(step, record.error, clock())
        raise record.error
    return summary
