"""Scan, clean, and the checks before the first run, as called by operators and the command line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import islice
from typing import Literal

from msgspec.structs import replace

from dredge.errors import (
    DredgeError,
    RefusedError,
)
from dredge.kv.rows import RowCleaner, RowReader
from dredge.runs.clock import Clock, utc_now
from dredge.runs.failures import as_partial
from dredge.runs.preflight import Check, Line, Preflight, alarms_line, ok, perform
from dredge.storage import StorageOptions, open_writer
from dredge.trash import alarms
from dredge.trash.apply import GROUP_ROWS, Applier, NamedAgainError
from dredge.trash.findings import (
    UNNAMED,
    TrashConfig,
    TrashFinding,
    TrashLimits,
    TrashMargins,
    TrashPlan,
    check_kinds,
    check_limits,
    choose,
    in_both,
)
from dredge.trash.look import Look, check_schema, read_look
from dredge.trash.names import parse_instance
from dredge.trash.partition_rules import Noted, check_known
from dredge.trash.report import CleanReport, ScanReport
from dredge.trash.rules import classify
from dredge.trash.state import TrashState
from dredge.trash.waiting import advance_waiting, no_list, read_waiting, write_waiting
from dredge.undo.alarms import open_alarms, refuse_alarmed
from dredge.undo.preflight import check_folders
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")


def scan(
    store: RowReader,
    state: TrashState | None,
    *,
    clock: Callable[[], datetime],
    margins: TrashMargins,
    kinds: Iterable[str] | None = None,
    holder: str | None = None,
) -> ScanReport:
    """Read a store, and start the wait of its unreferenced rows, without removals. `state`: the state folder with the
    pending list; None for a single look, in which everything waits. `holder`: name of the task, the same for all its
    tries, so that a later try fences the earlier off. None is a unique name."""
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
        planned: remove nothing beyond the (approved) plan of this earlier run.
        planned_digest: digest of that plan in the report of its look; None is not compared.

    Raises:
        RefusedError: see `scan`; or a limit is exceeded; or the digest of the plan differs.
        LeaseHeldError: another run or a later try has taken over; nothing more was removed.
        NamedAgainError: a record references a removal; it was restored.
        AlarmError: an alarm is open.
        UnavailableError: the store stopped answering. The next run verifies the removals and continues.
    """
    asked = check_kinds(kinds)
    run_id = new_descending_xid(clock())
    with state.held(holder or f"clean {run_id}") as held:
        if not dry_run:
            alarms.verify_open_run(store, held, store.clock() or clock(), run_id)
        report, look = _scan(store, held, run_id, clock, margins, asked)
        if not dry_run:
            alarms.restore_named(store, held, look, run_id)
            command = f"dredge trash acknowledge {held.writer.uri}"
            refuse_alarmed(held.writer, f"run {run_id} removes nothing", command)
        plan = report.plan
        if planned is not None:
            approved = _approved(held, planned, planned_digest)
            plan = replace(plan, findings=in_both(approved.findings, plan.findings))
            report = replace(report, plan=plan)
        check_limits(plan, limits, report.repositories)
        if dry_run:
            found = CleanReport(report, "dry_run")
            held.save_report(run_id, found.to_report())
            return found
        done = _remove(store, held, report, look, clock, margins, group_rows)
        held.remove_old_lists()
        return done


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
        notes += (f"All waits begin again, because the pending list cannot be used: {waiting.problem}.",)
    look = read_look(store, noted.heads)
    check_known(look, store.location)
    # A look with shorter margins must keep tokens for later looks.
    noted = noted.after(look, now, max(margins.unnamed, UNNAMED))
    found = classify(look, now, margins, noted)
    read = max(now, store.clock() or clock())
    findings = advance_waiting(waiting, found, run_id, now, read, margins)
    if state:
        state.save_noted(noted)
        write_waiting(state, waiting, run_id, now)
        findings += tuple(
            alarms.named_finding(name, run) for name, run in alarms.named_after_removal(state, look).items()
        )
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
    undo = state.undo(run_id)
    unrecorded = [name for name in look.partitions if parse_instance(name)]
    alarm = alarms.alarm_of(state, store, run_id, run_id)
    applier = Applier(
        store,
        undo,
        state.check_right,
        unrecorded,
        alarm=alarm,
        group_rows=group_rows,
    )

    def finish(status: Literal["done", "partial", "stopped", "failed"], message: str = "") -> CleanReport:
        done = CleanReport(report, status, tuple(applier.outcomes), message)
        gone = [*applier.removed_partitions, *applier.removed_markers]
        state.note_removed(gone, run_id, report.plan.made)
        state.save_report(run_id, done.to_report())
        log.info("trash: run %s: %s, %d rows removed", run_id, status, done.rows_removed)
        return done

    def removed() -> str:
        if not applier.rows_deleted:
            return ""
        return f"{applier.rows_deleted:,} rows were removed; `dredge trash restore --run {run_id}` restores them."

    state.set_open_run(run_id)
    try:
        applier.run(both)
    except NamedAgainError as error:
        finish("stopped", str(error))
        state.set_open_run(None)  # its referenced removals are restored
        raise
    except DredgeError as error:
        partial = as_partial(error, removed())
        finish("failed", str(partial))  # the run stays open: the next run verifies its removals
        if partial is error:
            raise
        raise partial from error
    whole = all(outcome.fate == "deleted" for outcome in applier.outcomes)
    done = finish("done" if whole else "partial")
    state.set_open_run(None)
    return done


