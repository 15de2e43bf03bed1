"""What check_limits hands to later steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dredge.approve.output import GuardsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SubtractOutput
from dredge.runs.summary import PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFiles:
    """What was proved about candidates that are held for their size; a payload. `Holds` reads it.

    Attributes:
        size_verdicts: rows of the sizes that were looked into, each with what holds objects of that size.
        served: sorted hashes of the candidates that a branch reads.
        cleared: sorted hashes of the candidates that may go.
        ambiguous: sorted hashes of candidates whose address lakeFS shows for an object with another key; None: there
            are none.
        confirmed: files of sorted hashes of the candidates that an earlier run found and that have waited since.
        waits: whether all others wait.
    """

    size_verdicts: PartInfo
    served: PartInfo
    cleared: PartInfo
    ambiguous: PartInfo | None = None
    confirmed: tuple[PartInfo, ...] = ()
    waits: bool = True


class CheckLimitsOutput(GuardsOutput):
    """What each guard found, and which candidates are held."""

    INPUTS = (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput, SubtractOutput)

    @property
    def held(self) -> list[dict[str, Any]]:
        """Candidates that stay, by code: code, why, objects, bytes, examples."""
        found: list[dict[str, Any]] = self.detail("held")
        return found

    @property
    def pending(self) -> dict[str, Any]:
        """Figures of the pending list after this run (`dredge.runs.pending.figures`); {} in older runs."""
        found: dict[str, Any] = self.summary.details.get("pending", {})
        return found

    @property
    def would_delete(self) -> list[dict[str, Any]]:
        """What may go, by the reason why it is garbage: reason, objects, bytes, examples."""
        found: list[dict[str, Any]] = self.detail("would_delete")
        return found

    def may_go(self, candidates: SubtractOutput) -> Sequence[PartInfo]:
        """Files of hashes of all that the run may delete, at most.

        Args:
            candidates: of the run.
        """
        files = self.hold_files
        # A run of an earlier version deleted what it found itself.
        waits = self.summary.details.get("waits", False)
        return files.confirmed if waits else [*candidates.hashes, files.cleared]

    @property
    def hold_files(self) -> HoldFiles:
        """What was proved about candidates that are held."""
        return HoldFiles(
            size_verdicts=self.part("sizes-00000.parquet"),
            served=self.part("served.u64"),
            cleared=self.part("cleared.u64"),
            ambiguous=next(iter(self.parts("ambiguous.u64")), None),
            confirmed=tuple(self.parts("confirmed-")),
            waits=self.summary.details.get("waits", True),
        )
