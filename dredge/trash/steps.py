"""Scan, clean, restore: what operators and the command line call."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from dredge.errors import ConfigError, DredgeError, RefusedError
from dredge.graveler.xid import new_descending_xid
from dredge.kv.rows import RowCleaner, RowReader, show
from dredge.trash.apply import Applier, NamedAgainError, Outcome
from dredge.trash.deleted import DeletedOutcome, clean_deleted
from dredge.trash.finding import Finding
from dredge.trash.look import Look, read_look
from dredge.trash.names import parse_instance
from dredge.trash.plan import TrashPlan, by_kind, check_kinds, check_limits, choose, in_both
from dredge.trash.report import add_up, age_seconds
from dredge.trash.rules import Judgement, judge
from dredge.trash.safety import Limits, Safety
from dredge.trash.sightings import Sightings
from dredge.trash.state import TrashState
from dredge.trash.undo import put_back

log = logging.getLogger("dredge")

HANDED_OVER = "deleted-repository"


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What a look found.

    Args:
        plan: the trash of the asked kinds.
        findings: everything that is not plainly live.
        repositories: how many repository records there are.
    """

    plan: TrashPlan
    findings: tuple[Finding, ...]
    repositories: int

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without the single findings."""
        return {
            "run_id": self.plan.run_id,
            "location": self.plan.location,
            "looked": self.plan.made.isoformat(),
            "partitions": self.plan.partitions,
            "repositories": self.repositories,
            "trash_rows": self.plan.rows,
            "trash_bytes": self.plan.size_bytes,
            "digest": self.plan.digest,
            "kinds": by_kind(self.findings),
        }

    def to_report(self) -> dict[str, Any]:
        """As a JSON object with every finding, each with its age."""
        now = self.plan.made
        findings = [
            finding.to_json() | {"age_seconds": age_seconds(finding, now)} for finding in self.findings
        ]
        return self.to_json() | {"summary": add_up(self.findings, now), "findings": findings}


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What a run removed.

    Args:
        scan: its first look.
        status: `dry_run`: nothing was to be removed; `done`; `partial`: some of the plan stayed, the
            outcomes say why; `stopped`: something removed was named again and put back; `failed`: the
            store went away.
        outcomes: one a finding of the plan that was still trash at the second look.
        deleted: one a repository that was handed over to the cleaner.
        message: of the error that ended the run.
    """

    scan: ScanReport
    status: Literal["dry_run", "done", "partial", "stopped", "failed"]
    outcomes: tuple[Outcome, ...] = ()
    deleted: tuple[DeletedOutcome, ...] = ()
    message: str = ""
    rows_removed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        rows = sum(outcome.rows for outcome in self.outcomes) + sum(done.rows for done in self.deleted)
        object.__setattr__(self, "rows_removed", rows)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return self.scan.to_json() | self._done()

    def to_report(self) -> dict[str, Any]:
        """As a JSON object with every finding of the first look."""
        return self.scan.to_report() | self._done()

    def _done(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "message": self.message,
            "rows_removed": self.rows_removed,
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
            "deleted_repositories": [outcome.to_json() for outcome in self.deleted],
        }


def scan(
    store: RowReader,
    state: TrashState | None,
    *,
    clock: Callable[[], datetime],
    safety: Safety,
    kinds: Iterable[str] | None = None,
) -> ScanReport:
    """Look at a store, judge it, remember what is unused. Nothing is removed.

    Args:
        store: what to look at.
        state: where sightings are remembered; None: this look stands alone, and little is trash at a
            first look.
        clock: this machine's time (aware UTC).
        safety: the margins.
        kinds: which trash goes into the plan; None is all.

    Raises:
        RefusedError: the store, its clock or the state folder cannot be trusted.
        FormatError: a record cannot be read: nothing may be judged.
    """
    asked = check_kinds(kinds)
    run_id = new_descending_xid(clock())
    with state.held(f"scan {run_id}") if state else nullcontext():
        report = _scan(store, state, run_id, clock, safety, asked)[0]
        if state:
            state.save_report(run_id, report.to_report() | {"status": "scan"})
        return report


