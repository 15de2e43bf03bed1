"""What the guards and the step `approve` hand to later steps; each collector has classes of its own, which say what
they are made from.

Whether a person has to be asked.

It follows from the plan and from what the guards found, so the sweep works it out for itself: no step can say that
nobody had to be asked.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dredge.approve.settings import ALWAYS, NEVER
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.payload import from_json
from dredge.undo.ways import UndoCost


class GuardsOutput(StepOutput):
    """What each guard found, and what may go. Its figures are `deletable_objects` and `deletable_bytes`."""

    STEP = "check_limits"

    @property
    def verdict(self) -> str:
        """Of all guards and limits together: passed, awaiting_approval or refused."""
        found: str = self.detail("verdict")
        return found

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Of each guard, as JSON objects."""
        found: list[dict[str, Any]] = self.detail("findings")
        return found

    @property
    def undo(self) -> UndoCost:
        """What it costs that deletions can be taken back."""
        return from_json(UndoCost, self.detail("undo"))


class ApproveOutput(StepOutput):
    """What a person was asked, and said. A run that has to ask nobody has no such step.

    Attributes:
        GUARDS: what is asked about: their result.
        CANDIDATES: and the result whose digest is that of the candidates.
        COMMAND: answers in a terminal, with `approve` or `reject` behind it.
    """

    STEP = "approve"
    GUARDS: ClassVar[type[GuardsOutput]]
    CANDIDATES: ClassVar[type[StepOutput]]
    COMMAND: ClassVar[str]

    @property
    def request_digest(self) -> str:
        """SHA-256 of the request that was answered."""
        found: str = self.detail("request_digest")
        return found

    @property
    def approval(self) -> dict[str, Any]:
        """For reports: `state` ("waiting", "approved" or "rejected"), `why`, `objects`, `bytes`, `answer_until`; once
        somebody answered also `by`, `through`, `at`."""
        found: dict[str, Any] = self.detail("approval")
        return found


LET_IT = "Raise the limit, or let a person approve it (approval)"
"""What whoever meets a limit may do, where nobody is to be asked."""


def why_asked(plan: Any, guards: GuardsOutput) -> str:
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
    plan: Any, folder: RunFolder, output: type[ApproveOutput]
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
