"""Does a step: inputs checked, done once, summary last, failures recorded; and checks the chain of digests.

    plan ← slice_listing ← mark_uncommitted ← list_committed ← subtract ← check_limits

Every summary names the digests of what its step read, and a step reads its inputs before it begins. So an unbroken
chain proves without any clock that nothing in it was made from a result that was replaced since, and that the steps
came one after the other in the order of the chain.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import DredgeError, RefusedError
from dredge.runs.clock import Clock
from dredge.runs.failures import foreseen
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo, Status, StepOutput, StepSummary
from dredge.runs.tries import StepTry
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")


@dataclass(slots=True)
class StepRecord:
    """What a step notes while it works; becomes its summary.

    Attributes:
        inputs: summaries of the steps it reads.
        attempt: the try that is at work.
        counts: figures.
        parts: files of the result.
        warnings: sentences for the report.
        details: further small facts, JSON.
        status: becomes the summary's.
        error: raised after the summary was written, for steps that end without success.
    """

    inputs: dict[str, StepSummary]
    attempt: StepTry
    counts: dict[str, int] = field(default_factory=dict)
    parts: list[PartInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    status: Status = "success"
    error: Exception | None = None

    def input[O: StepOutput](self, output: type[O]) -> O:
        """Give the result of a step that this one reads."""
        return output.of(self.inputs[output.STEP])

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
    return _complete(folder, step, folder.standing_summaries(inputs, afresh=True))


def _complete(
    folder: RunFolder, step: str, found: Mapping[str, StepSummary | None]
) -> dict[str, StepSummary]:
    complete = {}
    for name, summary in found.items():
        if summary is None:
            raise RefusedError(
                f"run {folder.run_id}: step {step} needs the result of {name}, which is not complete."
                f" Nothing was deleted. Run {name} first."
            )
        complete[name] = summary
    return complete


def perform(
    folder: RunFolder,
    step: str,
    inputs: Sequence[str],
    body: Callable[[StepRecord], None],
    clock: Clock,
    right: Callable[[], object] = lambda: None,
    roots: Mapping[str, str] | None = None,
) -> StepSummary:
    """Do a step unless it is done.

    The inputs are read before the body begins. So the digest of an input in the summary proves that the input was
    complete before this try looked at anything, whatever the clocks of the machines say.

    Args:
        folder: the run folder.
        step: its name.
        inputs: steps that must be complete. When one of them was done again, so is this one.
        body: does the work and notes it in the record.
        clock: for the summary's times.
        right: called before a try is claimed; raises when this run may not go on, so that it fences nobody off.
        roots: digests of what the step reads and no step wrote, by name.

    Returns:
        The stored summary when the step is complete and its inputs are the same, else the new one.

    Raises:
        RefusedError: an input is missing.
        OvertakenError: a later try of the step was begun; this one wrote no result.
        DefectError: an error from outside `dredge.errors`, which is its cause.
    """
    attempt: StepTry | None = None
    try:
        with foreseen(f"step {step} of run {folder.run_id}", folder.uri):
            if folder.goes_on:  # a step that nobody has tried has no result
                right()
                with at_once() as ask:
                    first = ask(StepTry.claim_first, folder.writer, step)
                    found = folder.standing_summaries(inputs)
                attempt = first.result()
            else:
                found = folder.standing_summaries([*inputs, step])
            stored = found.pop(step, None)
            if folder.goes_on and attempt is None:
                stored = folder.read_summary(step)
            before = _complete(folder, step, found)
            digests = {**(roots or {}), **{name: summary.digest for name, summary in before.items()}}
            if stored is not None and dict(stored.inputs) == digests:
                log.info("run %s: %s is done already", folder.run_id, step)
                return stored
            if attempt is None:
                right()
                attempt = StepTry.claim(folder.writer, step)
            started = clock()
            log.info("run %s: %s starts (try %d)", folder.run_id, step, attempt.number)
            record = StepRecord(before, attempt)
            with folder.writing(attempt):
                body(record)
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
                try_number=attempt.number,
            )
            folder.write_summary(summary)
    except Exception as error:
        _note_failure(folder, step, error, clock, attempt)
        raise
    figures = ", ".join(f"{name} {value:,}" for name, value in summary.counts.items())
    log.info("run %s: %s %s after %.1f s: %s", folder.run_id, step, summary.status, summary.seconds, figures)
    if record.error is not None:
        _note_failure(folder, step, record.error, clock, attempt)
        raise record.error
    return summary


def _note_failure(
    folder: RunFolder, step: str, error: Exception, clock: Clock, attempt: StepTry | None
) -> None:
    """Record a failure for the report; the step's own error is what its caller must see."""
    try:
        folder.settle()
        folder.write_failure(step, error, clock(), attempt)
    except DredgeError as found:
        log.warning("run %s: the failure of %s was not recorded: %s", folder.run_id, step, found)


