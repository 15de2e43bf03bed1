"""Delete the candidates of some parts. Only this module of the collection has a deleter."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.repository import FOLDERS, names_of
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig
from dredge.runs.payload import PartInfo
from dredge.runs.sweep import DeletingTask
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import contains, read_hashes
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import open_deleter
from dredge.undo.pins import PINNED
from dredge.undo.protecting import GROUP_KEYS, protection
from dredge.undo.ways import QUARANTINE

ALIVE_CODE = "alive_again"
NAMING = frozenset({"snapshots", "manifests"})
"""Kinds with references to objects of later kinds."""
NAMED_BY_KEPT = "named_by_kept"
"""Code of an object kept because a kept file refers to it. That file is held by the store, or could not be copied."""


class DeleteConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks."""

    gate: GateConfig
    delete_keys: int
    alive: dict[str, PartInfo]  # sets of objects that became live after the mark, by kind
    # Restored objects that are kept for now; read again, because a run may have waited.
    pinned: tuple[LocatedSet, ...]
    undo: str
    begun: bool  # whether the ledger has rows of an earlier try
    named: tuple[LocatedSet, ...] = ()  # objects that kept files of this sweep refer to


class DeleteTask(Struct, frozen=True, kw_only=True):
    """Kinds in the order of deletion, each with parts of its candidates; `needed` has the names of the copies of the
    repo info that the operations log needs now."""

    kinds: list[str]  # a payload keeps no order of keys
    parts: dict[str, list[PartInfo]]
    needed: list[str] = field(default_factory=list)


class DeleteResult(Struct, frozen=True, kw_only=True):
    """The last kind begun, with its failed and kept objects; `stopped` if the gate closed before the end."""

    last: str
    stopped: bool
    failed: int
    kept: int


@partition_function
def delete_parts(run: WorkerRun, config: DeleteConfig, task: DeleteTask) -> DeleteResult:
    """Delete the candidates of some parts, except live ones and those of an earlier try. Raises FormatError: a
    candidate is outside the folder of its kind; LeaseHeldError, OvertakenError: another run, or a later try of the
    sweep, has taken over."""
    protect = protection(config.undo, run.stores.store_uri, run.stores.run_uri)
    deleting = DeletingTask(run, open_deleter(run.stores.store_uri), config.gate, protect=protect)
    keys_max = min(GROUP_KEYS, config.delete_keys) if config.undo == QUARANTINE else config.delete_keys

    def delete(kind: str, part: PartInfo) -> bool:
        rows = deleting.undone(part, FOLDERS[kind], config.begun)
        alive = _alive(run.folder, config, kind, task.needed, rows)
        hashes = [rows["hash"].to_numpy()]
        (pinned,) = in_any(config.pinned, hashes, its_shards_only=True)
        (named,) = in_any(config.named, hashes, its_shards_only=True)
        stays = alive | pinned | named
        codes = np.select([alive, pinned], [ALIVE_CODE, PINNED], NAMED_BY_KEPT)[stays].tolist()
        deleting.keep(part, rows.filter(pa.array(stays)), codes)
        return deleting.delete(part, _groups(rows.filter(pa.array(~stays)), keys_max))

    for kind in task.kinds:
        before = deleting.kept
        stopped = not all(delete(kind, part) for part in task.parts[kind])
        kept = deleting.kept - before
        if stopped or deleting.failed or (kept and kind in NAMING):
            break
    return DeleteResult(last=kind, stopped=stopped, failed=deleting.failed, kept=kept)


def _groups(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    whole = rows.combine_chunks()
    for start in range(0, whole.num_rows, size):
        yield whole.slice(start, size)


def _alive(
    folder: RunFolder, config: DeleteConfig, kind: str, needed: Sequence[str], rows: pa.Table
) -> npt.NDArray[np.bool_]:
    hashes, is_id = hashes_of_names(names_of(kind, rows["address"]))
    copies = pa.array([FOLDERS[kind] + name for name in needed], pa.string())
    found: npt.NDArray[np.bool_] = pc.is_in(rows["address"], copies).to_numpy()
    # A candidate that is no id cannot have come from the listing: it stays.
    return found | contains(read_hashes(folder, config.alive[kind]), hashes) | ~is_id
