"""The summary of a step, the parts it wrote, and typed views of summaries.

A summary is written last. A reader of a step uses only the parts in its summary, so files of a killed try do no harm.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Self

from dredge.errors import FormatError
from dredge.runs.payload import from_json, to_json

# Fields that are not part of the digest.
_NO_MATTER = ("started_at", "finished_at", "warnings")

type Status = Literal["success", "dry_run", "awaiting_approval", "rejected", "refused", "partial", "alarm"]


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A file of a step."""

    name: str  # how other steps find it, such as "committed/ranges-00000.parquet"
    rows: int  # number of rows, or of values in a file of bare numbers
    size_bytes: int
    sha256: str
    key: str = ""  # relative to the folder it was written to; a try has its own folder. "" is the name.

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.name)


@dataclass(frozen=True, slots=True)
class StepSummary:
    """The result of a step."""

    step: str
    run_id: str
    # "success"; "dry_run" if a wet run would make changes; "awaiting_approval"; "rejected" by a person;
    # "refused" by a guard; "partial" if some objects could not be deleted; "alarm" if live objects had been
    # deleted. The first two are complete.
    status: Status
    started_at: datetime
    finished_at: datetime
    # by name, unit last (`candidates_objects`, `candidates_bytes`)
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[PartInfo, ...] = ()
    # digests of the input steps, by step; of the plan for a step without inputs
    inputs: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    try_number: int = 0  # 0 for a step without tries

    @property
    def digest(self) -> str:
        """SHA-256 of all fields except times and warnings.

        The try number is included: after another try, dependent steps must run again, even if the results are equal.
        """
        matter = {name: value for name, value in to_json(self).items() if name not in _NO_MATTER}
        return hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return (self.finished_at - self.started_at).total_seconds()

    def part(self, name: str) -> PartInfo:
        """Return a part by name. Raises FormatError if there is no such part."""
        for part in self.parts:
            if part.name == name:
                return part
        raise FormatError(f"run {self.run_id}: step {self.step} names no part {name}. Run the step again.")

    def parts_below(self, prefix: str) -> list[PartInfo]:
        """Return the parts whose names start with a prefix, in recorded order."""
        return [part for part in self.parts if part.name.startswith(prefix)]

    def as_xcom(self) -> dict[str, Any]:
        """Return figures for an orchestrator, without lists of files."""
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
    """A typed view of a step's summary. Each step has a subclass with its name, its inputs, its files and figures."""

    STEP: ClassVar[str]  # the step's name: task id, package, and folder in the store
    # outputs of the input steps; () for a step after the plan
    INPUTS: ClassVar[tuple[type[StepOutput], ...]] = ()

    summary: StepSummary

    @classmethod
    def of(cls, summary: StepSummary) -> Self:
        """View a summary. Raises FormatError if the summary is of another step."""
        if summary.step != cls.STEP:
            raise FormatError(f"run {summary.run_id}: a summary of {summary.step} is none of {cls.STEP}")
        return cls(summary)

    @property
    def digest(self) -> str:
        """Digest of the summary."""
        return self.summary.digest

    @property
    def counts(self) -> Mapping[str, int]:
        """Figures by name, unit last."""
        return self.summary.counts

    def detail(self, name: str) -> Any:
        """Return a detail. Raises FormatError if the step wrote no such detail."""
        try:
            return self.summary.details[name]
        except KeyError:
            raise FormatError(
                f"run {self.summary.run_id}: step {self.STEP} left no {name}. Run the step again."
            ) from None

    def part(self, name: str) -> PartInfo:
        """Return the part `<step>/<name>`; raises FormatError if there is none."""
        return self.summary.part(f"{self.STEP}/{name}")

    def parts(self, prefix: str) -> list[PartInfo]:
        """Return the parts whose names start with `<step>/<prefix>`, in recorded order."""
        return self.summary.parts_below(f"{self.STEP}/{prefix}")


class NamedPart:
    """An attribute of a step's output: its part of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, output: StepOutput, _: type[StepOutput]) -> PartInfo:
        return output.part(self._name)


class NamedParts:
    """An attribute of a step's output: its parts with names that start like this, in recorded order."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __get__(self, output: StepOutput, _: type[StepOutput]) -> list[PartInfo]:
        return output.parts(self._prefix)


_DEMANDED: Any = object()


class Detail[T]:
    """An attribute of a step's output: a detail, as a payload of a type if one is given. Raises FormatError without
    the detail, unless it has a default."""

    def __init__(self, name: str, kind: type[T] | None = None, default: Any = _DEMANDED) -> None:
        self._name = name
        self._kind = kind
        self._default = default

    def __get__(self, output: StepOutput, _: type[StepOutput]) -> T:
        if self._default is not _DEMANDED and self._name not in output.summary.details:
            found: T = self._default
            return found
        found = output.detail(self._name)
        return found if self._kind is None else from_json(self._kind, found)