PLAN = "plan"
_LEASE = "lease"


def links_of(outputs: Iterable[type[StepOutput]]) -> dict[str, list[str]]:
    """What each of some results, and of those they were made from, must have been made from.

    Args:
        outputs: of steps.

    Returns:
        The names of the steps that each step reads, by step; `PLAN` where it reads nothing but the plan.
    """
    links: dict[str, list[str]] = {}
    for output in outputs:
        links |= links_of(output.INPUTS)
        links[output.STEP] = [item.STEP for item in output.INPUTS] or [PLAN]
    return links


def plan_digest(folder: RunFolder) -> str:
    """SHA-256 of the run's plan as it is stored, but for the lease: a run that is resumed goes on under a new one."""
    return _digest(folder.read_once(f"{PLAN}.json"))


def _digest(stored: Mapping[str, Any]) -> str:
    plan = {name: value for name, value in stored.items() if name != _LEASE}
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def breaks(
    links: Mapping[str, Sequence[str]], summaries: Mapping[str, StepSummary], plan: str
) -> Iterator[str]:
    """Tell where a chain is broken, as half sentences; nothing when it holds.

    Args:
        links: what each step must have read, by step; `PLAN` stands for the plan.
        summaries: of all these steps.
        plan: digest of the plan.
    """
    digests = {PLAN: plan, **{step: summary.digest for step, summary in summaries.items()}}
    for step, wanted in links.items():
        read = summaries[step].inputs
        if missing := sorted(set(wanted) - read.keys()):
            yield f"{step} was made without {', '.join(missing)}"
        for name, digest in read.items():
            if digests.get(name) != digest:
                yield f"{step} was made from another result of {name} than the one that stands now"


def check_chain(
    folder: RunFolder,
    step: str,
    links: Mapping[str, Sequence[str]],
    seen: Mapping[str, StepSummary] | None = None,
) -> dict[str, StepSummary]:
    """Read a chain afresh, and demand that it is unbroken.

    Args:
        folder: the run folder.
        step: that builds on the chain.
        links: what each step must have read, by step; `PLAN` stands for the plan.
        seen: summaries that the caller works with; they must be the ones that stand.

    Returns:
        The summaries, by step.

    Raises:
        RefusedError: a step is not complete, or the chain is broken.
    """
    with at_once() as ask:
        plan = ask(folder.read_json, f"{PLAN}.json")
        found = required(folder, step, list(links))
    wrong = list(breaks(links, found, _digest(plan.result())))
    for name, summary in (seen or {}).items():
        if name in found and found[name].digest != summary.digest:
            wrong.append(f"{name} was done again meanwhile")
    if wrong:
        raise RefusedError(
            f"run {folder.run_id}: its results do not belong together: {'; '.join(wrong)}. Nothing (more) was"
            " deleted. Run these steps and the ones after them again, or start a new run."
        )
    return found
