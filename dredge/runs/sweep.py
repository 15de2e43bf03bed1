"""The workers of all sweeps: in each task, the gate, and a row in the ledger for each object.

`dredge.approve.sweep` is their driver.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import FormatError
from dredge.runs import ledger
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import WorkerRun
from dredge.storage import NOT_SENT, DeleteOutcome, ListedDeleter, ObjectDeleter, ObjectInfo, exists
from dredge.storage.model import MaySend
from dredge.storage.parallel import ordered_map

_DESCRIBED = ("size", "last_modified", "etag")
# Maximum number of requests for a key that the store failed to delete.
_TURNS_MAX = 3


class Protected(Struct, frozen=True):
    """Whether an object may be deleted."""

    outcome: str = ""  # "" if it may; else its outcome in the ledger
    code: str | None = None  # why it is kept, or the store's error
    message: str | None = None


# Protects a group of candidates right before its deletion, such as by copies; returns for each row whether it
# may be deleted. A row that was held back has the outcome "failed" and the code `NOT_SENT`.
type Protect = Callable[[pa.Table, MaySend], list[Protected]]


# Returns the code that keeps a row because it became live during the sweep, or null. The parts are those of
# `dredge.runs.gate.publish`.
type StillUsed = Callable[[Sequence[PartInfo], pa.Table], pa.StringArray]


class DeletingTask:
    """A task of a sweep.

    Args:
        gate: checks before each request.
        turn: round between two re-checks; part of the names of the ledger's raw files.
        protect: called before each group is deleted; None for no protection.
        still_used: rows in use since the re-check; None without publications.
        live_code: of live candidates: one without an object is missing, not kept; None keeps all.

    Attributes:
        failed: number of failed deletions.
        kept: number of objects kept for other reasons, including earlier tries.
    """

    def __init__(
        self,
        run: WorkerRun,
        deleter: ObjectDeleter,
        gate: GateConfig,
        turn: int = 0,
        protect: Protect | None = None,
        still_used: StillUsed | None = None,
        live_code: str | None = None,
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
        self._live_code = live_code

    def is_open(self) -> bool:
        """Whether the gate is open; see `Gate.is_open`."""
        return self._gate.is_open()

    def undone(self, part: PartInfo, folder: str, begun: bool = True) -> pa.Table:
        """Read the candidates of a part without a final outcome. Raises FormatError if a candidate has another prefix.
        `folder`: prefix of all candidates, with its slash. `begun`: False if the ledger was empty after this try was
        claimed; then no outcome is read."""
        rows = self._run.folder.read_part(part)
        if not pc.all(pc.starts_with(rows["address"], folder), min_count=0).as_py():
            raise FormatError(
                f"{part.name} has an object outside {folder}. No more was deleted. Start a new run."
            )
        if not begun:
            return rows
        known = ledger.read_raw(self._run.folder, ledger.part_stem(part))
        self.kept += pc.sum(pc.equal(known["outcome"], ledger.KEPT)).as_py() or 0
        done = ledger.finished(known)
        undone = rows.filter(pc.invert(pc.is_in(rows["address"], done)))
        self._run.progress.add(rows.num_rows - undone.num_rows)
        return undone

    def keep(self, part: PartInfo, rows: pa.Table, codes: Sequence[str]) -> None:
        """Write candidates of a part into the ledger as kept. `rows`: with address, size and reason."""
        if rows.num_rows:
            gone = self._missing(rows, codes)
            outcomes = [ledger.MISSING if row in gone else ledger.KEPT for row in range(rows.num_rows)]
            self.kept += rows.num_rows - len(gone)
            self._write(part, 0, ledger.rows_of(rows, outcomes, self._attempt, self._fencing, code=codes))

    def _missing(self, rows: pa.Table, codes: Sequence[str]) -> set[int]:
        # An earlier try may have deleted a live one without a row. No later run looks for kept ones.
        live = [row for row, code in enumerate(codes) if code == self._live_code]
        if not live:
            return set()
        names = rows["address"].take(pa.array(live)).to_pylist()
        there = ordered_map(partial(exists, self._run.open_store()), names)
        return {row for row, is_there in zip(live, there, strict=True) if not is_there}

    def delete(self, part: PartInfo, groups: Iterable[pa.Table]) -> bool:
        """Delete candidates of a part, group by group, while the gate is open. `groups`: with address, size and reason;
        the next one is requested after the last one was deleted. Returns whether all groups were processed; False if
        the gate is closed. Raises LeaseHeldError: the lease is lost; OvertakenError: another try of the sweep has
        started."""
        return all(self._delete_group(part, number, group) for number, group in enumerate(groups, 1))

    def _delete_group(self, part: PartInfo, number: int, candidates: pa.Table) -> bool:
        """Delete a group; rows held back by a new publication are compared and sent again."""
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
                self._gate.is_open()  # raises the error
                return False
            if not left.num_rows:
                break
        return True

    def _unused(self, part: PartInfo, group: pa.Table) -> pa.Table:
        """Return the rows not in use since the re-check; the ledger gets the others as kept."""
        if not self._gate.published or not group.num_rows:
            return group
        if self._still_used is None:
            raise FormatError(
                f"{part.name}: objects became live during the sweep, and this task cannot compare its candidates with"
                " them. Nothing more was deleted. Start a new run."
            )
        codes = self._still_used(self._gate.published, group)
        used = codes.is_valid()
        self.keep(part, group.filter(used), codes.drop_null().to_pylist())
        return group.filter(codes.is_null())

    def _sent(self, part: PartInfo, number: int, group: pa.Table, turn: int) -> pa.Table:
        """Delete rows; returns the rows to send again after a new publication."""
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
        names = group["address"].to_pylist()
        if not isinstance(self._deleter, ListedDeleter) or not {*_DESCRIBED} <= {*group.column_names}:
            return self._deleter.delete(names, may_send)
        described = zip(*(group[name].to_pylist() for name in _DESCRIBED), strict=True)
        listed = [ObjectInfo(name, *about) for name, about in zip(names, described, strict=True)]
        return self._deleter.delete_listed(listed, may_send)

    def _protected(self, part: PartInfo, number: int, group: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the deletable rows, and the held-back rows; the ledger gets the others."""
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
        name = ledger.part_stem(part)
        ledger.write_raw(self._run.folder, name, self._attempt, self._turn, number, rows)
        self._run.progress.add(rows.num_rows)
