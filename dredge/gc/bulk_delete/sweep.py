"""Deletes candidates in groups, through the gate. The only module of the collector with a deleter.

    candidates − done − held − pinned − live again → shuffled → groups of keys
                          → gate open? → not in a new commit → protect (undo) → delete → ledger

Holds come from `check_limits.holds`; held and live candidates go to the ledger as kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.bulk_delete.outcomes import ALIVE_AGAIN
from dredge.gc.check_limits import HoldFiles, Holds
from dredge.gc.namespaces import DATA
from dredge.gc.subtract import NESTED, begin_with
from dredge.runs import ledger
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig
from dredge.runs.summary import PartInfo
from dredge.runs.sweep import DeletingTask
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import Hashes, contains, read_hashes
from dredge.sets.live import LocatedSet, ShardedSet, in_any
from dredge.storage import open_deleter
from dredge.storage.parallel import at_once
from dredge.undo.pins import PINNED
from dredge.undo.protecting import GROUP_KEYS, protection
from dredge.undo.ways import OFF, QUARANTINE

# The default number of keys in flight of a deleter.
_FIRST_GROUP = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepConfig:
    """The config of a round of deleting; a payload."""

    gate: GateConfig
    turn: int  # number of the round
    delete_keys: int  # longest group of keys
    alive: list[ShardedSet]  # hashes found live since the mark
    holds: HoldFiles
    pinned: tuple[LocatedSet, ...] = ()  # hashes of restored objects
    undo: str = OFF  # the undo way
    nested: tuple[str, ...] = ()  # folders of other repositories


@partition_function
def sweep_parts(run: WorkerRun, config: SweepConfig, candidates: list[PartInfo]) -> bool:
    """Delete the candidates of some files, except live, held and done candidates; return whether the gate closed before
    the end."""
    protect = protection(config.undo, run.stores.store_uri, run.stores.run_uri)
    used = InUse(run.folder)
    deleter = open_deleter(run.stores.store_uri)
    deleting = DeletingTask(run, deleter, config.gate, config.turn, protect, used.codes_of)
    keys_max = min(GROUP_KEYS, config.delete_keys) if config.undo == QUARANTINE else config.delete_keys
    holds = Holds.of(run.folder, config.holds)
    with at_once() as ask:  # the first part is read beside the first check of the gate
        ask(deleting.is_open)
        first = [deleting.undone(part, DATA) for part in candidates[:1]]
    for part in candidates:
        rows = first.pop() if first else deleting.undone(part, DATA)
        kept = _codes_of_kept(run, config, holds, rows)
        deleting.keep(part, rows.filter(kept.is_valid()), kept.drop_null().to_pylist())
        doomed = _shuffled(rows.filter(kept.is_null()), f"{run.folder.run_id}/{ledger.part_stem(part)}")
        if not deleting.delete(part, _groups(doomed, keys_max, config.gate.trusted_seconds)):
            return True
    return False


class InUse:
    """The hashes published by the driver (`head_watch.Published`), in a task."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._read: dict[str, Hashes] = {}

    def codes_of(self, parts: Sequence[PartInfo], rows: pa.Table) -> pa.StringArray:
        """The code of each candidate of a new commit; null for others."""
        self._read = {
            part.sha256: self._read[part.sha256]
            if part.sha256 in self._read
            else read_hashes(self._folder, part)
            for part in parts
        }
        wanted = rows["hash"].to_numpy()
        named = np.zeros(len(wanted), bool)
        for hashes in self._read.values():
            named |= contains(hashes, wanted)
        return pc.if_else(pa.array(named), ALIVE_AGAIN, pa.scalar(None, pa.string()))


def _codes_of_kept(run: WorkerRun, config: SweepConfig, holds: Holds, rows: pa.Table) -> pa.StringArray:
    """The code of each kept candidate; null for those to be deleted."""
    codes = holds.codes_of(rows)
    nested = begin_with(rows["address"], config.nested)
    codes = pc.if_else(pc.and_(pa.array(nested), pc.is_null(codes)), NESTED, codes)
    hashes = rows["hash"].to_numpy()
    (pinned,) = in_any(config.pinned, [hashes])
    codes = pc.if_else(pa.array(pinned), PINNED, codes)
    for found in config.alive:
        (again,) = found.find(run.folder, [hashes])
        codes = pc.if_else(pa.array(again), ALIVE_AGAIN, codes)
    return codes


def _shuffled(rows: pa.Table, seed: str) -> pa.Table:
    # Neighbours in name share the store's partitions, and would slow each other down.
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.take(pa.array(order, pa.int64())).combine_chunks()


def _groups(rows: pa.Table, keys_max: int, seconds: float) -> Iterator[pa.Table]:
    """Cut rows into groups of at most `keys_max` keys, each for about `seconds`: an open gate is trusted so long."""
    keys, start = min(_FIRST_GROUP, keys_max), 0
    while start < rows.num_rows:
        begun = running_seconds()
        yield rows.slice(start, keys)
        start += keys
        if running_seconds() - begun > seconds:
            keys = max(min(_FIRST_GROUP, keys_max), keys // 2)
        else:
            keys = min(keys_max, keys * 2)
