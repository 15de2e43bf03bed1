"""Find why an object is kept, and measure the bytes kept by a single ref or snapshot. Read-only.

    ref → snapshots → manifests → chunks      an object belongs to a ref if no other ref leads to it

Each object is the first 64 bits of its id, with the lowest and the highest number of its owners: equal numbers mean a
single owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import ConfigError
from dredge.hashing import hash64
from dredge.icechunk.collection.index import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.collection.run import find_list
from dredge.icechunk.history import History
from dredge.icechunk.ids import hash_of, hashes_of_names, is_id
from dredge.icechunk.maintenance import open_state
from dredge.icechunk.repository import OBJECT_FOLDERS, ids_in_config, read_history
from dredge.runs.pending.store import parts_folder, read_rows
from dredge.storage import ObjectReader, StorageOptions, exists, open_reader, store_clock
from dredge.undo.deletions import read_deletions, read_hashes
from dredge.undo.pins import active_pins

SHARED, NO_REF = -1, -2
_ROWS_HELD = 8 << 20

type _Ints = npt.NDArray[np.int32]


class Share(Struct, frozen=True, kw_only=True):
    """The objects kept by a single ref or snapshot, and the snapshots reached only from this ref; a payload."""

    owner: str
    snapshots: int
    objects: int
    size_bytes: int


class Cost(Struct, frozen=True, kw_only=True):
    """The storage of a repository; a payload."""

    objects: int
    size_bytes: int
    unreachable_objects: int  # objects without a live reference; the next collections may delete them
    unreachable_bytes: int
    # By ref, the most bytes first; "(no ref)" has listed snapshots without a ref (spec 2).
    refs: tuple[Share, ...]
    snapshots: tuple[Share, ...]  # by snapshot, the most bytes first


class _Owners(Struct, frozen=True, kw_only=True):
    hashes: npt.NDArray[np.uint64]
    numbers: _Ints  # rows: lowest ref, highest ref, lowest snapshot, highest snapshot

    @classmethod
    def merge(cls, pieces: Sequence[_Owners]) -> _Owners:
        hashes = np.concatenate([piece.hashes for piece in pieces])
        order = np.argsort(hashes, kind="stable")
        numbers = np.concatenate([piece.numbers for piece in pieces], axis=1)[:, order]
        hashes = hashes[order]
        starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        rows = [(np.maximum if row % 2 else np.minimum).reduceat(numbers[row], starts) for row in range(4)]
        return cls(hashes=hashes[starts], numbers=np.stack(rows))


def measure_cost(reader: ObjectReader, history: History) -> Cost:
    """Measure the bytes of a repository, in total and by single ref or snapshot; reads and lists as much as a dry run.
    Raises FormatError: a live file is missing or damaged."""
    live = sorted(history.live())
    labels = [ref.label for ref in history.refs]
    of_ref = _ref_numbers(history)
    refs = np.array([of_ref.get(snapshot, NO_REF) for snapshot in live], np.int32)
    owners = _owners_by_kind(reader, history, live, refs)
    by_ref, by_snapshot = _Sums(len(labels)), _Sums(len(live))
    objects = size_bytes = unreachable_objects = unreachable_bytes = 0
    for kind, prefix in OBJECT_FOLDERS.items():
        found = owners[kind]
        for batch in reader.list(prefix):
            hashes, is_named = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))
            hashes, sizes = hashes[is_named], batch["size"].to_numpy()[is_named]
            places = np.minimum(np.searchsorted(found.hashes, hashes), max(len(found.hashes) - 1, 0))
            known = found.hashes[places] == hashes if len(found.hashes) else np.zeros(len(hashes), np.bool_)
            objects += len(hashes)
            size_bytes += int(sizes.sum())
            unreachable_objects += int((~known).sum())
            unreachable_bytes += int(sizes[~known].sum())
            numbers, sizes = found.numbers[:, places[known]], sizes[known]
            by_ref.add(numbers[0], numbers[1], sizes)
            by_snapshot.add(numbers[2], numbers[3], sizes)
    alone = np.bincount(refs - NO_REF, minlength=len(labels) - NO_REF)
    return Cost(
        objects=objects,
        size_bytes=size_bytes,
        unreachable_objects=unreachable_objects,
        unreachable_bytes=unreachable_bytes,
        refs=by_ref.shares(["(no ref)", "", *labels], alone),
        snapshots=by_snapshot.shares(["", "", *live], np.ones(len(live) - NO_REF, np.int64)),
    )


class _Sums:
    def __init__(self, owners: int) -> None:
        self.objects = np.zeros(owners - NO_REF, np.int64)
        self.bytes = np.zeros(owners - NO_REF, np.int64)

    def add(self, lowest: _Ints, highest: _Ints, sizes: npt.NDArray[np.int64]) -> None:
        owner = np.where(lowest == highest, lowest, SHARED) - NO_REF
        self.objects += np.bincount(owner, minlength=len(self.objects))
        # In whole numbers: weights of bincount are floats, which lose bytes beyond 2**53.
        np.add.at(self.bytes, owner, sizes)

    def shares(self, names: Sequence[str], snapshots: npt.NDArray[np.int64]) -> tuple[Share, ...]:
        found = [
            Share(
                owner=name,
                snapshots=int(snapshots[row]),
                objects=int(self.objects[row]),
                size_bytes=int(self.bytes[row]),
            )
            for row, name in enumerate(names)
            if name and (self.objects[row] or name != "(no ref)")
        ]
        return tuple(sorted(found, key=lambda share: (-share.size_bytes, share.owner)))


def _ref_numbers(history: History) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, ref in enumerate(history.refs):
        node: str | None = ref.tip
        # Everything below a shared snapshot is shared already.
        while node is not None and found.get(node) != SHARED:
            found[node] = SHARED if node in found else number
            node = history.snapshots[node].parent_id
    return found


def _owners_by_kind(
    reader: ObjectReader, history: History, live: Sequence[str], refs: _Ints
) -> Mapping[str, _Owners]:
    number_of = {snapshot: number for number, snapshot in enumerate(live)}
    rows = list(snapshot_rows(reader, live))
    named = [(manifest, number_of[row.snapshot]) for row in rows for manifest in row.manifests]
    logs = list(number_of.items())
    logs += [(log, number_of[node]) for node in live for log in history.snapshots[node].pruned]
    manifests = _owners_of(named, refs)
    places = {manifest: np.searchsorted(manifests.hashes, hash_of(manifest)) for manifest, _ in named}
    pieces, held = [_owners_of([], refs)], 0
    for manifest, chunks in manifest_rows(reader, refs_by_manifest(rows)):
        numbers = manifests.numbers[:, places[manifest]][:, None]
        pieces.append(_Owners(hashes=chunks.native, numbers=np.repeat(numbers, len(chunks.native), axis=1)))
        if len(chunks.virtual):  # the location of a virtual chunk: kept without other references
            shared = np.full((4, len(chunks.virtual)), SHARED, np.int32)
            pieces.append(_Owners(hashes=chunks.virtual, numbers=shared))
        held += len(chunks.all)
        if held > _ROWS_HELD:
            pieces, held = [_Owners.merge(pieces)], 0
    return {
        "snapshots": _owners_of(list(number_of.items()), refs),
        "transactions": _owners_of(logs, refs),
        "manifests": manifests,
        "chunks": _Owners.merge(pieces),
    }


def _owners_of(named: Sequence[tuple[str, int]], refs: _Ints) -> _Owners:
    hashes = np.fromiter((hash_of(name) for name, _ in named), np.uint64, len(named))
    snapshots = np.fromiter((number for _, number in named), np.int32, len(named))
    owner = refs[snapshots]
    found = _Owners(hashes=hashes, numbers=np.stack([owner, owner, snapshots, snapshots]))
    return _Owners.merge([found]) if len(named) else found


class Answer(Struct, frozen=True, kw_only=True):
    """The reasons why an object is kept, or its deletion; a payload."""

    keys: tuple[str, ...]
    snapshots: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()  # labels of the refs of the live snapshots with a reference to it
    virtual_in: tuple[str, ...] = ()  # manifests with the id in the location of a virtual chunk: it is kept
    in_config: bool = False  # whether a container of virtual chunks in the configuration has it: it is kept
    pinned_until: datetime | None = None
    waiting: tuple[Mapping[str, Any], ...] = ()  # its rows of the pending list: status, beginning of the wait
    # Runs with it among their candidates, the newest first, with the undo way of each.
    deleted_by: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def is_kept(self) -> bool:
        """Whether anything keeps the object now."""
        return bool(self.snapshots or self.virtual_in or self.in_config or self.pinned_until)


def find_why(uri: str, name: str, options: StorageOptions | None = None) -> Answer:
    """Find why an object is kept, or its deletion, by its id or a key such as `chunks/1CECHNKREP0F1RSTCMT0`. Raises as
    `read_history` and `manifest_rows`, and ConfigError for other names."""
    folder, _, found_id = name.rpartition("/")
    if not is_id(found_id) or (folder and f"{folder}/" not in OBJECT_FOLDERS.values()):
        folders = ", ".join(OBJECT_FOLDERS.values())
        raise ConfigError(f"{name!r} is neither an Icechunk object id nor a key below {folders}")
    reader, state = open_reader(uri, options), open_state(uri, options)
    history, now = read_history(reader), store_clock(state, "")
    places = [prefix + found_id for prefix in OBJECT_FOLDERS.values() if not folder or prefix == f"{folder}/"]
    keys = tuple(key for key in places if exists(reader, key))
    snapshots, virtual = _needed_by(reader, history, found_id, folder)
    reached = {ref.label for ref in history.refs if not snapshots.isdisjoint(history.ancestry(ref.tip))}
    hashes = hash64(pa.array(places, pa.string())).tolist()
    pins = [pin.until for pin in active_pins(state, now) if any(map(pin.has, hashes))]
    return Answer(
        keys=keys,
        snapshots=tuple(sorted(snapshots)),
        refs=tuple(sorted(reached)),
        virtual_in=tuple(sorted(virtual)),
        in_config=found_id in ids_in_config(reader),
        pinned_until=max(pins, default=None),
        waiting=tuple(_pending_rows(state, uri, places, now)),
        deleted_by=tuple(_deletions(state, found_id)),
    )


def _needed_by(
    reader: ObjectReader, history: History, found_id: str, folder: str
) -> tuple[set[str], set[str]]:
    live = sorted(history.live())
    rows = list(snapshot_rows(reader, live))
    named: dict[str, set[str]] = {}
    for row in rows:
        for manifest in row.manifests:
            named.setdefault(manifest, set()).add(row.snapshot)
    found = set(named.get(found_id, ()))
    found |= {
        entry.id for entry in history.snapshots.values() if found_id == entry.id or found_id in entry.pruned
    } & set(live)
    virtual: set[str] = set()
    wanted = np.uint64(hash_of(found_id))
    if folder in ("", "chunks") or not found:
        for manifest, chunks in manifest_rows(reader, refs_by_manifest(rows)):
            if wanted in chunks.native:
                found |= named[manifest]
            if wanted in chunks.virtual:
                virtual.add(manifest)
    return found, virtual


def _pending_rows(
    state: ObjectReader, uri: str, keys: Sequence[str], now: datetime
) -> Iterator[Mapping[str, Any]]:
    pending = find_list(state, uri, lambda: now).pending
    if pending is None:
        return
    for part in pending.parts.values():
        rows = read_rows(parts_folder(state, pending.run_id), [part])
        for row in rows.filter(pc.is_in(rows["address"], pa.array(keys, pa.string()))).to_pylist():
            since = None if row["since"] is None else row["since"].isoformat()
            yield {"key": row["address"], "status": row["status"], "since": since, "run_id": row["run_id"]}


def _deletions(state: ObjectReader, found_id: str) -> Iterator[Mapping[str, Any]]:
    found = sorted(read_deletions(state).found, key=lambda deletion: deletion.at, reverse=True)
    wanted = np.uint64(hash_of(found_id))
    for deletion, hashes in zip(found, read_hashes(state, found), strict=True):
        if not isinstance(hashes, str) and wanted in hashes:
            yield {"run_id": deletion.run_id, "at": deletion.at.isoformat(), "undo": deletion.way}
