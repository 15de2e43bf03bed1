"""Bulk delete: re-check, then delete the candidates, and write the outcome of each to the ledger.

    unbroken chain? guards passed? approved, if needed? mark young enough?
      → re-check → delete, group by group, through the gate → settle
           ↑                      │
           └ a ref at an unchecked commit, other rules, an hour ┘

New commits on known parents do not end a round: their addresses leave the candidates while workers delete.

The candidates must come from an unbroken chain of listing, mark, subtract and guards, read again before each round:
the re-check omits data of the mark, so it must be the mark of these candidates.
"""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from functools import partial

from dredge.approve.records import approval_inputs, approval_of
from dredge.errors import UnavailableError
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
from dredge.gc.check_limits import CheckLimitsOutput, sample
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import Site, check_before_deleting
from dredge.runs.clock import running_seconds
from dredge.runs.gate import GateConfig, Watch
from dredge.runs.payload import PartInfo, StepOutput, StepSummary
from dredge.runs.run import Ahead, StepRecord, check_chain, collect_links, refuse_old_mark
from dredge.runs.sweep import sweep_then_settle
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import read_hashes, unite
from dredge.storage import store_clock
from dredge.storage.parallel import at_once
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.deletions import note_deletion
from dredge.undo.pins import names_of, read_pins, sets_of

_STEP, VERIFY = BulkDeleteOutput.STEP, "verify"


def bulk_delete(run: Run, runner: TaskRunner) -> StepSummary:
    """Delete the candidates after a re-check; a dry run only counts them.

    After an error the step continues where the ledger ends.

    Raises:
        RefusedError: a guard refused, an approval is missing, the results do not belong together, the mark is too old
            or of another version, or the namespace is blocked or owned by another server.
        AlarmError: live objects had been deleted, without an acknowledgement.
        LeaseHeldError: another run has taken over.
        UnavailableError: some objects could not be deleted, or branches not be checked; the others were deleted.
        ConfigError: the credentials may not delete, and no object was deleted.
        PartialError: the credentials may not delete the rest.
    """
    inputs: list[type[StepOutput]] = [
        *BulkDeleteOutput.INPUTS,
        *approval_inputs(run.plan, run.folder, ApproveOutput),
    ]

    def look(found: Mapping[str, StepSummary]) -> Seen | None:
        deletes = _deletable(CheckLimitsOutput.of(found[CheckLimitsOutput.STEP])) and not run.plan.dry_run
        return look_before_recheck(run) if deletes else None

    seen = Ahead(look)
    return run.step(BulkDeleteOutput, lambda record: _bulk_delete(run, runner, record, seen), inputs, seen)


def _deletable(guards: CheckLimitsOutput) -> int:
    return guards.counts["deletable_objects"]


def _bulk_delete(run: Run, runner: TaskRunner, record: StepRecord, seen: Ahead[Seen | None]) -> None:
    guards, parts = record.input(CheckLimitsOutput), record.input(SubtractOutput).candidates
    if run.plan.dry_run:
        if parts:
            _check_chain(run, record)
        record.status = "dry_run"
        record.counts["would_delete_objects"] = guards.counts["deletable_objects"]
        record.counts["would_delete_bytes"] = guards.counts["deletable_bytes"]
        return
    approval_of(run, record, ApproveOutput)
    record.input(ListCommittedOutput).refuse_other_readings()
    refuse_old_mark(run)
    sweep_then_settle(
        record,
        lambda: _sweep(run, runner, record, parts, seen),
        lambda complete: settle(run, runner, record, parts, complete),
        # Each round of deleting begins with a re-check.
        lambda: "rechecks" in record.details,
    )


def _check_chain(run: Run, record: StepRecord) -> None:
    """Check the chain of the inputs of the sweep: unbroken and unchanged."""
    approved = [ApproveOutput] if ApproveOutput.STEP in record.inputs else []
    check_chain(run.folder, _STEP, collect_links([*BulkDeleteOutput.INPUTS, *approved]), record.inputs)


