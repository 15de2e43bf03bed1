"""Runs a step: checks inputs, runs once, writes the summary last, records failures; and checks the chain of digests.

    plan ← slice_listing ← mark_uncommitted ← list_committed ← subtract ← check_limits

Every summary has the digests of the step's inputs, and a step reads its inputs before it starts. An unbroken chain
proves without any clock: no input was replaced later, and the steps ran in this order.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import DredgeError, RefusedError
from dredge.runs.clock import Clock
from dredge.runs.failures import foreseen
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo, Status, StepOutput, StepSummary
from dredge.runs.tries import StepTry
from dredge.storage.parallel import Ask, at_once

log = logging.getLogger("dredge")


@dataclass(slots=True)
class StepRecord:
    """Notes of a running step; becomes its summary. `error`: raised after the summary was written, for a step without
    success."""

    inputs: dict[str, StepSummary]
    attempt: StepTry
    counts: dict[str, int] = field(default_factory=dict)
    parts: list[PartInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    status: Status = "success"
    error: Exception | None = None

    def input[O: StepOutput](self, output: type[O]) -> O:
        """Return the result of an input step."""
        return output.of(self.inputs[output.STEP])

    def warn(self, text: str) -> None:
        """Add a sentence to the report, and log it."""
        log.warning(text)
        self.warnings.append(text)

    def add(self, **counts: int) -> None:
        """Add to counts."""
        for name, value in counts.items():
            self.counts[name] = self.counts.get(name, 0) + value


class Ahead[T]:
    """The first reads of a step. They begin beside its claim if the step's inputs are known by then, and again if one
    of them turns out to be of another try."""

    def __init__(self, read: Callable[[Mapping[str, StepSummary]], T]) -> None:
        self._read = read
        self._begun: Future[T] | None = None

    def begin(self, ask: Ask, inputs: Mapping[str, StepSummary]) -> None:
        """Begin to read."""
        self._begun = ask(self._read, inputs)

    def discard(self) -> None:
        """Drop what was read: it is older than an input."""
        self._begun = None

    def result(self, inputs: Mapping[str, StepSummary]) -> T:
        """Return what was read; reads now if nothing was read before."""
        return self._read(inputs) if self._begun is None else self._begun.result()


def required(folder: RunFolder, step: str, inputs: Sequence[str]) -> dict[str, StepSummary]:
    """Read the summaries of input steps. Raises RefusedError if a step is not complete."""
    return _complete(folder, step, folder.read_valid_summaries(inputs, afresh=True))


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
    ahead: Ahead[Any] | None = None,
) -> StepSummary:
    """Run a step unless it is complete with the same inputs.

    The inputs are read before the body starts. So the digest of an input in the summary proves that the input was
    complete before, independent of any clock.

    Args:
        inputs: must be complete; after a change of an input, this step runs again.
        right: called before a try is claimed; raises if this run may not continue, so that it fences off no other try.
        roots: digests of further inputs, by name.
        ahead: reads of the body.

    Returns:
        The stored summary of a complete step, else the new summary.

    Raises:
        RefusedError: an input is missing.
        OvertakenError: there is a later try; this try wrote no result.
        DefectError: an unexpected exception, which is its cause.
    """
    attempt: StepTry | None = None
    try:
        with foreseen(f"step {step} of run {folder.run_id}", folder.uri), ExitStack() as reading:
            known: dict[str, StepSummary] = {}
            if folder.goes_on:  # a step without a try has no result
                right()
                known = folder.known_summaries(inputs)
                if ahead is not None and known.keys() == set(inputs):
                    ahead.begin(reading.enter_context(at_once()), known)
                with at_once() as ask:
                    first, settled = ask(StepTry.claim_first, folder.writer, step), ask(folder.settle)
                    found = folder.read_valid_summaries(inputs)
                attempt = first.result()
                if (unwritten := settled.exception()) is not None:
                    folder.forget()  # the summary of an input may be the one that was not written
                    raise unwritten
            else:
                found = folder.read_valid_summaries([*inputs, step])
            stored = found.pop(step, None)
            if folder.goes_on and attempt is None:
                stored = folder.read_summary(step)
            before = _complete(folder, step, found)
            if ahead is not None and before != known:
                ahead.discard()
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
    try:
        folder.settle()
        folder.write_failure(step, error, clock(), attempt)
    except DredgeError as found:
        log.warning("run %s: the failure of %s was not recorded: %s", folder.run_id, step, found)


PLAN = "plan"
_LEASE = "lease"


def collect_links(outputs: Iterable[type[StepOutput]]) -> dict[str, list[str]]:
    """Return the input steps of each of some steps, and of their inputs; `PLAN` for a step without inputs."""
    links: dict[str, list[str]] = {}
    for output in outputs:
        links |= collect_links(output.INPUTS)
        links[output.STEP] = [item.STEP for item in output.INPUTS] or [PLAN]
    return links


def plan_digest(folder: RunFolder) -> str:
    """Return the SHA-256 of the stored plan without its lease: a resumed run has a new lease."""
    return _digest(folder.read_once(f"{PLAN}.json"))


def _digest(stored: Mapping[str, Any]) -> str:
    plan = {name: value for name, value in stored.items() if name != _LEASE}
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def breaks(
    links: Mapping[str, Sequence[str]], summaries: Mapping[str, StepSummary], plan: str
) -> Iterator[str]:
    """Yield the breaks in a chain, as half sentences. `links`: input steps by step; `PLAN` is the plan."""
    digests = {PLAN: plan, **{step: summary.digest for step, summary in summaries.items()}}
    for step, wanted in links.items():
        read = summaries[step].inputs
        if missing := sorted(set(wanted) - read.keys()):
            yield f"{step} was made without {', '.join(missing)}"
        for name, digest in read.items():
            if digests.get(name) != digest:
                yield f"{step} was made from another result of {name} than the current one"


def check_chain(
    folder: RunFolder,
    step: str,
    links: Mapping[str, Sequence[str]],
    seen: Mapping[str, StepSummary] | None = None,
) -> dict[str, StepSummary]:
    """Read a chain of summaries from the store, and check it.

    Args:
        links: input steps by step; `PLAN` is the plan.
        seen: summaries of the caller; must equal the stored ones.

    Returns:
        The summaries by step.

    Raises:
        RefusedError: a step is not complete, or the chain is broken.
    """
    with at_once() as ask:
        plan = ask(folder.read_json, f"{PLAN}.json")
        found = required(folder, step, list(links))
    wrong = list(breaks(links, found, _digest(plan.result())))
    for name, summary in (seen or {}).items():
        if name in found and found[name].digest != summary.digest:
            wrong.append(f"{name} was run again in the meantime")
    if wrong:
        raise RefusedError(
            f"run {folder.run_id}: its results do not match: {'; '.join(wrong)}. Nothing (more) was"
            " deleted. Run these steps and the ones after them again, or start a new run."
        )
    return found
