"""Whether a person has to be asked.

It follows from the plan and from what the guards found, so the sweep works it out for itself: no step can say that
nobody had to be asked.
"""

from __future__ import annotations

from dredge.approve.asking import AskingPlan
from dredge.approve.output import ApproveOutput, GuardsOutput
from dredge.approve.settings import ALWAYS, NEVER
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput

LET_IT = "Raise the limit, or let a person approve it (approval)"
"""What whoever meets a limit may do, where nobody is to be asked."""


def why_asked(plan: AskingPlan, guards: GuardsOutput) -> str:
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


def approval_inputs(
    plan: AskingPlan, folder: RunFolder, output: type[ApproveOutput]
) -> tuple[type[StepOutput], ...]:
    """Give what the sweep of a run reads besides the results that every sweep reads.

    Args:
        plan: of the run.
        folder: the run folder.
        output: of the collector's step approve.
    """
    guards = folder.read_summary(output.GUARDS.STEP)
    asked = guards is not None and why_asked(plan, output.GUARDS.of(guards))
    return (output,) if asked else ()
