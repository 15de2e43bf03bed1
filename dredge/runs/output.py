"""What a step hands to the steps after it: one typed view of its summary.

Each step has a class of its own, which names the step, the steps it reads, and every file and figure that others may
use. The names of files stay inside: who needs the ranges asks `ListCommittedOutput.of(summary).ranges`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dredge.errors import FormatError
from dredge.runs.summary import PartInfo, StepSummary


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The result of a complete step.

    Attributes:
        STEP: its name: the task's id, the package, the folder in the store.
        INPUTS: outputs that the step reads; none for a step that reads nothing but the plan.
        summary: what the step left.
    """

    STEP: ClassVar[str]
    INPUTS: ClassVar[tuple[type[StepOutput], ...]] = ()

    summary: StepSummary

    @classmethod
    def of(cls, summary: StepSummary) -> Self:
        """View a summary.

        Raises:
            FormatError: it is another step's.
        """
        if summary.step != cls.STEP:
            raise FormatError(f"run {summary.run_id}: a summary of {summary.step} is none of {cls.STEP}")
        return cls(summary)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that matters to a reader."""
        return self.summary.digest

    @property
    def counts(self) -> Mapping[str, int]:
        """Figures by name, unit last."""
        return self.summary.counts

    def detail(self, name: str) -> Any:
        """Give a further fact.

        Raises:
            FormatError: the step left none of that name.
        """
        try:
            return self.summary.details[name]
        except KeyError:
            raise FormatError(
                f"run {self.summary.run_id}: step {self.STEP} left no {name}. Run the step again."
            ) from None

    def part(self, name: str) -> PartInfo:
        """Give the part `<step>/<name>`; raises FormatError when the step wrote none."""
        return self.summary.part(f"{self.STEP}/{name}")

    def parts(self, prefix: str) -> list[PartInfo]:
        """Give the parts whose name starts with `<step>/<prefix>`, in the order they were recorded."""
        return self.summary.parts_below(f"{self.STEP}/{prefix}")
