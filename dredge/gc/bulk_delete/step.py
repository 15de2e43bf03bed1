"""Bulk delete: re-check, then delete the candidates in rounds, and write the outcome of each to the ledger.

      → re-check → delete, group by group, through the gate → settle
           ↑                      │
           └ a ref at an unchecked commit, other rules, an hour ┘

New commits on known parents do not end a round: their addresses leave the candidates while workers delete.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dredge.approve.sweep import Sweep
from dredge.errors import DredgeError, UnavailableError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete.sweep import (
    BulkDeleteOutput,
    KeepConfig,
    SweepConfig,
    keep_parts,
    settle,
    sweep_parts,
)
from dredge.gc.bulk_delete.watch import (
    ROUND_OVER,
    Seen,
    Subtracted,
    check_sharing,
    look_before_recheck,
    recheck,
    watching_refs,
)
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import Site, check_before_deleting
from dredge.runs.clock import running_seconds
from dredge.runs.gate import Watch
from dredge.runs.payload import PartInfo, StepSummary
from dredge.runs.run import Ahead
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import read_hashes, unite
from dredge.storage import store_clock
from dredge.storage.parallel import at_once
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.deletions import note_deletion
from dredge.undo.pins import names_of, read_pins, sets_of

_STEP = BulkDeleteOutput.STEP


def bulk_delete(run: Run, runner: TaskRunner) -> StepSummary:
    """Delete the candidates after a re-check; a dry run only counts them. After an error the step continues where the
    ledger ends. Raises RefusedError: a guard refused, an approval is missing, the results do not belong together, the
    mark is too old or of another version, or the namespace is blocked or owned by another server; AlarmError: live
    objects had been deleted, without an acknowledgement; LeaseHeldError: another run has taken over; UnavailableError,
    ConfigError, PartialError: some objects could not be deleted, or branches not be checked."""

    def look(found: Mapping[str, StepSummary]) -> Seen | None:
        deletes = found[CheckLimitsOutput.STEP].counts["deletable_objects"] and not run.plan.dry_run
        return look_before_recheck(run) if deletes else None

    seen = Ahead(look)
    return run.step(
        BulkDeleteOutput,
        lambda record: _Sweep(run, runner, record, seen).perform(),
        _Sweep.inputs(run),
        seen,
    )


@dataclass(slots=True)
class _Sweep(Sweep[Run]):
    OUTPUT, APPROVE = BulkDeleteOutput, ApproveOutput

    seen: Ahead[Seen | None]

    @property
    def has_begun(self) -> bool:
        # Each round of deleting begins with a re-check.
        return "rechecks" in self.record.details

    def refuse_alarmed(self) -> None:
        refuse_alarmed(self.run.state, f"run {self.run.plan.run_id} deletes nothing")

    def check_chain(self) -> None:
        if self.record.input(SubtractOutput).candidates:
            Sweep.check_chain(self)

    def settle(self, complete: bool) -> DredgeError | None:
        return settle(self.run, self.runner, self.record, complete)

    def delete(self) -> None:
        """Delete in rounds: each begins with a re-check, and ends after an hour, or at a change to be re-checked."""
        if not (parts := self.record.input(SubtractOutput).candidates):
            return
        committed = self.record.input(ListCommittedOutput)
        committed.refuse_other_readings()
        tasks = self.run.shares(self.runner, parts)
        if not self.record.input(CheckLimitsOutput).counts["deletable_objects"]:
            self._keep(tasks)  # a re-check would protect nothing
            return
        subtracted = Subtracted.of_mark(self.run, committed)
        for turn in itertools.count():
            if turn:
                self.check_approval()
            self._check_again(subtracted, turn)
            watch = self._delete_round(tasks, subtracted, turn)
            if watch is None:
                return
            if watch.error is not None or watch.found is None:
                silence = self.run.plan.config.safety.watch_silence_seconds_max
                why = watch.reason or f"branch heads were not checked for more than {silence:g} s"
                raise UnavailableError(
                    f"the sweep stopped because {why}. The ledger has all deletions. Run the step again when lakeFS and"
                    " the store answer; it continues from the ledger."
                )
            if watch.found != ROUND_OVER:
                self.record.warn(f"the sweep stopped ({watch.found}) and checked again")

    def _keep(self, tasks: Sequence[list[PartInfo]]) -> None:
        self.check_chain()
        held = KeepConfig(
            attempt=self.record.attempt.number,
            fencing=self.run.plan.lease.fencing,
            holds=self.record.input(CheckLimitsOutput).hold_files,
        )
        self.run.spread(self.runner, _STEP, keep_parts, held, tasks, "objects", _rows(tasks))

    def _check_again(self, subtracted: Subtracted, turn: int) -> None:
        where = f"recheck/{self.record.attempt.number:03d}-{turn:03d}"
        with at_once() as ask:
            # Written before the first round deletes.
            noted = None if turn else ask(self._note_deletion)
            seen = None if turn else self.seen.result(self.record.inputs)
            figures = recheck(self.run, self.runner, subtracted, where, seen)
        if noted is not None:
            noted.result()
        self.record.details.setdefault("rechecks", []).append(figures)

    def _note_deletion(self) -> None:
        """Write the hashes of all candidates beside the lease; later runs compare them with the live set."""
        self.record.attempt.check()  # an overtaken try must leave no record of a deletion
        parts = self.record.input(CheckLimitsOutput).may_go(self.record.input(SubtractOutput))
        note_deletion(self.run, unite([read_hashes(self.run.folder, part) for part in parts]))

    def _delete_round(
        self, tasks: Sequence[list[PartInfo]], subtracted: Subtracted, turn: int
    ) -> Watch | None:
        """Delete in a round; returns the watch if the gate closed before the end."""
        run = self.run
        # Read again after the re-check, right before deleting.
        with at_once() as ask:
            sharing, pins_read = ask(lambda: check_sharing(run)), ask(read_pins, run.state)
            right = ask(self.check_right, lambda: check_before_deleting(Site.of_run(run)))
            asked, at = running_seconds(), store_clock(run.state, "")
        kept, veto, pins = sharing.result(), right.result(), pins_read.result()
        now, gate = run.store_now(), self.gate(turn, publishes=True)
        config = SweepConfig(
            gate=gate,
            turn=turn,
            delete_keys=run.plan.config.tuning.delete_keys,
            alive=subtracted.live,
            holds=self.record.input(CheckLimitsOutput).hold_files,
            # A listed object may have been restored since.
            pinned=sets_of([pin for pin in pins if pin.until > now]),
            undo=run.plan.undo.way,
            nested=tuple(sorted(kept)),
        )
        is_recent = running_seconds() - asked < run.plan.config.safety.heads_every_seconds
        first = at if is_recent else None  # an old look would close the gate
        with watching_refs(run, subtracted, gate, kept, names_of(pins), veto, first) as watch:
            results = run.spread(self.runner, _STEP, sweep_parts, config, tasks, "objects", _rows(tasks))
        return watch if any(results) else None


def _rows(tasks: Sequence[list[PartInfo]]) -> int:
    return sum(part.rows for task in tasks for part in task)
