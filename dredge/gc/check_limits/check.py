"""What a guard is shown."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.canaries import Canary
from dredge.gc.check_limits.identical import Proof
from dredge.gc.check_limits.output import HoldFiles
from dredge.gc.check_limits.tally import Tally
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.pending.advance import Advanced
from dredge.gc.pending.known import Known
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SubtractOutput
from dredge.runs.limits import Finding
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo


@dataclass(frozen=True, slots=True)
class Canaries:
    """A sample of what branches show.

    Attributes:
        living: all of it.
        dead: those that would be deleted.
        ambiguous: those that would be, where the server may mean another key, which stays; they are held.
    """

    living: list[Canary]
    dead: list[Canary]
    ambiguous: list[Canary]


@dataclass(frozen=True)
class Check:
    """A run right before it may delete.

    Attributes:
        run: this run.
        record: of the step; guards add figures and warnings.
        proof: about the candidates that are held for their size.
        tally: what is held.
        doomed: files with the hashes of everything that may be deleted, now or after its wait.
        holds: what was proved about candidates.
        known: the pending list before this run.
        pending: the list after it.
        sample: objects that branches show.
    """

    run: Run
    record: StepRecord
    proof: Proof
    tally: Tally
    doomed: list[PartInfo]
    holds: HoldFiles
    known: Known
    pending: Advanced
    sample: Future[list[Canary]]

    @cached_property
    def namespaces(self) -> dict[str, str]:
        """Storage namespace of every repository of the server, by name; asked once, for all guards."""
        return {found.name: found.namespace for found in self.run.client.repositories()}

    @cached_property
    def sampled(self) -> Canaries:
        """Objects that branches show, and those of them that would be deleted; asked once."""
        living = self.sample.result()
        dead = canaries.among(self.run, living, self.doomed)
        ambiguous = canaries.ambiguous(self.run, dead, self.doomed)
        return Canaries(living, [canary for canary in dead if canary not in ambiguous], ambiguous)

    @property
    def listing(self) -> SliceListingOutput:
        """What the store holds."""
        return self.record.input(SliceListingOutput)

    @property
    def staged(self) -> MarkUncommittedOutput:
        """What branches have staged."""
        return self.record.input(MarkUncommittedOutput)

    @property
    def committed(self) -> ListCommittedOutput:
        """What active commits name."""
        return self.record.input(ListCommittedOutput)

    @property
    def candidates(self) -> SubtractOutput:
        """What nothing live names."""
        return self.record.input(SubtractOutput)


def must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    """A finding that refuses the run unless something holds.

    Args:
        rule: stable name of the guard.
        holds: whether the run may go on.
        figure: what was measured; begins the sentence.
        limit: what it was compared with; None where there is none.
        text: the rest of the sentence.
    """
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")