def _second_look(
    store: RowCleaner, state: TrashState, clock: Callable[[], datetime], margins: TrashMargins
) -> tuple[TrashFinding, ...]:
    noted = state.noted()
    look = read_look(store, noted.heads)
    check_known(look, store.location)
    return classify(look, trusted_now(store, clock(), margins), margins, noted)


def _approved(state: TrashState, run_id: str, digest: str | None) -> TrashPlan:
    plan = state.plan(run_id)
    if plan.run_id != run_id or digest not in (None, plan.digest):
        raise RefusedError(
            f"{state.writer.uri}: the plan of run {run_id} differs from its report. Nothing was removed. Make a new"
            " plan."
        )
    return plan


def trusted_now(store: RowReader, machine: datetime, margins: TrashMargins) -> datetime:
    """The store's time, or this machine's if the store has no clock."""
    now = store.clock()
    if now is not None and abs(now - machine) > margins.clock_skew:
        raise RefusedError(
            f"this machine's clock is at {machine:%Y-%m-%d %H:%M:%S}, the store's at {now:%Y-%m-%d %H:%M:%S} UTC. All"
            " ages would be wrong. Nothing was removed. Set the clock."
        )
    return now or machine


type OpenStore = Callable[[], AbstractContextManager[RowReader]]


def check(
    config: TrashConfig, store: OpenStore, options: StorageOptions | None = None, clock: Clock = utc_now
) -> Preflight:
    """Check the requirements of a scan and a clean. Writes nothing to lakeFS's database, so the right to delete rows is
    not checked."""
    return perform(config.state_uri, _groups(config, store, options, clock))


def _groups(
    config: TrashConfig, store: OpenStore, options: StorageOptions | None, clock: Clock
) -> Iterator[Sequence[Check]]:
    folder = {"state": config.state_uri.rstrip("/")}
    skew = config.margins.clock_skew.total_seconds()
    state = TrashState(open_writer(config.state_uri, options))
    yield [
        Check("kv", lambda: _store(config, store, state, clock)),
        *check_folders(folder, new_descending_xid(clock()), skew, clock, options),
        Check("alarms", lambda: _alarms(state)),
    ]


def _store(config: TrashConfig, store: OpenStore, state: TrashState, clock: Clock) -> Iterator[Line]:
    with store() as found:
        yield ok("kv", f"{found.location} answers")
        with found.view() as view:
            check_schema(view, list(islice(view.partitions(), 1)))
        yield ok("kv_schema", "its schema version is supported")
        told, now = found.clock(), clock()
        if told is not None and abs(told - now) > config.margins.clock_skew:
            yield Line(
                "kv_clock",
                "error",
                f"its clock differs by {abs((told - now).total_seconds()):.0f} s",
                "Set the clocks right (NTP).",
                RefusedError.kind,
            )
        else:
            yield ok("kv_clock", "it has no clock" if told is None else "its clock is right")
        yield _state_line(found, state)


def _state_line(store: RowReader, state: TrashState) -> Line:
    is_about, is_same = state.belongs(store)
    if not is_about:
        return Line(
            "state",
            "error",
            f"{state.writer.uri} belongs to another store, or this store was set up again",
            "Use a separate folder for each store.",
            RefusedError.kind,
        )
    if not is_same:
        return Line(
            "state",
            "warning",
            "the database was restored or failed over since the last look: all waits begin again",
            "Check its repositories for lost commits: `dredge gc check`.",
        )
    return ok("state", "the folder belongs to this store, or is new")


def _alarms(state: TrashState) -> Iterator[Line]:
    todo = f"Find the cause, then `dredge trash acknowledge {state.writer.uri} --reason …`."
    yield alarms_line(len(open_alarms(state.writer)), todo)