def clean(
    store: RowCleaner,
    state: TrashState,
    *,
    clock: Callable[[], datetime],
    safety: Safety,
    limits: Limits,
    kinds: Iterable[str] | None = None,
    planned: str | None = None,
    dry_run: bool = True,
    linger: timedelta = timedelta(0),
) -> CleanReport:
    """Remove the trash of a store that two looks at least a grace period apart have seen.

    Args:
        store: what to clean.
        state: sightings, undo files, reports.
        clock: this machine's time (aware UTC).
        safety: the margins.
        limits: the rails.
        kinds: which trash; None is all.
        planned: remove nothing beyond the plan of this earlier run (one that was approved).
        dry_run: only say what would go.
        linger: how long to wait before the last look at the references.

    Raises:
        RefusedError: see `scan`; or a limit is exceeded, nothing was removed.
        NamedAgainError: something removed was named again. It was put back; the report says so.
        UnavailableError: the store went away. The next run verifies what this one removed.
    """
    asked = check_kinds(kinds)
    run_id = new_descending_xid(clock())
    with state.held(f"clean {run_id}"):
        if not dry_run:
            _verify_open_run(store, state)
        report, look = _scan(store, state, run_id, clock, safety, asked)
        if not dry_run:
            _put_back_named(store, state, look)
        plan = report.plan
        if planned is not None:
            plan = _within(plan, state.plan(planned))
            report = ScanReport(plan, report.findings, report.repositories)
        check_limits(plan, limits, report.repositories)
        if dry_run:
            told = CleanReport(report, "dry_run")
            state.save_report(run_id, told.to_report())
            return told
        return _remove(store, state, report, look, clock, safety, linger)


def restore(
    store: RowCleaner,
    state: TrashState,
    run_id: str,
    *,
    partitions: Iterable[bytes] | None = None,
    dry_run: bool = True,
) -> dict[str, Any]:
    """Put back what a run removed; a key that exists by now stays as it is.

    Args:
        store: where to.
        state: where the undo files are.
        run_id: whose.
        partitions: only these; None is all.
        dry_run: only count.

    Raises:
        ConfigError: there is no such run, or it removed nothing of one of the partitions.
        FormatError: an undo file was damaged.
    """
    asked = None if partitions is None else frozenset(partitions)
    with state.held(f"restore {run_id}"):
        state.claim(store)
        if run_id not in state.runs():
            raise ConfigError(
                f"{state.writer.uri}: no run {run_id}; there are {', '.join(state.runs()) or 'none'}"
            )
        undo = state.undo(run_id)

        def wanted(partition: bytes) -> bool:
            return asked is None or partition in asked

        count = Counter(row.partition for row in undo.read(lambda row: wanted(row.partition)))
        absent = sorted((asked or frozenset()) - count.keys())
        if absent:
            raise ConfigError(f"run {run_id} removed nothing of {', '.join(map(show, absent))}")
        if dry_run:
            return {"run_id": run_id, "status": "dry_run", "rows": count.total()}
        written, existing = put_back(store, undo.read(lambda row: wanted(row.partition)))
        removed = state.removed().items()
        state.forget_removed(name for name, run in removed if run == run_id and wanted(name))
    log.info("trash: run %s: %d rows put back, %d keys existed", run_id, written, existing)
    return {"run_id": run_id, "status": "done", "rows_written": written, "keys_existing": existing}


def _scan(
    store: RowReader,
    state: TrashState | None,
    run_id: str,
    clock: Callable[[], datetime],
    safety: Safety,
    kinds: frozenset[str],
) -> tuple[ScanReport, Look]:
    if state:
        state.claim(store)
    before = state.sightings() if state else Sightings()
    now = trusted_now(store, clock(), before, safety)
    look = read_look(store)
    judgement = judge(look, before, now, safety)
    findings = judgement.findings
    if state:
        state.save_sightings(judgement.sightings)
        findings += tuple(_named_again(name, run) for name, run in _named_after_removal(state, look).items())
    plan = TrashPlan(run_id, store.location, now, choose(findings, kinds), len(look.partitions))
    if state:
        state.save_plan(plan)
    log.info("trash: run %s: %d partitions, %d findings", run_id, plan.partitions, len(findings))
    return ScanReport(plan, findings, len(look.references.repositories)), look


def _named_after_removal(state: TrashState, look: Look) -> dict[bytes, str]:
    """Partitions removed by earlier runs that a record names by now, with the run that removed each."""
    named = set(look.references.partitions) | set(look.references.tokens)
    return {name: run for name, run in state.removed().items() if name in named}


def _named_again(partition: bytes, run_id: str) -> Finding:
    why = (
        f"removed by run {run_id} and now named by a record: the next clean puts it back, or restore that run"
    )
    return Finding(partition, None, "named-after-removal", "report", why)


