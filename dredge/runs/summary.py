"""What a step leaves behind: its summary, and the parts it wrote.

A summary is written last. Who reads a step takes the parts that its summary names, and nothing else that lies
in the folder: leftovers of a killed try are therefore harmless.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Self

from dredge.errors import FormatError
from dredge.runs.payload import to_json

_NO_MATTER = ("started_at", "finished_at", "warnings")
"""Fields of a summary that no reader acts on."""

type Status = Literal["success", "dry_run", "awaiting_approval", "rejected", "refused", "partial", "alarm"]


@dataclass(frozen=True, slots=True)
class PartInfo:
    """One file that a step wrote.

    Attributes:
        name: what other steps look it up by, such as "committed/ranges-00000.parquet".
        rows: rows in it (values, for files of bare numbers).
        size_bytes: length.
        sha256: of its bytes, hex.
        key: where it lies, relative to the folder it was written to. Files of a step's try lie in the try's own
            folder; all others under their name, which is what "" stands for.
    """

    name: str
    rows: int
    size_bytes: int
    sha256: str
    key: str = ""

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.name)


@dataclass(frozen=True, slots=True)
class StepSummary:
    """What a step did.

    Attributes:
        step: its name, which is also its folder.
        run_id: the run it belongs to.
        status: "success"; "dry_run" where a wet run would have changed something; "awaiting_approval"
            when a person has to say yes before the run may go on, "rejected" when one said no, "refused" when a guard
            did; "partial" when some objects could not be deleted; "alarm" when live objects had been deleted. Only
            the first two count as complete.
        counts: figures by name, unit last (`candidates_objects`, `candidates_bytes`).
        parts: files that belong to the result.
        inputs: digest of each step this one read, by step; of "plan" as well where it builds on nothing else.
        warnings: sentences for the report.
        details: further small facts, JSON.
        started_at: aware UTC.
        finished_at: aware UTC.
        try_number: of the try that did it; 0 where a step is not tried by numbers.
    """

    step: str
    run_id: str
    status: Status
    started_at: datetime
    finished_at: datetime
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[PartInfo, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    try_number: int = 0

    @property
    def digest(self) -> str:
        """SHA-256 of everything that matters to a reader: not of times and warnings.

        The number of the try belongs to it. A step that was done again was done at another time, and what read
        the earlier result must be done again too, however equal the two look.
        """
        matter = {name: value for name, value in to_json(self).items() if name not in _NO_MATTER}
        return hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()

    @property
    def seconds(self) -> float:
        """How long the step took."""
        return (self.finished_at - self.started_at).total_seconds()

    def part(self, name: str) -> PartInfo:
        """Give the part of that name.

        Raises:
            FormatError: the step wrote none.
        """
        for part in self.parts:
            if part.name == name:
                return part
        raise FormatError(f"run {self.run_id}: step {self.step} names no part {name}. Run the step again.")

    def parts_below(self, prefix: str) -> list[PartInfo]:
        """Give the parts whose name starts with a prefix, in the order they were recorded."""
        return [part for part in self.parts if part.name.startswith(prefix)]

    def as_xcom(self) -> dict[str, Any]:
        """What an orchestrator may keep: figures, no lists of files."""
        return {
            "step": self.step,
            "run_id": self.run_id,
            "status": self.status,
            "counts": dict(self.counts),
            "warnings": list(self.warnings),
            "digest": self.digest,
            "seconds": round(self.seconds, 3),
        }


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
