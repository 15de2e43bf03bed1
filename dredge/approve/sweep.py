"""The driver of a sweep, for both collectors; `dredge.runs.sweep` has its workers.

approved? young mark? → delete, in rounds: re-check → `check_right` → workers, watched
                          ↓ also after an error
                        settle: a row of the ledger for each object, and figures
"""

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from dredge.approve.records import ApproveOutput, Veto, approval_inputs, approval_of
from dredge.errors import DredgeError
from dredge.runs.failures import as_defects, as_partial, partial_after
from dredge.runs.gate import GateConfig
from dredge.runs.payload import StepOutput
from dredge.runs.run import CollectionRun, StepRecord, check_chain, collect_links, refuse_old_mark
from dredge.runs.tasks import TaskRunner
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")


@dataclass(slots=True)
class Sweep[R: CollectionRun[Any]](ABC):
    """A sweep of a collector: `perform` is the body of its step."""

    OUTPUT: ClassVar[type[StepOutput]]
    APPROVE: ClassVar[type[ApproveOutput]]

    run: R
    runner: TaskRunner
    record: StepRecord

    @classmethod
    def inputs(cls, run: R) -> list[type[StepOutput]]:
        """Return the inputs of the step, with the approval if the run needs one."""
        return [*cls.OUTPUT.INPUTS, *approval_inputs(run.plan, run.folder, cls.APPROVE)]

    @abstractmethod
    def refuse_alarmed(self) -> None:
        """Refuse to delete while an alarm is open."""

    @abstractmethod
    def delete(self) -> None:
        """Check again and delete, each time after `check_right`."""

    @abstractmethod
    def settle(self, complete: bool) -> DredgeError | None:
        """Settle the ledger, of a complete sweep or not; returns the error for failed deletions."""

    @property
    @abstractmethod
    def has_begun(self) -> bool:
        """Whether objects may have been deleted."""

    def perform(self) -> None:
        """Delete the candidates; a dry run only counts them. Raises DredgeError: the run may not delete."""
        run, record = self.run, self.record
        if run.plan.dry_run:
            self.check_chain()
            counts = record.input(self.APPROVE.GUARDS).counts
            record.status = "dry_run"
            record.counts["would_delete_objects"] = counts["deletable_objects"]
            record.counts["would_delete_bytes"] = counts["deletable_bytes"]
            return
        self.check_approval()
        refuse_old_mark(run)
        self.delete_then_settle()

    def delete_then_settle(self) -> None:
        """Delete, and settle the ledger also after an error; the record gets status and error if not all was deleted.
        Raises DredgeError: the sweep was complete, and the ledger could not be settled."""
        record, stopped = self.record, None
        try:
            with as_defects(f"step {record.attempt.step}", record.attempt.writer.uri):
                self.delete()
        except DredgeError as error:
            stopped = error
        with partial_after(self._describe_deleted):
            try:
                failed = self.settle(stopped is None)
            except DredgeError:
                if stopped is None:
                    raise
                log.exception("the ledger could not be settled")
                failed = None
        if (error_to_end_with := stopped or failed) is not None:
            record.status = "partial"
            record.error = as_partial(error_to_end_with, self._describe_deleted())

    def _describe_deleted(self) -> str:
        deleted = self.record.counts.get("deleted_objects")
        if deleted is None:  # the ledger was not settled
            return "Deleted objects are in the ledger." if self.has_begun else ""
        return f"{deleted:,} objects were deleted; the ledger lists them." if deleted else ""

    def check_approval(self) -> Veto:
        """Check guards and approval; see `approval_of`."""
        return approval_of(self.run, self.record, self.APPROVE)

    def check_chain(self) -> None:
        """Check that the chain of the inputs is unbroken and unchanged: the re-check omits data of the mark, so it must
        be the mark of these candidates."""
        approved = [self.APPROVE] if self.APPROVE.STEP in self.record.inputs else []
        links = collect_links([*self.OUTPUT.INPUTS, *approved])
        check_chain(self.run.folder, self.OUTPUT.STEP, links, self.record.inputs)

    def check_right(self, *own: Callable[[], object]) -> Veto:
        """Check right before deleting, after the re-check, that the run may delete; `own`: checks of the collector.
        Returns a check for a rejection meanwhile."""
        with at_once() as ask:
            checks = [ask(check) for check in (*own, self.refuse_alarmed, self.check_chain, self._hold)]
            approval = ask(self.check_approval)
        for check in checks:
            check.result()
        return approval.result()

    def _hold(self) -> None:
        with at_once() as ask:
            newest = ask(self.record.attempt.check)
            # No more waiting for an answer.
            self.run.lease.renew(self.run.plan.lease, take_back=False, shorten=True, allowed=newest.result)

    def gate(self, turn: int = 0, publishes: bool = False) -> GateConfig:
        """Return the gate of a round's workers."""
        plan, number = self.run.plan, self.record.attempt.number
        # Unique to this driver, even if a number is reused after its object was lost: the checks of another driver say
        # nothing about the workers of this one.
        step, name = self.OUTPUT.STEP, f"{number:03d}-{turn:03d}-{uuid.uuid4().hex[:8]}"
        return GateConfig(
            lease=plan.lease,
            watch=f"{step}/_watch/{name}.json",
            trusted_seconds=plan.config.safety.gate_every_seconds,
            silence_seconds_max=plan.config.safety.watch_silence_seconds_max,
            published=f"{step}/_published/{name}" if publishes else "",
        )