def _put_back_named(store: RowCleaner, state: TrashState, look: Look) -> None:
    """Undo what earlier runs removed and a record names by now: an operation took longer than the grace
    period.

    Raises:
        NamedAgainError: there was something to put back.
    """
    named = _named_after_removal(state, look)
    if not named:
        return
    written = 0
    for run_id in sorted(set(named.values())):
        written += put_back(store, state.undo(run_id).read(lambda row: row.partition in named))[0]
    state.forget_removed(named)
    raise NamedAgainError(
        f"{', '.join(sorted(show(name) for name in named))}: removed as trash by an earlier run, and now named"
        f" by a record. {written} rows were put back. Nothing else was touched. An operation of the server took"
        " longer than the grace period: lengthen it."
    )


def _remove(
    store: RowCleaner,
    state: TrashState,
    report: ScanReport,
    look: Look,
    clock: Callable[[], datetime],
    safety: Safety,
    linger: timedelta,
) -> CleanReport:
    run_id = report.plan.run_id
    again = _second_look(store, state, clock, safety)
    still = [f for f in in_both(report.plan.findings, again.findings) if f.kind != HANDED_OVER]
    handed_over = any(f.kind == HANDED_OVER for f in report.plan.findings)
    undo = state.undo(run_id)
    unrecorded = [name for name in look.partitions if parse_instance(name)]
    applier = Applier(store, undo, unrecorded, linger=linger)
    deleted: list[DeletedOutcome] = []

    def finish(status: Literal["done", "partial", "stopped", "failed"], message: str = "") -> CleanReport:
        done = CleanReport(report, status, tuple(applier.outcomes), tuple(deleted), message)
        whole_partitions = [o.finding.partition for o in applier.outcomes if o.rows and o.finding.key is None]
        state.note_removed(whole_partitions, run_id, report.plan.made)
        state.save_report(run_id, done.to_report())
        log.info("trash: run %s: %s, %d rows removed", run_id, status, done.rows_removed)
        return done

    state.set_open_run(run_id)
    try:
        if handed_over:
            deleted += clean_deleted(store, undo)
        applier.run(still)
    except NamedAgainError as error:
        state.set_open_run(None)
        finish("stopped", str(error))  # what is named and put back is looked after once more by the next run
        raise
    except DredgeError as error:
        finish("failed", str(error))  # the run stays open: the next one verifies what this one removed
        raise
    state.set_open_run(None)
    whole = all(outcome.fate == "deleted" for outcome in applier.outcomes)
    whole = whole and all(outcome.fate == "cleaned" for outcome in deleted)
    return finish("done" if whole else "partial")


def _second_look(
    store: RowCleaner, state: TrashState, clock: Callable[[], datetime], safety: Safety
) -> Judgement:
    """Judge once more right before removing, from the sightings of the first look of this run."""
    before = state.sightings()
    return judge(read_look(store), before, trusted_now(store, clock(), before, safety), safety)


def _within(plan: TrashPlan, approved: TrashPlan) -> TrashPlan:
    return TrashPlan(
        plan.run_id, plan.location, plan.made, in_both(approved.findings, plan.findings), plan.partitions
    )


def _verify_open_run(store: RowCleaner, state: TrashState) -> None:
    """Look after a run that ended while it was removing: is anything named that it took?"""
    run_id = state.open_run()
    if run_id is None:
        return
    log.warning("trash: run %s ended while it was removing; verifying what it removed", run_id)
    with store.view() as view:
        unrecorded = [name for name in view.partitions() if parse_instance(name)]
    try:
        Applier(store, state.undo(run_id), unrecorded).verify_removed()
    except NamedAgainError:
        state.set_open_run(None)  # it is put back
        raise
    state.set_open_run(None)


def trusted_now(store: RowReader, machine: datetime, before: Sightings, safety: Safety) -> datetime:
    """Take the store's time, or this machine's where the store has none.

    Raises:
        RefusedError: the two differ too much, or time went back since the last look.
    """
    told = store.clock()
    if told is not None and abs(told - machine) > safety.clock_skew:
        raise RefusedError(
            f"this machine's clock says {machine:%Y-%m-%d %H:%M:%S}, the store's {told:%Y-%m-%d %H:%M:%S}"
            " UTC. All ages would be wrong. Nothing was judged. Set the clock."
        )
    now = told or machine
    if before.looked is not None and now < before.looked - safety.clock_skew:
        raise RefusedError(
            f"it is {now:%Y-%m-%d %H:%M:%S} UTC, earlier than the last look. All ages would be wrong. Nothing"
            " was judged. Set the clock, or start with an empty state folder."
        )
    return now
