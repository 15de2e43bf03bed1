"""Whether a person has to be asked.

It follows from the plan and from what the guards found, so the sweep works it out for itself: no step can say that
nobody had to be asked.
"""

from __future__ import annotations

from dredge.gc.approve.output import ApproveOutput
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.config import ALWAYS, NEVER
from dredge.gc.plan import Plan
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput


def why_asked(plan: Plan, guards: CheckLimitsOutput) -> str:
    """Say as a sentence why a person has to approve what a run would delete; "" when nobody has to.

    Args:
        plan: of the run.
        guards: what they found; complete.
    """
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


def approval_inputs(plan: Plan, folder: RunFolder) -> tuple[type[StepOutput], ...]:
    """Give what the sweep of a run reads besides the results that every sweep reads.

    Args:
        plan: of the run.
        folder: the run folder.
    """
    guards = folder.read_summary(CheckLimitsOutput.STEP)
    asked = guards is not None and why_asked(plan, CheckLimitsOutput.of(guards))
    return (ApproveOutput,) if asked else ()
