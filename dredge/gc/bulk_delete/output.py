"""What bulk_delete hands to later steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.runs import ledger
from dredge.runs.payload import from_json
from dredge.runs.summary import PartInfo, StepOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Objects with the same fate; a payload.

    Attributes:
        reason: why they are garbage.
        outcome: what became of them.
        code: of what kept them, or of the store's error; "" where there is none.
        objects: how many.
        size_bytes: their sizes together.
    """

    reason: str
    outcome: str
    code: str
    objects: int
    size_bytes: int

    @classmethod
    def of(cls, sums: Mapping[str, Any]) -> Group:
        """Make one of the sums that `ledger.settle_rows` gives."""
        return cls(
            reason=sums["reason"],
            outcome=sums["outcome"],
            code=sums["code"] or "",
            objects=sums["objects"],
            size_bytes=sums["bytes"],
        )

    @property
    def fate(self) -> tuple[str, str, str]:
        """What tells groups apart: reason, outcome, code."""
        return self.reason, self.outcome, self.code

    def with_more(self, more: Group) -> Group:
        """Add a group of the same fate."""
        return replace(
            self, objects=self.objects + more.objects, size_bytes=self.size_bytes + more.size_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An object that could not be deleted; a payload.

    Attributes:
        address: key relative to the namespace.
        code: of the store's error.
        message: the store's words.
    """

    address: str
    code: str | None
    message: str | None


class BulkDeleteOutput(StepOutput):
    """What became of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    @property
    def settled(self) -> list[PartInfo]:
        """Rows of the ledger, one for each candidate; none in a dry run."""
        return self.parts("")

    def settled_of(self, part: PartInfo) -> PartInfo:
        """Give the rows of the ledger for a part of the candidates; raises FormatError when there are none."""
        return self.part(f"{ledger.stem_of(part)}.parquet")

    @property
    def is_settled(self) -> bool:
        """Whether it is known what became of each candidate; not so in a dry run."""
        return "groups" in self.summary.details

    @property
    def groups(self) -> list[Group]:
        """Objects by their fate; empty in a dry run."""
        return [from_json(Group, value) for value in self.summary.details.get("groups", [])]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Some of the objects that could not be deleted, as JSON objects of `Failure`."""
        found: list[dict[str, Any]] = self.summary.details.get("failures", [])
        return found
