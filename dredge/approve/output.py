"""Results of the guards and of the step approve, and the need for an approval. Each collector has subclasses.

The need follows from the plan and the result of the guards; the sweep computes it again, so no step can skip it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from dredge.approve.settings import ALWAYS, NEVER
from dredge.errors import RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.limits import Finding, worst
from dredge.runs.run import PlannedRun
from dredge.runs.steps import StepRecord
from dredge.runs.summary import Detail, StepOutput
from dredge.undo.ways import UndoCost


class GuardsOutput(StepOutput):
    """The result of each guard, with the figures `deletable_objects` and `deletable_bytes`."""

    STEP = "check_limits"

    # Of all guards and limits: passed, awaiting_approval or refused.
    verdict: Detail[str] = Detail("verdict")
    # Of each guard, as JSON objects.
    findings: Detail[list[dict[str, Any]]] = Detail("findings")
    undo = Detail("undo", UndoCost)


class ApproveOutput(StepOutput):
    """The request to a person, and the answer. A run without a request has no such step.

    Attributes:
        CANDIDATES: the result with the candidates' digest.
        COMMAND: of the terminal, followed by `approve` or `reject`.
    """

    STEP = "approve"
    GUARDS: ClassVar[type[GuardsOutput]]
    CANDIDATES: ClassVar[type[StepOutput]]
    COMMAND: ClassVar[str]

    # SHA-256 of the answered request.
    request_digest: Detail[str] = Detail("request_digest")
    # For reports: `state` ("waiting", "approved" or "rejected"), `why`, `objects`, `bytes`, `answer_until`; after an
    # answer also `by`, `through`, `at`.
    approval: Detail[dict[str, Any]] = Detail("approval")


GUARD = "guard.json"
"""The findings of the guards, for people."""


def conclude(
    run: PlannedRun[Any], record: StepRecord, findings: Sequence[Finding], excused: Collection[str] = ()
) -> None:
    """End the step of the guards by their findings.

    A run beyond its limits continues to a question, where wanted. A dry run continues despite limits and the `excused`
    rules. Every other finding refuses the run: status and error of the record.
    """
    verdict, dry_run, wanted = worst(findings), run.plan.dry_run, run.plan.config.approval
    if verdict == "passed":
        return
    bad = [item for item in findings if item.verdict == verdict]
    message = f"run {run.plan.run_id}: {'; '.join(f'{item.rule}: {item.text}' for item in bad)}. Nothing was deleted."
    is_limit = verdict == "awaiting_approval"
    if dry_run and (is_limit or all(item.rule in excused for item in bad)):
        would = "await approval" if is_limit and wanted != NEVER else "be refused"
        record.warn(f"a run that deletes would {would}: {message}")
    elif not is_limit or wanted == NEVER:
        record.status = "refused"
        advice = (
            " Raise the limit, or let a person approve it (approval) if you want this." if is_limit else ""
        )
        record.error = RefusedError(f"{message} Read {run.folder.uri}/{GUARD}.{advice}")


def why_asked(plan: Any, guards: GuardsOutput) -> str:
    """The reason for an approval of this run, as a sentence; "" when none is needed."""
    wanted = plan.config.approval
    if plan.dry_run or wanted == NEVER or not guards.counts["deletable_objects"]:
        return ""
    if guards.verdict == "awaiting_approval":
        over = [
            f"{item['rule']}: {item['text']}"
            for item in guards.findings
            if item["verdict"] == "awaiting_approval"
        ]
        return f"More would be deleted than a limit allows: {'; '.join(over)}."
    return "Every run that deletes needs an approval." if wanted == ALWAYS else ""


def approval_inputs(
    plan: Any, folder: RunFolder, output: type[ApproveOutput]
) -> tuple[type[StepOutput], ...]:
    """The additional inputs of a sweep with an approval."""
    guards = output.GUARDS.find(folder)
    asked = guards is not None and why_asked(plan, guards)
    return (output,) if asked else ()
