"""What was brought back and is kept for now, with what it needs.

A pin names what a run had deleted. A snapshot that came back needs more: manifests and chunks that it shared with
snapshots which were live then, and which may have been released since.

    snapshots with a pin → their ancestors, logs, manifests ─┐
    manifests with a pin ────────────────────────────────────┴→ chunks

What of all that is not there, or is damaged, is passed over: it makes nothing live, so nothing must be there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.hashing import hash64
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import ID_BYTES, encode_ids
from dredge.sets.files import write_hashes
from dredge.sets.hashes import NONE, Hashes, to_bytes, unite
from dredge.sets.live import LocatedSet, in_any
from dredge.sets.sharded import ShardedSet
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map
from dredge.undo.protecting import is_archived

_SNAPSHOTS, _LOGS, _MANIFESTS, _CHUNKS = (
    OBJECT_FOLDERS[kind] for kind in ("snapshots", "transactions", "manifests", "chunks")
)


def pinned_with_needs(run: Run, step: str) -> tuple[LocatedSet, ...]:
    """Give hashes of the keys of what is kept for now, as of now.

    Args:
        run: its folder gets a file when there is a pin.
        step: at work.

    Raises:
        FormatError: a pin cannot be read, so nobody can tell what it holds.
    """
    pins = run.pinned()
    if not pins:
        return ()
    held = {*_held(run.reader, _SNAPSHOTS, pins), *_held(run.reader, _MANIFESTS, pins)}
    return (*pins, with_needs(run, f"{step}/_needed_by_pinned", held))


def with_needs(run: Run, name: str, kept: Collection[str], *, passes_archived: bool = False) -> LocatedSet:
    """Write hashes of the keys of some snapshots and manifests, and of what these need.

    Args:
        run: its folder gets the file.
        name: how the file's name begins.
        kept: keys.
        passes_archived: pass over files that are archived, too: garbage stays there, as it cannot be copied, for nobody
            who needs it. What has a pin is needed.

    Raises:
        ConfigError: a file cannot be read.
    """
    needed = _needed(run, kept, passes_archived)
    digest = hashlib.sha256(to_bytes(needed)).hexdigest()[:16]
    return LocatedSet(
        run.folder.uri, ShardedSet(0, {0: write_hashes(run.folder, f"{name}-{digest}.u64", needed)})
    )


def _needed(run: Run, kept: Collection[str], passes_archived: bool) -> Hashes:
    get = partial(_get_unless_archived, run.reader) if passes_archived else run.reader.get
    threads = run.plan.config.tuning.threads
    keys = {key for key in kept if key.startswith(_SNAPSHOTS)}
    manifests, waiting = {key for key in kept if key.startswith(_MANIFESTS)}, set(keys)
    while waiting:
        found = [item for item in ordered_map(partial(_named_by, get), sorted(waiting), threads) if item]
        manifests |= {_MANIFESTS + manifest for _, named in found for manifest in named}
        waiting = {_SNAPSHOTS + parent for parent, _ in found if parent is not None} - keys
        keys |= waiting
    logs = {_LOGS + key.removeprefix(_SNAPSHOTS) for key in keys}
    found_chunks = ordered_map(partial(_chunks_of, get), sorted(manifests), threads)
    return unite([hash64(pa.array(sorted(keys | logs | manifests), pa.string())), *found_chunks])


def _held(reader: ObjectReader, prefix: str, pins: Sequence[LocatedSet]) -> Iterator[str]:
    """Keys of a folder that have a pin."""
    for batch in reader.list(prefix):
        (held,) = in_any(pins, [hash64(batch["key"])], its_shards_only=True)
        yield from batch["key"].filter(pa.array(held)).to_pylist()


def _named_by(get: Callable[[str], bytes], key: str) -> tuple[str | None, list[str]] | None:
    """Parent and manifests of a snapshot."""
    try:
        found = parse_snapshot(get(key), key)
    except (NotFoundError, FormatError):
        return None
    return found.parent_id, [info.id for info in found.manifests]


def _chunks_of(get: Callable[[str], bytes], key: str) -> Hashes:
    """Hashes of the keys of a manifest's chunks."""
    try:
        found = parse_manifest(get(key), key)
    except (NotFoundError, FormatError):
        return NONE
    try:
        virtual = pa.array(found.virtual_ids(key), pa.string())
    except FormatError:  # what it names itself stays all the same
        virtual = pa.array([], pa.string())
    ids = np.concatenate(
        [np.empty((0, ID_BYTES), np.uint8), *(item.ids[item.kind == NATIVE] for item in found.arrays)]
    )
    names = (encode_ids(ids), virtual)
    return unite([hash64(pc.binary_join_element_wise(_CHUNKS, some, "")) for some in names])


def _get_unless_archived(reader: ObjectReader, key: str) -> bytes:
    """Read a file; one that is archived is as good as gone."""
    try:
        return reader.get(key)
    except ConfigError as error:
        if not is_archived(error):
            raise
        raise NotFoundError(str(error)) from None
