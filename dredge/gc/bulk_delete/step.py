"""Bulk delete: check again, then delete the candidates, and write down what became of each.

    one chain? guards passed? approved, where one has to ask? mark young enough?
      → re-check → delete, batch by batch, through the gate → settle
           ↑                      │
           └ a ref at a commit that was not checked, other rules, an hour ┘

New commits on known parents do not end a round: what they name leaves the candidates while workers delete.

What is deleted must have been listed, marked, compared and guarded in one unbroken chain of results, read afresh
before each round: the re-check leaves out what the mark read, so it must be the mark that these candidates were
compared with.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from datetime import timedelta

from dredge.approve.output import approval_inputs, why_asked
from dredge.approve.step import approval_of
from dredge.errors import RefusedError, UnavailableError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete.head_watch import ROUND_OVER, WatchKeys, check_sharing, watching_refs
from dredge.gc.bulk_delete.output import BulkDeleteOutput
from dredge.gc.bulk_delete.recheck import Subtracted, recheck
from dredge.gc.bulk_delete.reconcile import settle
from dredge.gc.bulk_delete.sweep import SweepConfig, SweepTask, sweep_parts
from dredge.gc.check_again.note import note_deletion
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import check_before_deleting
from dredge.gc.witness.ownership import Site
from dredge.runs.gate import GateConfig, Watch
from dredge.runs.steps import StepRecord, check_chain, links_of
from dredge.runs.summary import PartInfo, StepOutput, StepSummary
from dredge.runs.sweep import refuse_old_mark, sweep_then_settle
from dredge.runs.tasks import TaskRunner, round_robin
from dredge.storage.parallel import at_once
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.pins import names_of, read_pins, sets_of

_STEP = BulkDeleteOutput.STEP


def bulk_delete(run: Run, runner: TaskRunner) -> StepSummary:
    """Check again, then delete the candidates; in a dry run only say what would go.

    Run again after an error, it goes on where the ledger ends and tries only what is not done.

    Args:
        run: this run.
        runner: spreads the deleting.

    Raises:
        RefusedError: a guard did not pass, a person had to approve and did not, the results do not belong together,
            the mark is too old or another version's, or the namespace is blocked or another server's.
        AlarmError: live objects had been deleted, and no person has acknowledged it.
        LeaseHeldError: another run has taken over.
        UnavailableError: some objects could not be deleted, or branches not be looked at; the others were deleted.
        ConfigError: the credentials may not delete, and nothing was.
        PartialError: the credentials may not delete the rest.
    """
    inputs: list[type[StepOutput]] = [
        *BulkDeleteOutput.INPUTS,
        *approval_inputs(run.plan, run.folder, ApproveOutput),
    ]
    return run.step(BulkDeleteOutput, lambda record: _bulk_delete(run, runner, record), inputs)


def _bulk_delete(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    guards = record.input(CheckLimitsOutput)
    _check_chain(run, record)
    if run.plan.dry_run:
        record.status = "dry_run"
        record.counts["would_delete_objects"] = guards.counts["deletable_objects"]
        record.counts["would_delete_bytes"] = guards.counts["deletable_bytes"]
        return
    asked = guards.verdict == "awaiting_approval" and why_asked(run.plan, guards)
    if guards.verdict != "passed" and not asked:
        raise RefusedError(
            f"run {run.plan.run_id}: the guards did not pass. Nothing was deleted. Read guard.json of"
            " the run."
        )
    record.input(ListCommittedOutput).refuse_other_readings()
    approval_of(run, record, ApproveOutput)
    age_max = timedelta(hours=run.plan.config.safety.mark_age_hours_max)
    refuse_old_mark(run.plan.run_id, run.plan.created_at, run.store_now(), age_max)
    parts = record.input(SubtractOutput).candidates
    sweep_then_settle(
        record,
        f"the sweep of run {run.plan.run_id}",
        run.folder.uri,
        lambda: _sweep(run, runner, record, parts),
        lambda complete: settle(run, runner, record, parts, complete),
        # Each round of deleting begins with a re-check.
        lambda: "rechecks" in record.details,
    )


def _check_chain(run: Run, record: StepRecord) -> None:
    """Demand that what the sweep reads was made in one unbroken chain, and stands."""
    approved = [ApproveOutput] if ApproveOutput.STEP in record.inputs else []
    check_chain(run.folder, _STEP, links_of([*BulkDeleteOutput.INPUTS, *approved]), record.inputs)


def _sweep(run: Run, runner: TaskRunner, record: StepRecord, parts: Sequence[PartInfo]) -> None:
    """Delete in rounds: each begins with a re-check, and ends after an hour, or when something changed that only a
    re-check can judge."""
    if not parts:
        return
    record.attempt.check()  # an overtaken try leaves no record of a deletion
    with at_once() as ask:
        mark = ask(Subtracted.of_mark, run, record.input(ListCommittedOutput))
        note_deletion(run, record)
    subtracted = mark.result()
    tasks = [SweepTask(candidates=share) for share in round_robin(parts, run.num_tasks(runner, len(parts)))]
    for turn in itertools.count():
        if turn:
            approval_of(run, record, ApproveOutput)
        where = f"recheck/{record.attempt.number:03d}-{turn:03d}"
        figures = recheck(run, runner, subtracted, where)
        record.details.setdefault("rechecks", []).append(figures)
        watch = _delete(run, runner, record, tasks, subtracted, turn)
        if watch is None:
            return
        if watch.error is not None or watch.found is None:
            why = watch.reason or "branch heads were not looked at for too long (watch_silence_seconds_max)"
            raise UnavailableError(
                f"the sweep stopped because {why}. What was deleted is in the ledger. Run the step"
                " again when lakeFS and the store answer; it goes on where it stopped."
            )
        if watch.found != ROUND_OVER:
            record.warn(f"the sweep stopped ({watch.found}) and checked again")


def _delete(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    tasks: Sequence[SweepTask],
    subtracted: Subtracted,
    turn: int,
) -> Watch | None:
    """Delete what was not subtracted; gives what the watch saw when the gate closed before everything was done."""
    attempt = record.attempt.number
    # A name that no other driver has, also when a number comes again because its object was lost: another
    # one's look says nothing about what this one's workers know.
    name = f"{attempt:03d}-{turn:03d}-{uuid.uuid4().hex[:8]}"
    # All is read afresh, side by side, after the re-check and right before anything is deleted.
    with at_once() as ask:
        checks = [
            ask(lambda: check_before_deleting(Site.of_run(run))),
            ask(lambda: refuse_alarmed(run.state, f"run {run.plan.run_id} deletes nothing")),
            ask(lambda: _check_chain(run, record)),
            ask(lambda: record.attempt.check()),
        ]
        sharing, pins_read = ask(lambda: check_sharing(run)), ask(read_pins, run.state)
        approval = ask(approval_of, run, record, ApproveOutput)
    kept = sharing.result()
    for check in checks:
        check.result()
    veto, pins = approval.result(), pins_read.result()
    now = run.store_now()
    keys = WatchKeys(looks=f"{_STEP}/_watch/{name}.json", published=f"{_STEP}/_published/{name}")
    config = SweepConfig(
        gate=_gate(run, keys),
        turn=turn,
        delete_keys=run.plan.config.tuning.delete_keys,
        alive=subtracted.live,
        holds=record.input(CheckLimitsOutput).hold_files,
        # Somebody may have brought back what this run's listing saw.
        pinned=sets_of([pin for pin in pins if pin.until > now]),
        undo=run.plan.undo.way,
        nested=tuple(sorted(kept)),
    )
    rows = sum(part.rows for task in tasks for part in task.candidates)
    run.lease.renew(run.plan.lease, take_back=False, shorten=True)  # whoever was asked has answered
    with watching_refs(run, subtracted, keys, kept, names_of(pins), veto) as watch:
        results = run.spread(runner, _STEP, sweep_parts, config, tasks, "objects", rows)
    return watch if any(result.stopped for result in results) else None


def _gate(run: Run, keys: WatchKeys) -> GateConfig:
    safety = run.plan.config.safety
    return GateConfig(
        lease=run.plan.lease,
        watch=keys.looks,
        trusted_seconds=safety.gate_every_seconds,
        silence_seconds_max=safety.watch_silence_seconds_max,
        published=keys.published,
    )
