"""Scan, clean, restore: what operators and the command line call."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from dredge.errors import (
    ConfigError,
    DredgeError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from dredge.kv.rows import Row, RowCleaner, RowReader, show
from dredge.runs.failures import as_partial, partial_after
from dredge.trash.alarms import alarm_of, refuse_alarmed
from dredge.trash.apply import GROUP_ROWS, Applier, NamedAgainError
from dredge.trash.deleted import DeletedOutcome, clean_deleted
from dredge.trash.earlier import named_after_removal, named_again, put_back_named, verify_open_run
from dredge.trash.finding import TrashFinding
from dredge.trash.look import Look, read_look
from dredge.trash.margins import UNNAMED, TrashLimits, TrashMargins
from dredge.trash.names import MARKERS, deleted_instance, parse_instance
from dredge.trash.noted import Noted, check_known
from dredge.trash.plan import TrashPlan, check_kinds, check_limits, choose, in_both
from dredge.trash.references import read_references
from dredge.trash.results import CleanReport, ScanReport
from dredge.trash.rules import classify
from dredge.trash.state import TrashState
from dredge.trash.waiting import advance_waiting, forget, leave_waiting, no_list, read_waiting
from dredge.undo.alarms import open_alarms
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")

HANDED_OVER = "deleted-repository"


def scan(
    store: RowReader,
    state: TrashState | None,
    *,
    clock: Callable[[], datetime],
    margins: TrashMargins,
    kinds: Iterable[str] | None = None,
    holder: str | None = None,
) -> ScanReport:
    """Look at a store, and let the wait begin of what is unused. Nothing is removed.

    Args:
        store: what to look at.
        state: where the pending list is; None: this look stands alone, and everything waits.
        clock: this machine's time (aware UTC).
        margins: the margins.
        kinds: which trash goes into the plan; None is all.
        holder: name of the task, the same for all its tries: a later one fences the earlier one off. None is a
            name that no other call has.

    Raises:
        RefusedError: the store, its clock or the state folder cannot be trusted.
        FormatError: a record cannot be read: nothing may be judged.
    """
    asked = check_kinds(kinds)
    run_id = new_descending_xid(clock())
    with state.held(holder or f"scan {run_id}") if state else nullcontext() as held:
        report = _scan(store, held, run_id, clock, margins, asked)[0]
        if held:
            held.save_report(run_id, report.to_report() | {"status": "scan"})
        return report


def clean(
    store: RowCleaner,
    state: TrashState,
    *,
    clock: Callable[[], datetime],
    margins: TrashMargins,
    limits: TrashLimits,
    kinds: Iterable[str] | None = None,
    planned: str | None = None,
    planned_digest: str | None = None,
    dry_run: bool = True,
    holder: str | None = None,
    group_rows: int = GROUP_ROWS,
) -> CleanReport:
    """Remove the trash of a store that an earlier run found, and that has waited for the grace since.

    Args:
        store: what to clean.
        state: pending list, undo files, reports.
        clock: this machine's time (aware UTC).
        margins: the margins.
        limits: what it may remove at most.
        kinds: which trash; None is all.
        planned: remove nothing beyond the plan of this earlier run (one that was approved).
        planned_digest: digest of that plan, as its look reported it; None takes the plan as it is.
        dry_run: only say what would go.
        holder: see `scan`.
        group_rows: how many rows one request removes at most.

    Raises:
        RefusedError: see `scan`; or a limit is exceeded, nothing was removed; or the plan is not that of the one
            look that made it.
        LeaseHeldError: a later try, or somebody else, has taken over; nothing more was removed.
        NamedAgainError: something removed was named again. It was put back; the report says so.
        AlarmError: nobody has acknowledged an earlier alarm.
        UnavailableError: the store went away, also while it emptied a repository that was handed over. The next
            run verifies what this one removed, and tries the rest again.
        PartialError: something was removed, and the store does not allow the rest.
    """
    asked = check_kinds(kinds)
    run_id = new_descending_xid(clock())
    with state.held(holder or f"clean {run_id}") as held:
        if not dry_run:
            verify_open_run(store, held, store.clock() or clock(), run_id)
        report, look = _scan(store, held, run_id, clock, margins, asked)
        if not dry_run:
            put_back_named(store, held, look, run_id)
            refuse_alarmed(held.writer, run_id)
        plan = report.plan
        if planned is not None:
            plan = _within(plan, _approved(held, planned, planned_digest))
            report = replace(report, plan=plan)
        check_limits(plan, limits, report.repositories)
        if dry_run:
            told = CleanReport(report, "dry_run")
            held.save_report(run_id, told.to_report())
            return told
        done = _remove(store, held, report, look, clock, margins, group_rows)
        held.remove_old_lists()
        return done


def restore(
    store: RowCleaner,
    state: TrashState,
    run_id: str,
    *,
    partitions: Iterable[bytes] | None = None,
    dry_run: bool = True,
) -> dict[str, Any]:
    """Put back what a run removed; a key that exists by now stays as it is.

    What comes back has its whole grace again. A queue marker of a token that a branch names does not come back, not
    even that of a run that took it off the queue: the server would delete the branch's acknowledged uploads.

    Args:
        store: where to.
        state: where the undo files are.
        run_id: whose.
        partitions: only these; None is all.
        dry_run: only count.

    Raises:
        ConfigError: there is no such run, or it removed nothing of one of the partitions.
        FormatError: an undo file was damaged, or markers are to come back and a record cannot be read.
        PartialError: some rows were put back, and the store does not allow the rest.
    """
    asked = None if partitions is None else frozenset(partitions)
    with state.held(f"restore {run_id}") as held:
        held.claim(store)
        if run_id not in held.runs():
            raise ConfigError(
                f"{state.writer.uri}: no run {run_id}; there are {', '.join(held.runs()) or 'none'}"
            )
        undo = held.undo(run_id)

        def wanted(row: Row) -> bool:
            return asked is None or row.partition in asked

        count: Counter[bytes] = Counter()
        markers: set[bytes] = set()
        back: set[tuple[bytes, bytes | None]] = set()
        for row in undo.read(wanted):
            count[row.partition] += 1
            back.update([(row.partition, None), (row.partition, row.key)])
            if row.partition == MARKERS:
                markers.add(row.key)
        left = _live_tokens(store, markers)
        absent = sorted((asked or frozenset()) - count.keys())
        if absent:
            raise ConfigError(f"run {run_id} removed nothing of {', '.join(map(show, absent))}")
        if dry_run:
            return {
                "run_id": run_id,
                "status": "dry_run",
                "rows": count.total() - len(left),
                "markers_of_live_tokens": len(left),
            }
        if back:
            forget(held, store, back, run_id)
        written: Counter[bool] = Counter()
        with partial_after(lambda: f"{written[True]:,} rows were put back." if written[True] else ""):
            for row in undo.read(
                lambda row: wanted(row) and not (row.partition == MARKERS and row.key in left)
            ):
                written[store.insert_row(row)] += 1
        held.forget_removed([name for name in held.removed() if asked is None or name in asked], run_id)
    log.info("trash: run %s: %d rows put back, %d keys existed", run_id, written[True], written[False])
    return {
        "run_id": run_id,
        "status": "done",
        "rows_written": written[True],
        "keys_existing": written[False],
        "markers_of_live_tokens": len(left),
    }


def _live_tokens(store: RowCleaner, tokens: set[bytes]) -> set[bytes]:
    """Give those of some tokens that branches name, also those of a repository whose record was lost."""
    if not tokens:
        return tokens
    with store.view() as view:
        lives = [name for name in view.partitions() if parse_instance(name)]
        return tokens.intersection(read_references(view, lives).tokens)


def _scan(
    store: RowReader,
    state: TrashState | None,
    run_id: str,
    clock: Callable[[], datetime],
    margins: TrashMargins,
    kinds: frozenset[str],
) -> tuple[ScanReport, Look]:
    notes = tuple(filter(None, [state.claim(store), *_open_alarms(state)])) if state else ()
    now = trusted_now(store, clock(), margins)
    waiting, noted = (read_waiting(state, store), state.noted()) if state else (no_list(), Noted())
    if waiting.problem and not notes:
        notes += (f"Everything waits anew: the pending list cannot be used: {waiting.problem}.",)
    look = read_look(store, noted.heads)
    check_known(look, store.location)
    # A look with shorter margins forgets nothing that later ones ask for.
    noted = noted.after(look, now, max(margins.unnamed, UNNAMED))
    found = classify(look, now, margins, noted)
    read = max(now, store.clock() or clock())
    findings = advance_waiting(waiting, found, run_id, now, read, margins)
    if state:
        state.save_noted(noted)
        leave_waiting(state, waiting, run_id, now)
        findings += tuple(named_again(name, run) for name, run in named_after_removal(state, look).items())
    trash = choose(findings, kinds)
    attempt = state.attempt if state else 0
    plan = TrashPlan(run_id, store.location, now, trash, len(look.partitions), attempt)
    if state:
        state.save_plan(plan)
    log.info("trash: run %s: %d partitions, %d findings", run_id, plan.partitions, len(findings))
    return ScanReport(plan, findings, len(look.references.repositories), notes), look


def _open_alarms(state: TrashState) -> list[str]:
    return [
        f"An alarm is open: {alarm.text}. Nothing is removed until a person acknowledges it"
        f" (dredge trash acknowledge {state.writer.uri} --reason …)."
        for alarm in open_alarms(state.writer)
    ]


def _remove(
    store: RowCleaner,
    state: TrashState,
    report: ScanReport,
    look: Look,
    clock: Callable[[], datetime],
    margins: TrashMargins,
    group_rows: int,
) -> CleanReport:
    run_id = report.plan.run_id
    both = in_both(report.plan.findings, _second_look(store, state, clock, margins))
    still = [f for f in both if f.kind != HANDED_OVER]
    handed_over = {_handed_over(f): f.digest if f.key is None else "" for f in both if f.kind == HANDED_OVER}
    undo = state.undo(run_id)
    unrecorded = [name for name in look.partitions if parse_instance(name)]
    alarm = alarm_of(state, store, run_id, run_id)
    applier = Applier(
        store,
        undo,
        state.check_right,
        unrecorded,
        alarm=alarm,
        group_rows=group_rows,
    )
    deleted: list[DeletedOutcome] = []

    def finish(status: Literal["done", "partial", "stopped", "failed"], message: str = "") -> CleanReport:
        done = CleanReport(report, status, tuple(applier.outcomes), tuple(deleted), message)
        emptied = [outcome.removed_partition for outcome in deleted if outcome.removed_partition]
        gone = [*applier.removed_partitions, *applier.removed_markers, *emptied]
        state.note_removed(gone, run_id, report.plan.made)
        state.save_report(run_id, done.to_report())
        log.info("trash: run %s: %s, %d rows removed", run_id, status, done.rows_removed)
        return done

    def removed() -> str:
        rows = applier.rows_deleted + sum(done.rows_removed for done in deleted)
        return f"{rows:,} rows were removed; restore --run {run_id} puts them back." if rows else ""

    state.set_open_run(run_id)
    try:
        if handed_over:
            for outcome in clean_deleted(store, undo, state.check_right, handed_over, group_rows):
                deleted.append(outcome)
        applier.run(still)
    except NamedAgainError as error:
        finish("stopped", str(error))
        state.set_open_run(None)  # what was named is put back
        raise
    except DredgeError as error:
        told = as_partial(error, removed())
        finish("failed", str(told))  # the run stays open: the next one verifies what this one removed
        if told is error:
            raise
        raise told from error
    failed = [outcome for outcome in deleted if outcome.error is not None]
    if failed:
        stays = _not_emptied(report.plan.run_id, failed, removed())
        finish("partial", str(stays))  # the run stays open here, too
        raise stays
    whole = all(outcome.fate == "deleted" for outcome in applier.outcomes)
    whole = whole and all(outcome.fate == "cleaned" for outcome in deleted)
    done = finish("done" if whole else "partial")
    state.set_open_run(None)
    return done


def _handed_over(finding: TrashFinding) -> bytes:
    """The partition of a repository that was handed over; only its entry is left where it has no row."""
    instance = deleted_instance(finding.key) if finding.key is not None else None
    return instance.partition if instance else finding.partition


def _not_emptied(run_id: str, failed: Sequence[DeletedOutcome], removed: str) -> DredgeError:
    """The error of a run that could not empty repositories that were handed over to it."""
    errors = [outcome.error for outcome in failed if outcome.error is not None]
    # What may pass by itself decides: then a retry has something to do.
    worst = next((error for error in errors if isinstance(error, UnavailableError)), errors[0])
    text = (
        f"run {run_id}: {len(failed):,} repositories that were handed over could not be emptied, such as"
        f" {failed[0].entry}: {failed[0].message.rstrip('. ')}. {removed or '0 rows were removed.'} What is left"
        " of them is listed still. The next run tries again."
    )
    if isinstance(worst, ConfigError) and removed:
        return PartialError(text)
    return type(worst)(text)


def _second_look(
    store: RowCleaner, state: TrashState, clock: Callable[[], datetime], margins: TrashMargins
) -> tuple[TrashFinding, ...]:
    """Say once more right before removing what is unused."""
    noted = state.noted()
    look = read_look(store, noted.heads)
    check_known(look, store.location)
    return classify(look, trusted_now(store, clock(), margins), margins, noted)


def _approved(state: TrashState, run_id: str, digest: str | None) -> TrashPlan:
    """Read the plan that bounds a run.

    Raises:
        RefusedError: it is not the plan whose digest was reported.
    """
    plan = state.plan(run_id)
    if plan.run_id != run_id or digest not in (None, plan.digest):
        raise RefusedError(
            f"{state.writer.uri}: what lies under run {run_id} is not the plan that its look reported. Nothing was"
            " removed. Make a new one."
        )
    return plan


def _within(plan: TrashPlan, approved: TrashPlan) -> TrashPlan:
    return replace(plan, findings=in_both(approved.findings, plan.findings))


def trusted_now(store: RowReader, machine: datetime, margins: TrashMargins) -> datetime:
    """Take the store's time, or this machine's where the store has none.

    Raises:
        RefusedError: the two differ too much.
    """
    told = store.clock()
    if told is not None and abs(told - machine) > margins.clock_skew:
        raise RefusedError(
            f"this machine's clock says {machine:%Y-%m-%d %H:%M:%S}, the store's {told:%Y-%m-%d %H:%M:%S}"
            " UTC. All ages would be wrong. Nothing was judged. Set the clock."
        )
    return told or machine
