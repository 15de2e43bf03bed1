"""What every sweep does around its deleting: no old mark, the ledger settled whatever happened, and, in each task,
nothing deleted without the gate and a row in the ledger.

    driver   refuse_old_mark → sweep_then_settle ┬ sweep   re-check, then tasks that delete
                                                 └ settle  one row for each object, and figures
    task     DeletingTask    undone → keep, protect and delete group by group
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError, RefusedError
from dredge.runs import ledger
from dredge.runs.failures import as_partial, foreseen, partial_after
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.rendering import duration_text
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun
from dredge.storage import NOT_SENT, DeleteOutcome, ListedDeleter, ObjectDeleter, ObjectInfo
from dredge.storage.model import MaySend

log = logging.getLogger("dredge")

_DESCRIBED = ("size", "last_modified", "etag")
_TURNS_MAX = 3
"""So often a group is sent again for the sake of keys that failed otherwise than by being held back."""


@dataclass(frozen=True, slots=True)
class Protected:
    """Whether an object may be deleted.

    Attributes:
        outcome: "" when it may; else what the ledger says became of it.
        code: of what kept it, or of the store's error.
        message: the store's words.
    """

    outcome: str = ""
    code: str | None = None
    message: str | None = None


type Protect = Callable[[pa.Table, MaySend], list[Protected]]
"""Makes sure that the deletion of a group of candidates can be taken back, right before it; says of each row whether it
may be deleted. What was not let through has the outcome "failed" and the code `NOT_SENT`."""


type StillUsed = Callable[[Sequence[PartInfo], pa.Table], pa.StringArray]
"""Gives for each row the code that keeps it because it came into use while workers delete, or null. The parts are what
the driver published; see `dredge.runs.gate.publish`."""


def refuse_old_mark(run_id: str, planned_at: datetime, now: datetime, age_max: timedelta) -> None:
    """Refuse to delete for a mark that is too old.

    Args:
        run_id: for the message.
        planned_at: the store's time when the run was planned, which is before its mark.
        now: the store's time.
        age_max: oldest mark that may be swept.

    Raises:
        RefusedError: it is older.
    """
    age = now - planned_at
    if age > age_max:
        raise RefusedError(
            f"run {run_id} was planned {duration_text(age)} ago; a mark older than {duration_text(age_max)} is not"
            " swept. Nothing (more) was deleted. Start a new run."
        )


def sweep_then_settle(
    record: StepRecord,
    what: str,
    uri: str,
    sweep: Callable[[], None],
    settle: Callable[[bool], DredgeError | None],
    has_begun: Callable[[], bool],
) -> None:
    """Delete, and settle the ledger whatever stopped the deleting.

    Args:
        record: of the step; gets the status and the error to end with, when not all was deleted.
        what: names the sweep in the error of a defect.
        uri: where the run lies, for the same.
        sweep: deletes.
        settle: counts in the record what became of each object; is told whether the sweep went through all of them,
            and gives the error for objects that could not be deleted.
        has_begun: whether anything may have been deleted.

    Raises:
        DredgeError: the ledger could not be settled after a sweep that nothing stopped.
    """
    stopped: DredgeError | None = None
    try:
        with foreseen(what, uri):
            sweep()
    except DredgeError as error:
        stopped = error
    with partial_after(lambda: what_was_deleted(record, has_begun())):
        try:
            failed = settle(stopped is None)
        except DredgeError:
            if stopped is None:
                raise
            log.exception("the ledger could not be settled")
            failed = None
    error_to_end_with = stopped or failed
    if error_to_end_with is not None:
        record.status = "partial"
        record.error = as_partial(error_to_end_with, what_was_deleted(record, has_begun()))


def what_was_deleted(record: StepRecord, has_begun: bool) -> str:
    """Say in a sentence what a sweep has deleted; "" when it has deleted nothing.

    Args:
        record: of the step.
        has_begun: whether anything may have been deleted, as long as the ledger is not settled.
    """
    deleted = record.counts.get("deleted_objects")
    if deleted is None:  # the ledger was not settled
        return "What was deleted is in the ledger." if has_begun else ""
    return f"{deleted:,} objects were deleted; the ledger names them." if deleted else ""


class DeletingTask:
    """One task of a sweep.

    Args:
        run: as the task sees it.
        deleter: on what is collected.
        gate: what must hold before each request.
        turn: round between two re-checks; makes the names of the ledger's raw files.
        protect: what comes before each group is deleted; None for nothing.
        still_used: which rows of a group came into use since the re-check; None where the driver publishes nothing.

    Attributes:
        failed: objects that could not be deleted.
        kept: objects that stay for other reasons, those of earlier tries included.
    """

    def __init__(
        self,
        run: WorkerRun,
        deleter: ObjectDeleter,
        gate: GateConfig,
        turn: int = 0,
        protect: Protect | None = None,
        still_used: StillUsed | None = None,
    ) -> None:
        self.failed = self.kept = 0
        self._run = run
        self._deleter = deleter
        self._gate = Gate.of_task(run, gate)
        self._attempt = self._gate.attempt.number
        self._fencing = gate.lease.fencing
        self._turn = turn
        self._protect = protect
        self._still_used = still_used

    def undone(self, part: PartInfo, folder: str) -> pa.Table:
        """Read the candidates of a part that have no final outcome yet.

        Args:
            part: of the candidates.
            folder: where all of them must lie, with its slash.

        Raises:
            FormatError: one lies elsewhere.
        """
        rows = self._run.folder.read_part(part)
        if not pc.all(pc.starts_with(rows["address"], folder), min_count=0).as_py():
            raise FormatError(f"{part.name} names an object outside {folder}. Nothing more was deleted.")
        known = ledger.read_raw(self._run.folder, ledger.stem_of(part))
        self.kept += pc.sum(pc.equal(known["outcome"], ledger.KEPT)).as_py() or 0
        done = ledger.finished(known)
        undone = rows.filter(pc.invert(pc.is_in(rows["address"], done)))
        self._run.progress.add(rows.num_rows - undone.num_rows)
        return undone

    def keep(self, part: PartInfo, rows: pa.Table, codes: Sequence[str]) -> None:
        """Write into the ledger that candidates of a part are kept.

        Args:
            part: of the candidates.
            rows: with address, size and reason.
            codes: why, one for each row.
        """
        if rows.num_rows:
            kept = [ledger.KEPT] * rows.num_rows
            self.kept += rows.num_rows
            self._write(part, 0, ledger.rows_of(rows, kept, self._attempt, self._fencing, code=codes))

    def delete(self, part: PartInfo, groups: Iterable[pa.Table]) -> bool:
        """Delete candidates of a part, group by group, as long as the gate is open.

        Args:
            part: of the candidates.
            groups: with address, size and reason; the next one is taken when the last one is done.

        Returns:
            Whether all were gone through; no when the gate is closed.

        Raises:
            LeaseHeldError: the right to delete is lost.
            OvertakenError: the sweep is being tried again elsewhere.
        """
        return all(self._delete_group(part, number, group) for number, group in enumerate(groups, 1))

    def _delete_group(self, part: PartInfo, number: int, candidates: pa.Table) -> bool:
        """Delete a group; what was held back because more came into use meanwhile is compared and sent again."""
        left = candidates
        for turn in itertools.count(1):
            if not self._gate.is_open():
                return False
            known, group, left = self._gate.number, self._unused(part, left), left.slice(0, 0)
            if self._protect is not None and group.num_rows:
                group, held_back = self._protected(part, number, group)
                if not self._gate.has_shut and not self._gate.is_open():
                    return False
                left = held_back if self._gate.number != known else left
                group = self._unused(part, group)
            if group.num_rows:
                left = pa.concat_tables([left, self._sent(part, number, group, turn)])
            if self._gate.has_shut:
                self._gate.is_open()  # raises what is wrong
                return False
            if not left.num_rows:
                break
        return True

    def _unused(self, part: PartInfo, group: pa.Table) -> pa.Table:
        """The rows of a group that did not come into use since the re-check; the others go to the ledger as kept."""
        if not self._gate.published or not group.num_rows:
            return group
        if self._still_used is None:
            raise FormatError(
                f"{part.name}: what came into use is published, and this task cannot compare with it"
            )
        codes = self._still_used(self._gate.published, group)
        used = codes.is_valid()
        self.keep(part, group.filter(used), codes.drop_null().to_pylist())
        return group.filter(codes.is_null())

    def _sent(self, part: PartInfo, number: int, group: pa.Table, turn: int) -> pa.Table:
        """Delete the rows of a group; gives those to try again because more came into use meanwhile."""
        known = self._gate.number
        outcomes = self._delete(group, self._gate.permission())
        self._write(part, number, ledger.outcome_rows(group, outcomes, self._attempt, self._fencing))
        is_cut_short = self._gate.number != known and not self._gate.has_shut
        # A deleter that was held back between two attempts gives the outcome of the first one.
        again = [
            is_cut_short and item.outcome == ledger.FAILED and (item.code == NOT_SENT or turn < _TURNS_MAX)
            for item in outcomes
        ]
        self._count([item.outcome for item, is_again in zip(outcomes, again, strict=True) if not is_again])
        return group.filter(pa.array(again, pa.bool_()))

    def _delete(self, group: pa.Table, may_send: MaySend) -> list[DeleteOutcome]:
        """Delete a group: exactly what was listed, where the store can do that."""
        names = group["address"].to_pylist()
        if not isinstance(self._deleter, ListedDeleter) or not {*_DESCRIBED} <= {*group.column_names}:
            return self._deleter.delete(names, may_send)
        described = zip(*(group[name].to_pylist() for name in _DESCRIBED), strict=True)
        listed = [ObjectInfo(name, *about) for name, about in zip(names, described, strict=True)]
        return self._deleter.delete_listed(listed, may_send)

    def _protected(self, part: PartInfo, number: int, group: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows of a group that may be deleted, and those that were held back; what became of the others goes to
        the ledger."""
        assert self._protect is not None
        found = self._protect(group, self._gate.permission())
        told = [bool(item.outcome) and item.code != NOT_SENT for item in found]
        items = [item for item, is_told in zip(found, told, strict=True) if is_told]
        if items:
            self._count([item.outcome for item in items])
            rows = ledger.rows_of(
                group.filter(pa.array(told, pa.bool_())),
                [item.outcome for item in items],
                self._attempt,
                self._fencing,
                code=[item.code for item in items],
                message=[item.message for item in items],
            )
            self._write(part, number, rows)
        held_back = pa.array([item.code == NOT_SENT for item in found], pa.bool_())
        return group.filter(pa.array([not item.outcome for item in found], pa.bool_())), group.filter(
            held_back
        )

    def _count(self, outcomes: Sequence[str]) -> None:
        self.failed += outcomes.count(ledger.FAILED)
        self.kept += outcomes.count(ledger.KEPT)

    def _write(self, part: PartInfo, number: int, rows: pa.Table) -> None:
        name = ledger.stem_of(part)
        ledger.write_raw(self._run.folder, name, self._attempt, self._turn, number, rows)
        self._run.progress.add(rows.num_rows)
