"""Deletes candidates, batch by batch, through the gate. The only module of the collector that is handed a deleter.

    candidates − done already − held − alive again → shuffled → groups of keys → gate open? → delete → ledger

What is held and by which code says `check_limits.holds`; it and what is alive again go to the ledger as kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.bulk_delete.codes import ALIVE_AGAIN
from dredge.gc.bulk_delete.output import stem_of
from dredge.gc.check_limits import HoldFiles, Holds
from dredge.gc.namespaces import DATA
from dredge.gc.sets.sharded import ShardedSet
from dredge.runs import ledger
from dredge.runs.clock import running_seconds
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectDeleter, open_deleter

_FIRST_GROUP = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepConfig:
    """What every task needs; a payload.

    Attributes:
        gate: what every request must pass.
        attempt: number of the try.
        turn: round between two re-checks.
        delete_keys: longest group of keys.
        alive: hashes of what was found alive since the mark.
        holds: what was proved about candidates that are held.
    """

    gate: GateConfig
    attempt: int
    turn: int
    delete_keys: int
    alive: list[ShardedSet]
    holds: HoldFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """One task; a payload.

    Attributes:
        candidates: parts of the candidates.
    """

    candidates: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """How a task ended; a payload.

    Attributes:
        stopped: whether the gate closed before everything was done.
    """

    stopped: bool


@partition_function
def sweep_parts(run: WorkerRun, config: SweepConfig, task: SweepTask) -> SweepResult:
    """Delete the candidates of some parts that are not alive, held or done."""
    gate = Gate(run.folder, run.open_state(), config.gate)
    sweeper = _Sweeper(
        run, config, gate, open_deleter(run.stores.store_uri), Holds.of(run.folder, config.holds)
    )
    for part in task.candidates:
        if not sweeper.sweep(part):
            return SweepResult(stopped=True)
    return SweepResult(stopped=False)


@dataclass(frozen=True, slots=True)
class _Sweeper:
    """Sweeps one part after the other."""

    run: WorkerRun
    config: SweepConfig
    gate: Gate
    deleter: ObjectDeleter
    holds: Holds

    def sweep(self, part: PartInfo) -> bool:
        """Sweep a part; gives whether the gate stayed open to the end."""
        rows = self._undone(part)
        kept = self._codes_of_kept(rows)
        self._note_kept(part, rows.filter(kept.is_valid()), kept.drop_null())
        doomed = _shuffled(rows.filter(kept.is_null()), f"{self.run.folder.run_id}/{stem_of(part)}")
        return self._delete(part, doomed)

    def _undone(self, part: PartInfo) -> pa.Table:
        """Candidates without a final outcome."""
        rows = self.run.folder.read_part(part)
        if not pc.all(pc.starts_with(rows["address"], DATA), min_count=0).as_py():
            raise FormatError(f"{part.name} names an object outside {DATA}. Nothing more was deleted.")
        done = ledger.finished(ledger.read_raw(self.run.folder, stem_of(part)))
        rows = rows.filter(pc.invert(pc.is_in(rows["address"], done)))
        self.run.progress.add(part.rows - rows.num_rows)
        return rows

    def _codes_of_kept(self, rows: pa.Table) -> pa.StringArray:
        """Why each candidate is kept; null for those that are to be deleted."""
        codes = self.holds.codes_of(rows)
        hashes = rows["hash"].to_numpy()
        for found in self.config.alive:
            (again,) = found.find(self.run.folder, [hashes])
            codes = pc.if_else(pa.array(again), ALIVE_AGAIN, codes)
        return codes

    def _note_kept(self, part: PartInfo, rows: pa.Table, codes: pa.StringArray) -> None:
        if not rows.num_rows:
            return
        outcomes = [ledger.KEPT] * rows.num_rows
        fencing = self.config.gate.lease.fencing
        self._write(
            part, 0, ledger.rows_of(rows, outcomes, self.config.attempt, fencing, code=codes.to_pylist())
        )

    def _delete(self, part: PartInfo, doomed: pa.Table) -> bool:
        config, gate = self.config, self.gate
        groups = _Groups(doomed, config.delete_keys, config.gate.trusted_seconds)
        for number, group in enumerate(groups, 1):
            if not gate.is_open():
                return False
            outcomes = self.deleter.delete(group["address"].to_pylist(), gate.lets_through)
            rows = ledger.outcome_rows(group, outcomes, config.attempt, config.gate.lease.fencing)
            self._write(part, number, rows)
            if gate.has_shut:
                gate.is_open()  # raises what is wrong
                return False
        return True

    def _write(self, part: PartInfo, number: int, rows: pa.Table) -> None:
        config = self.config
        ledger.write_raw(self.run.folder, stem_of(part), config.attempt, config.turn, number, rows)
        self.run.progress.add(rows.num_rows)


def _shuffled(rows: pa.Table, seed: str) -> pa.Table:
    """Rows in another order: neighbours in name share the store's partitions, and would slow each other
    down."""
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.take(pa.array(order, pa.int64())).combine_chunks()


class _Groups:
    """Cuts rows into groups that take about as long as a look through the gate is trusted.

    Args:
        rows: to be deleted.
        keys_max: longest group.
        seconds: that a group should take at most.
    """

    def __init__(self, rows: pa.Table, keys_max: int, seconds: float) -> None:
        self._rows = rows
        self._keys_max = keys_max
        self._seconds = seconds

    def __iter__(self) -> Iterator[pa.Table]:
        keys, start = min(_FIRST_GROUP, self._keys_max), 0
        while start < self._rows.num_rows:
            group = self._rows.slice(start, keys)
            begun = running_seconds()
            yield group
            start += group.num_rows
            if running_seconds() - begun > self._seconds:
                keys = max(min(_FIRST_GROUP, self._keys_max), keys // 2)
            else:
                keys = min(self._keys_max, keys * 2)