def _sweep(
    run: Run, runner: TaskRunner, record: StepRecord, parts: Sequence[PartInfo], seen: Ahead[Seen | None]
) -> None:
    """Delete in rounds: each begins with a re-check, and ends after an hour, or at a change to be re-checked."""
    if not parts:
        return
    guards = record.input(CheckLimitsOutput)
    tasks = run.shares(runner, parts)
    if not _deletable(guards):  # a re-check would protect nothing
        _check_chain(run, record)
        held = KeepConfig(
            attempt=record.attempt.number, fencing=run.plan.lease.fencing, holds=guards.hold_files
        )
        run.spread(runner, _STEP, keep_parts, held, tasks, "objects", sum(part.rows for part in parts))
        return
    subtracted = Subtracted.of_mark(run, record.input(ListCommittedOutput))
    run.begin(VERIFY, partial(sample, run, VERIFY))  # live objects, to be found after the deletions
    for turn in itertools.count():
        if turn:
            approval_of(run, record, ApproveOutput)
        where = f"recheck/{record.attempt.number:03d}-{turn:03d}"
        with at_once() as ask:
            # Written before the first round deletes.
            noted = None if turn else ask(_note_deletion, run, record)
            figures = recheck(run, runner, subtracted, where, None if turn else seen.result(record.inputs))
        if noted is not None:
            noted.result()
        record.details.setdefault("rechecks", []).append(figures)
        watch = _delete(run, runner, record, tasks, subtracted, turn)
        if watch is None:
            return
        if watch.error is not None or watch.found is None:
            silence = run.plan.config.safety.watch_silence_seconds_max
            why = watch.reason or f"branch heads were not checked for more than {silence:g} s"
            raise UnavailableError(
                f"the sweep stopped because {why}. The ledger has all deletions. Run the step again when lakeFS and the"
                " store answer; it continues from the ledger."
            )
        if watch.found != ROUND_OVER:
            record.warn(f"the sweep stopped ({watch.found}) and checked again")


def _note_deletion(run: Run, record: StepRecord) -> None:
    """Write the hashes of all candidates beside the lease; later runs compare them with the live set."""
    record.attempt.check()  # an overtaken try must leave no record of a deletion
    parts = record.input(CheckLimitsOutput).may_go(record.input(SubtractOutput))
    note_deletion(run, unite([read_hashes(run.folder, part) for part in parts]))


def _delete(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    tasks: Sequence[list[PartInfo]],
    subtracted: Subtracted,
    turn: int,
) -> Watch | None:
    """Delete in a round; returns the watch if the gate closed before the end."""
    attempt = record.attempt.number
    # Unique to this driver, even if a number is reused after its object was lost: the checks of another driver say
    # nothing about the workers of this one.
    name = f"{attempt:03d}-{turn:03d}-{uuid.uuid4().hex[:8]}"
    # Read again after the re-check, right before deleting.
    with at_once() as ask:
        checks = [
            ask(lambda: check_before_deleting(Site.of_run(run))),
            ask(lambda: refuse_alarmed(run.state, f"run {run.plan.run_id} deletes nothing")),
            ask(lambda: _check_chain(run, record)),
            ask(lambda: _hold(run, record)),
        ]
        sharing, pins_read = ask(lambda: check_sharing(run)), ask(read_pins, run.state)
        approval = ask(approval_of, run, record, ApproveOutput)
        asked, at = running_seconds(), store_clock(run.state, "")
    kept = sharing.result()
    for check in checks:
        check.result()
    veto, pins = approval.result(), pins_read.result()
    now = run.store_now()
    safety = run.plan.config.safety
    gate = GateConfig(
        lease=run.plan.lease,
        watch=f"{_STEP}/_watch/{name}.json",
        trusted_seconds=safety.gate_every_seconds,
        silence_seconds_max=safety.watch_silence_seconds_max,
        published=f"{_STEP}/_published/{name}",
    )
    config = SweepConfig(
        gate=gate,
        turn=turn,
        delete_keys=run.plan.config.tuning.delete_keys,
        alive=subtracted.live,
        holds=record.input(CheckLimitsOutput).hold_files,
        # A listed object may have been restored since.
        pinned=sets_of([pin for pin in pins if pin.until > now]),
        undo=run.plan.undo.way,
        nested=tuple(sorted(kept)),
    )
    rows = sum(part.rows for task in tasks for part in task)
    is_recent = running_seconds() - asked < safety.heads_every_seconds
    first = at if is_recent else None  # an old look would close the gate
    with watching_refs(run, subtracted, gate, kept, names_of(pins), veto, first) as watch:
        results = run.spread(runner, _STEP, sweep_parts, config, tasks, "objects", rows)
    return watch if any(results) else None


def _hold(run: Run, record: StepRecord) -> None:
    with at_once() as ask:
        newest = ask(record.attempt.check)
        # No more waiting for an answer.
        run.lease.renew(run.plan.lease, take_back=False, shorten=True, allowed=newest.result)
